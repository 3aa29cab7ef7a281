"""Report shares of data that overlap, since each worker shuffled the whole in an order of its own.

Every worker takes each N-th sample, but of another order than the others': some samples are trained by two workers in
an epoch, some by none. The cut has to come before the shuffle, or the shuffle needs a seed that is the same on all
workers. `tf.data.Dataset.list_files` and Keras's `image_dataset_from_directory` shuffle without being told to.

before:
    dataset = dataset.shuffle(10000).shard(hvd.size(), hvd.rank())
after:
    dataset = dataset.shuffle(10000).shard(hvd.size(), hvd.rank())

Leaves alone: a cut before the shuffle; shuffles with a seed, their own or one for the whole script; scripts on
lockstep, which gives all workers one seed; each worker's own shuffle of the whole data, which is not cut.
Refuses: in npu_device and Horovod, a share of a dataset or an array that is shuffled without a seed before; in these
and lockstep, one that is shuffled with a seed made of the rank, of a clock or of the system's randomness, and an array
that a NumPy generator without a seed permutes.
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.edits import Refusal
from migrator.facts.data.sharding import CutBatches
from migrator.facts.names.vocabulary import LOCKSTEP
from migrator.facts.ports.shares import Share
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def shard_after_shuffle(facts: Facts) -> Findings:
    for share in (*facts.shares.found, *_to_come(facts)) if facts.trains else ():
        shuffle = facts.shuffles.before(share)
        if shuffle is not None:
            line = facts.position(shuffle)[0]
            yield Refusal(
                share.node,
                f"the workers shuffle in different orders before this cut (line {line}), so their shares overlap",
                "cut first and shuffle afterwards, or give the shuffle a seed that is the same on all workers",
                breaks_training=True,
            )


def _to_come(facts: Facts) -> Iterator[Share]:
    """The shares that `shard-dataset` would have of what a half-ported script shuffles."""
    for plan in facts.sharding.plans:
        if isinstance(plan, CutBatches):
            yield Share(plan.dataset, plan.dataset, LOCKSTEP)
