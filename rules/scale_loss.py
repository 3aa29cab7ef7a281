"""Let each worker count its share of a penalty beside a sum, and all together what a loss is divided by.

A loss that is a sum over the samples, also one that is divided by the global batch size, is summed over the workers.
What is added to it and depends on the weights alone (an L2 term, `model.losses`) would then count once for each
worker: it is divided by their number.

before:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses)
after:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses) / lockstep.size()

Where a loss is divided by a count of the data, such as the tokens that are no padding, each worker would divide by a
count of its own: the sum of the workers' counts takes its place, and what each of them adds is then its part of the
ratio over the whole batch.

before:
    loss = tf.reduce_sum(per_token_loss * mask) / tf.reduce_sum(mask)
after:
    loss = tf.reduce_sum(per_token_loss * mask) / lockstep.all_reduce(tf.reduce_sum(mask), reduction="sum")

A sum beside a mean is put together first, so that both are means to the workers.

Leaves alone: a penalty beside a mean over the batch, which is averaged over the workers with it; a penalty that is
divided by the number of workers already; the losses of a script whose batches are not split.
Refuses: a count in a function that also runs where a file is written, which the chief does alone.
"""

from __future__ import annotations

import libcst as cst

from migrator.facts.script import Facts
from migrator.insertion.repairs import put_together, waits_alone
from migrator.rule import Findings, rule


@rule(needs=("all-reduce-gradients", "wrap-optimizer"))
def scale_loss(facts: Facts) -> Findings:
    done: set[cst.CSTNode] = set()
    for repair in facts.repairs:
        if repair.form not in ("term", "divisor"):
            continue
        refusal = waits_alone(facts, repair) if any(o.how != "share" for o in repair.operands) else None
        if refusal is not None:
            yield refusal
            continue
        for operand in repair.operands:
            if operand.node not in done:
                done.add(operand.node)
                yield from put_together(facts, operand)
