"""Give every worker its rows of the tensors that a training step makes for a whole batch.

Noise for a generator, labels, first states of a recurrent layer: a step that makes them with the batch size of the
script meets batches of the local size. They are made as on one device, the same on all workers, and cut as the batch
is, so that the workers together train on exactly the numbers that one device draws. Where a batch gets a new shape, the
size in it becomes the local one. Of the last batch, of which rows are looked at behind the loop
(`x[: BATCH_SIZE // 2]`), those of all workers are put together.

before:
    noise = tf.random.normal([BATCH_SIZE, 100])
after:
    noise = lockstep.shard_batch(tf.random.normal([BATCH_SIZE, 100]))

Leaves alone: sizes that are taken from the batch itself; numbers of steps, which come from the global batch; what is
made for samples and plots.
Refuses: a size that does anything else in the step, or shapes what evaluation sees, too. Every worker then trains on
the whole batches, which is right but no faster.
"""

from __future__ import annotations

from migrator.edits import Wrap
from migrator.facts.batch_shapes import DoubtfulSize, Made, Shown, Size
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

_FUNCTIONS = {Made: "shard_batch", Size: "local_batch_size", Shown: "all_gather"}


@rule(needs=("all-reduce-gradients", "wrap-optimizer"))
def shard_made_tensors(facts: Facts) -> Findings:
    yield from (plan for plan in facts.sharding.plans if isinstance(plan, DoubtfulSize))
    for shape in facts.sharding.made:
        yield Wrap(shape.node, f"{facts.runtime}.{_FUNCTIONS[type(shape)]}(", ")")
