"""Make the optimizer of `fit` average the gradients over the workers.

`fit` computes and applies gradients out of the script's sight, so the optimizer itself reduces them. It does so
before it clips, and the wrapped optimizer keeps its name, its settings and its saved form. An optimizer that is
named by a string, or not at all, is wrapped as well.

before:
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
after:
    model.compile(optimizer=lockstep.distributed_optimizer(keras.optimizers.Adam(1e-3)), loss="mse")

Leaves alone: models that are compiled but never fitted here; models whose own `train_step` applies the gradients
(they are reduced there); an optimizer that is distributed already.
Refuses: `compile(**config)`, where the optimizer cannot be seen; `jit_compile=True`, which cannot hold the
collectives; a fitted model whose `compile` is not in this file; a loss that is no mean over the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import AddArgument, InsertAfter, Refusal, Wrap
from migrator.facts import api
from migrator.facts.holders import Holder
from migrator.facts.kinds import calls
from migrator.facts.loss_kinds import DATA, FREE, MEAN, MIXED, PENALTY, SAMPLES
from migrator.facts.script import Facts
from migrator.facts.syntax import argument, has_unpacked_keywords
from migrator.facts.training import Fit
from migrator.facts.values import External, Function, Literal, Object, Unknown, Value
from migrator.rule import Findings, rule


@rule
def wrap_optimizer(facts: Facts) -> Findings:
    done: set[cst.CSTNode] = set()
    for fit in facts.training.fits:
        if facts.training.trains_by_itself(fit.values):
            continue
        compiles = [c for c in facts.training.compiles if _is_same(c.values, fit.values)]
        for compile_ in compiles:
            if compile_.call not in done:
                done.add(compile_.call)
                yield from _wrap(facts, compile_)
        if not compiles:
            yield from _wrap_loaded(facts, fit)


def _is_same(left: tuple[Value, ...], right: tuple[Value, ...]) -> bool:
    """Whether both may be one model; inside of its class a model is known by the class alone."""

    def identity(value: Value) -> object:
        return value.of if isinstance(value, Object) else value

    return bool({identity(v) for v in left} & {identity(v) for v in right})


def _wrap(facts: Facts, compile_: Fit) -> Findings:
    call = compile_.call
    optimizer = argument(call, "optimizer", 0)
    if any(isinstance(v, Function) for v in facts.resolver.values(call.func)):
        yield Refusal(
            call,
            "this model has a `compile` of its own, so what its optimizer does cannot be seen",
            "wrap the optimizer by hand with lockstep.distributed_optimizer",
            True,
        )
        return
    if optimizer is None and (has_unpacked_keywords(call) or any(a.star for a in call.args)):
        yield Refusal(
            call,
            "the optimizer may be among the unpacked arguments, where it cannot be seen",
            "pass it as optimizer=... in the call",
            True,
        )
        return
    jit = argument(call, "jit_compile")
    if jit is not None and isinstance(jit.value, cst.Name) and jit.value.value == "True":
        yield Refusal(jit.value, "a step compiled by XLA cannot hold the collectives", "set jit_compile=False", True)
        return
    bad = _bad_loss(facts, compile_)
    if bad is not None:
        yield bad
        return
    if optimizer is None:
        yield AddArgument(call, (f"optimizer={facts.call('distributed_optimizer', _quoted(facts, call, 'rmsprop'))}",))
    elif not any(facts.kinds.is_distributed_optimizer(v) for v in facts.resolver.values(optimizer.value)):
        yield Wrap(optimizer.value, f"{facts.runtime}.distributed_optimizer(", ")")


def _quoted(facts: Facts, call: cst.Call, text: str) -> str:
    """The text in the quotes that the call itself uses."""
    source = facts.source(call)
    quote = "'" if source.count("'") > source.count('"') else '"'
    return f"{quote}{text}{quote}"


def _bad_loss(facts: Facts, compile_: Fit) -> Refusal | None:
    """A refusal where a loss given to `compile`, or computed by the model itself, is not seen to be a mean."""
    loss = argument(compile_.call, "loss", 1)
    for expression in _each(loss.value) if loss is not None else ():
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


def _wrap_loaded(facts: Facts, fit: Fit) -> Findings:
    """A loaded model comes compiled, with a fresh optimizer that knows nothing of other workers."""
    loaded = [v for v in fit.values if calls(v) in api.LOAD_MODEL]
    holders = [h for h in facts.trained.of(fit.model) if isinstance(h, Holder)]
    if loaded and len(holders) == 1:
        name = facts.source(holders[0].target)
        if not _is_wrapped(facts, name):
            wrapped = facts.call("distributed_optimizer", f"{name}.optimizer")
            yield InsertAfter(holders[0].statement, (f"{name}.optimizer = {wrapped}",))
        return
    yield Refusal(
        fit.call,
        "where this model is compiled cannot be seen, and with it its optimizer",
        "compile the model in this file, or wrap its optimizer by hand with lockstep.distributed_optimizer",
        True,
    )


def _is_wrapped(facts: Facts, name: str) -> bool:
    return any(
        call.args and facts.source(call.args[0].value) == f"{name}.optimizer"
        for call in facts.tree.calls
        if any(facts.kinds.is_distributed_optimizer(v) for v in facts.resolver.values(call))
    )
