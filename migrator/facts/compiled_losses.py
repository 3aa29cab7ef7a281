"""Whether the loss that a model is compiled with is a mean over the batch, as averaging its gradients needs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.loss_kinds import FREE, MEAN, PENALTY
from migrator.facts.script import Facts
from migrator.facts.training import Fit
from migrator.facts.values import Object


def bad_loss(facts: Facts, compile_: Fit) -> Refusal | None:
    """A refusal where a loss given to `compile`, or computed by the model itself, is not seen to be a mean."""
    loss = facts.keywords.given(compile_.call, "loss", 1)
    for expression in _each(loss) if loss is not None else ():
        if facts.losses.compiled_kind(expression) not in (MEAN, PENALTY, FREE):
            return _refuse_loss(expression)
    for value in compile_.values:
        method = facts.resolver.method(value.of, "compute_loss") if isinstance(value, Object) else None
        for returned in facts.resolver.returned(method) if method is not None else ():
            if facts.losses.kind(returned) not in (MEAN, PENALTY, FREE):
                return _refuse_loss(returned)
    return None


def _refuse_loss(node: cst.CSTNode) -> Refusal:
    return Refusal(
        node,
        "this loss is not seen to be a mean over the batch, so averaging the workers' gradients may train another "
        "model",
        "use a loss of Keras's with its default reduction, or one written in this file that returns a value per sample",
        breaks_training=True,
    )


def _each(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(node, (cst.List, cst.Tuple)):
        for element in node.elements:
            yield from _each(element.value)
    elif isinstance(node, cst.Dict):
        for pair in node.elements:
            yield from _each(pair.value)
    else:
        yield node
