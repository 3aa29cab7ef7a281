"""Whether the loss that a model is compiled with is a mean over the batch, as averaging its gradients needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import Refusal
from migrator.facts import api
from migrator.facts.kinds import calls
from migrator.facts.loss_kinds import DATA, FREE, MEAN, MIXED, PENALTY, SAMPLES
from migrator.facts.script import Facts
from migrator.facts.syntax import argument
from migrator.facts.training import Fit
from migrator.facts.values import External, Function, Literal, Object, Unknown, Value


def bad_loss(facts: Facts, compile_: Fit) -> Refusal | None:
    """A refusal where a loss given to `compile`, or computed by the model itself, is not seen to be a mean."""
    loss = facts.keywords.given(compile_.call, "loss", 1)
    for expression in _each(loss) if loss is not None else ():
        if not all(_is_mean(facts, value) for value in facts.resolver.values(expression) or (Unknown(expression),)):
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


def _is_mean(facts: Facts, value: Value) -> bool:
    if isinstance(value, Literal):
        if isinstance(value.node, cst.SimpleString):
            return api.is_split_loss(str(value.node.evaluated_value))
        parts = list(_each(value.node))
        return all(v != value and _is_mean(facts, v) for p in parts for v in facts.resolver.values(p))
    if isinstance(value, Object):
        method = facts.resolver.method(value.of, "call")
        returned = facts.resolver.returned(method) if method is not None else []
        return facts.resolver.derives_from(value.of, api.is_loss_class) and _are_means(facts, returned)
    if isinstance(value, Function):
        node = value.node
        return _are_means(facts, [node.body] if isinstance(node, cst.Lambda) else facts.resolver.returned(node))
    if isinstance(value, External):
        return value.path == "builtins.None" or (api.is_loss_function(value.path) and api.is_split_loss(value.path))
    path = calls(value)
    if api.is_loss_class(path):
        reduction = argument(value.call, "reduction")  # type: ignore[union-attr]
        text = facts.source(reduction.value).lower() if reduction is not None else ""
        plain = "sum" not in text.replace("sum_over_batch_size", "") and "none" not in text.split(".")[-1]
        return plain and api.is_split_loss(path)
    return path == "keras.losses.get"


def _are_means(facts: Facts, returned: Sequence[cst.BaseExpression]) -> bool:
    """What a loss function returns for each sample, Keras averages; a mean over the batch stays one."""
    return all(facts.losses.kind(r) in (MEAN, MIXED, SAMPLES, DATA, PENALTY) for r in returned)
