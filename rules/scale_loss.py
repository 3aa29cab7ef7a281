"""Let each worker count its share of a penalty that is added to a sum over the batch.

A loss that is a sum over the samples, also one that is divided by the global batch size, is summed over the workers.
What is added to it and depends on the weights alone (an L2 term, `model.losses`) would then count once for each
worker: it is divided by their number.

before:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses)
after:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses) / lockstep.size()

Leaves alone: a penalty beside a mean over the batch, which is averaged over the workers with it; a penalty that is
divided by the number of workers already; the losses of a script whose batches are not split.
Refuses: nothing by itself; a loss of which the penalty cannot be told apart is refused by all-reduce-gradients.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Wrap
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

_BINDS_CLOSER = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.MatrixMultiply, cst.Modulo, cst.Power)


@rule
def scale_loss(facts: Facts) -> Findings:
    done: set[cst.CSTNode] = set()
    for update in facts.training.updates:
        if facts.reductions.of(update) != "sum":
            continue
        for penalty in facts.losses.penalties(update):
            if penalty not in done:
                done.add(penalty)
                opening, closing = ("", "") if _is_one_factor(penalty) else ("(", ")")
                yield Wrap(penalty, opening, f"{closing} / {facts.call('size')}")


def _is_one_factor(node: cst.BaseExpression) -> bool:
    if node.lpar:
        return True
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _BINDS_CLOSER)
    return not isinstance(node, (cst.IfExp, cst.Lambda, cst.Comparison, cst.BooleanOperation))
