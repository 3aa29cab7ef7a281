"""Let each worker count its share of a penalty beside a sum, and all together what a loss is divided by.

A loss that is a sum over the samples, also one that is divided by the global batch size, is summed over the workers.
What is added to it and depends on the weights alone (an L2 term, `model.losses`) would then count once for each
worker: it is divided by their number.

before:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses)
after:
    loss = tf.reduce_sum(per_example_loss) / batch_size + tf.add_n(model.losses) / lockstep.size()

Where a loss is divided by a count of the data, such as the tokens that are no padding, each worker would divide by a
count of its own: the mean of the workers' counts takes its place, and what each of them adds is then its part of the
mean over the whole batch.

before:
    loss = tf.reduce_sum(per_token_loss * mask) / tf.reduce_sum(mask)
after:
    loss = tf.reduce_sum(per_token_loss * mask) / lockstep.all_reduce(tf.reduce_sum(mask))

Leaves alone: a penalty beside a mean over the batch, which is averaged over the workers with it; a penalty that is
divided by the number of workers already; the losses of a script whose batches are not split.
Refuses: a count in a function that also runs where a file is written, which the chief does alone. A loss of which the
penalty cannot be told apart, and one that is divided by what depends on the weights or is counted in a loop, are
refused by all-reduce-gradients.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal, Wrap
from migrator.facts.script import Facts
from migrator.facts.syntax import argument
from migrator.facts.training import Update
from migrator.rule import Findings, rule

_BINDS_CLOSER = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.MatrixMultiply, cst.Modulo, cst.Power)


@rule(needs=("all-reduce-gradients", "wrap-optimizer"))
def scale_loss(facts: Facts) -> Findings:
    done: set[cst.CSTNode] = set()
    for update in facts.training.updates:
        for divisor in facts.losses.normalisers(update):
            if divisor not in done:
                done.add(divisor)
                yield from _counted(facts, update, divisor)
        if facts.reductions.of(update) != "sum":
            continue
        for penalty in facts.losses.penalties(update):
            if penalty not in done:
                done.add(penalty)
                opening, closing = ("", "") if _is_one_factor(penalty) else ("(", ")")
                yield Wrap(penalty, opening, f"{closing} / {facts.call('size')}")


def _counted(facts: Facts, update: Update, divisor: cst.BaseExpression) -> Findings:
    written = [w for w in facts.files.writes if _runs(facts, w.statement, divisor)]
    if written:
        yield _refuse(
            divisor,
            "this count is exchanged by all workers, but the chief alone writes a file with what it is part of",
            "work that out before the file is written",
        )
    elif facts.training.step_class(update) is not None and not _are_batches(facts):
        yield _refuse(
            divisor,
            "this loss is divided by a count of the batch, and `fit` may cut arrays into batches of unequal parts",
            "give `fit` a tf.data.Dataset, or divide by the number of samples",
        )
    else:
        yield Wrap(divisor, f"{facts.runtime}.all_reduce(", ")")


def _runs(facts: Facts, statement: cst.CSTNode, node: cst.CSTNode) -> bool:
    return any(facts.tree.contains(body, node) for body in facts.training.reached_from(statement))


def _are_batches(facts: Facts) -> bool:
    """Whether all that is fitted comes in batches already."""
    data = [argument(fit.call, "x", 0) for fit in facts.training.fits]
    return all(x is not None and facts.pipelines.is_read_in_batches(x.value) for x in data)


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)


def _is_one_factor(node: cst.BaseExpression) -> bool:
    if node.lpar:
        return True
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _BINDS_CLOSER)
    return not isinstance(node, (cst.IfExp, cst.Lambda, cst.Comparison, cst.BooleanOperation))
