"""Report numbers of steps that come from the wrong one of two batch sizes, the local and the global.

An epoch has as many steps as global batches fit into the data: the full number of samples by the global batch size, or
the share by the local one. Taken from the full data and the local batch, it is N times too long: `fit` trains N epochs
for each, and a learning-rate schedule reaches its end N times too late. Divided by the number of workers twice, it is
N times too short.

before:
    dataset, batch_size = npu.distribute.shard_and_rebatch_dataset(dataset, batch_size)
    model.fit(dataset.repeat().batch(batch_size), steps_per_epoch=len(x) // batch_size)
after:
    dataset, batch_size = npu.distribute.shard_and_rebatch_dataset(dataset, batch_size)
    model.fit(dataset.repeat().batch(batch_size), steps_per_epoch=len(x) // batch_size)

Leaves alone: steps that are written as a number, or that do not come from a batch size of the training data; steps of
evaluation; learning rates that are multiplied by the number of workers, or are not.
Refuses: in lockstep, npu_device and Horovod alike, such numbers in `steps_per_epoch`, in the loops around an update,
in `take` on batches and in Keras's learning-rate schedules.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def local_step_count(facts: Facts) -> Findings:
    if facts.ports.toolkit is None or not facts.trains:
        return
    for steps in facts.step_counts.found:
        if isinstance(steps, (cst.Integer, cst.Float)):
            continue  # as large as a batch by chance
        power = facts.scale.power(steps)
        if power in (1, -1) and facts.scale.mentions_batch(steps) and not facts.ranks.is_alone(steps):
            yield Refusal(
                steps,
                "this number of steps comes from the full data and the local batch size: it is N times too large"
                if power == 1
                else "this number of steps is divided by the number of workers twice: it is N times too small",
                "divide the full number of samples by the global batch size, or the share of them by the local one",
                breaks_training=True,
            )
