"""Report a worker's share of the data that nobody reads.

The cut gives the share back and leaves the whole as it was. Where its result is thrown away, or assigned to a name
that nothing reads, every worker trains on all of the data: the epoch takes as long as on one device, and each sample
counts as often as there are workers. The same holds for the local batch size that comes with the share: data that are
cut, and then batched by the global size, make global batches that are N times too large.

before:
    train_shard = dataset.shard(hvd.size(), hvd.rank())
    model.fit(dataset.batch(32), epochs=5)
after:
    train_shard = dataset.shard(hvd.size(), hvd.rank())
    model.fit(dataset.batch(32), epochs=5)

Leaves alone: shares that are read, in a function or another file, too; a part of a share whose name begins with an
underscore, where the rest of it is read.
Refuses: in lockstep, npu_device and Horovod alike, a share that is a statement of its own or has a name that is never
read, and a batch of the global size made of a share.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def unread_shard(facts: Facts) -> Findings:
    if not facts.trains:
        return
    for share in facts.shares.unread:
        yield Refusal(
            share.node,
            "nothing reads this worker's share of the data",
            "train on the share, and not on the whole",
            breaks_training=True,
        )
    for size in facts.shares.global_batches:
        yield Refusal(
            size,
            "a worker's share of the data is batched by the global batch size",
            "use the local batch size, which the cut gives back beside the share",
            breaks_training=True,
        )
