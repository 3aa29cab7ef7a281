"""Metrics that models are compiled with, and that training is steered by, of which the workers' parts do not add up."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.decisions.metrics import works_along_the_batch
from migrator.facts.names import api
from migrator.facts.objects.listed import listed, listed_values
from migrator.facts.objects.values import Function, Object, Result, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.facts.training.sites import Fit
from migrator.records import dataclass

CALLBACKS, _METRICS = 5, 2  # positions in fit and compile
_TOLD = ("on_epoch_end", "on_train_batch_end", "on_batch_end", "on_train_end")
_MONITORING = frozenset({"EarlyStopping", "ReduceLROnPlateau", "ModelCheckpoint"})
_OF_VALIDATION = ("test_step", "compute_loss")
_STEPS = ("train_step", "test_step", "compute_metrics", "evaluate")


@dataclass(frozen=True, eq=False)
class ToldMetric:
    """A metric of a `compile` that all workers have to update with all rows.

    `obstacle`: why that cannot be, as the end of a sentence; empty where it can.
    """

    compile: Fit
    node: cst.BaseExpression
    obstacle: str


def told_metrics(facts: Facts) -> Iterator[ToldMetric]:
    """The metrics that are no means over the samples, and that training is steered by."""
    seen: set[cst.CSTNode] = set()
    for fit in facts.training.fits:
        told: dict[cst.CSTNode, ToldMetric] = {}
        for node, metric in _no_means(facts, fit):
            if node not in seen:
                told.setdefault(node, metric)
        if told and _decides_by_metrics(facts, fit):
            seen |= told.keys()
            yield from told.values()


def _no_means(facts: Facts, fit: Fit) -> Iterator[tuple[cst.CSTNode, ToldMetric]]:
    """The metrics of what is fitted that are no means over the samples, each with the node that stands for it."""
    odd = facts.losses.odd_metrics(fit.call)
    for compile_ in facts.training.compiles_of(fit.values):
        metrics = facts.keywords.given(compile_.call, "metrics", _METRICS)
        found = list(_odd_in(facts, metrics, odd)) if metrics is not None else []
        for node in found:
            yield node, ToldMetric(compile_, node, _obstacle(facts, compile_))
        weighted = facts.keywords.given(compile_.call, "weighted_metrics")
        beside = list(_odd_in(facts, weighted, {"function"})) if weighted is not None else []
        for node in beside:
            yield node, ToldMetric(compile_, node, "; it is weighted")
        if not found and not beside and odd & {"function", "own"}:
            all_of_them = metrics or compile_.call
            yield compile_.call, ToldMetric(compile_, all_of_them, "; it is not given in the call by itself")


def _odd_in(facts: Facts, metrics: cst.BaseExpression, odd: set[str]) -> Iterator[cst.BaseExpression]:
    """The odd ones of the metrics that are written out, in lists and in dictionaries by outputs."""
    if isinstance(metrics, cst.Dict):
        for element in metrics.elements:
            yield from _odd_in(facts, element.value, odd)
    elif isinstance(metrics, (cst.List, cst.Tuple)):
        for node in listed(metrics):
            yield from _odd_in(facts, node, odd)
    elif any(_is_odd(facts, value, odd) for value in facts.resolver.values(metrics)):
        yield metrics


def validates_in_batches(facts: Facts, fit: Fit) -> bool:
    """Whether training is steered by validation metrics that depend on the size of the batches, which is that of the
    training."""
    given = [facts.keywords.given(fit.call, name) for name in ("validation_data", "validation_batch_size")]
    if given[0] is None or given[1] is not None:
        return False
    odd = facts.losses.odd_metrics(fit.call)
    compiles = facts.training.compiles_of(fit.values)
    metrics = [facts.keywords.given(compile_.call, "metrics", _METRICS) for compile_ in compiles]
    has_odd = any(any(_odd_in(facts, given, odd)) for given in metrics if given is not None)
    is_mean = not any(compile_.call in facts.losses.whole_compiles for compile_ in compiles) and not any(
        isinstance(v, Object) and any(facts.resolver.method(v.of, n) for n in _OF_VALIDATION) for v in fit.values
    )
    is_odd = has_odd or bool(odd & {"function", "own"}) or not is_mean
    return is_odd and _decides_by_validation(facts, fit, also_loss=not is_mean)


def _decides_by_validation(facts: Facts, fit: Fit, *, also_loss: bool = False) -> bool:
    """Whether a callback, or the script itself, may decide by a validation metric of the fit, `also_loss`: or by its
    loss."""
    if _decides_by_metrics(facts, fit):
        return True
    asking = facts.keywords.given(fit.call, "callbacks", CALLBACKS)
    names = map(monitored_by, listed_values(facts.resolver, asking) if asking is not None else [])
    return any(name is not None and name.startswith("val_") and (also_loss or name != "val_loss") for name in names)


def _is_odd(facts: Facts, value: Value, odd: set[str]) -> bool:
    if isinstance(value, Function):
        return "function" in odd
    if isinstance(value, Object):
        return "own" in odd and facts.resolver.derives_from(value.of, lambda p: p.startswith("keras.metrics."))
    return works_along_the_batch(value)


def _obstacle(facts: Facts, compile_: Fit) -> str:
    """Why the metrics of the model cannot be given all rows of each batch, once each."""
    for fit in facts.training.batch_fits:
        if compile_ in facts.training.compiles_of(fit.values):
            return "; `train_on_batch` may have rows twice"
    for fit in facts.training.fits:
        if compile_ not in facts.training.compiles_of(fit.values):
            continue
        if any(isinstance(v, Object) and any(facts.resolver.method(v.of, n) for n in _STEPS) for v in fit.values):
            return "; the model has steps of its own"
    return ""


def _decides_by_metrics(facts: Facts, fit: Fit) -> bool:
    """Whether a callback, or the script itself, may decide by the training metrics of the fit."""
    if facts.decisions.first_steered_by(fit.call) is not None:
        return True
    asking = facts.keywords.given(fit.call, "callbacks", CALLBACKS)
    given = listed_values(facts.resolver, asking) if asking is not None else []
    return any(_may_ask(callback) and not _only_tells(facts, callback) for callback in given)


def _only_tells(facts: Facts, callback: Value) -> bool:
    """Whether nothing is steered by the logs that a callback of the script's own is given."""
    if not isinstance(callback, Object):
        return False
    methods = [facts.resolver.method(callback.of, name) for name in _TOLD]
    read = [name for m in methods if m for name in facts.tree.names_in(m.body) if _is_logs(facts, name)]
    return all(facts.decisions.first_steered_by(name) is None for name in read)


def _is_logs(facts: Facts, name: cst.Name) -> bool:
    is_given = any(b.kind == "param" for b in facts.resolver.reaching(name))
    return is_given and name.value not in ("self", "epoch", "batch")


def _may_ask(callback: Value) -> bool:
    """Whether the callback may read a training metric: one of the script's own, or one that monitors it."""
    monitored = monitored_by(callback)
    return monitored is not None and monitored != "loss" and not monitored.startswith("val_")


def monitored_by(callback: Value) -> str | None:
    """The log that the callback decides by; empty where that may be any, None where it decides by none."""
    path = calls(callback)
    if path == f"{api.RUNTIME}.callbacks" and isinstance(callback, Result) and not callback.call.args:
        return None
    if not path.startswith("keras.callbacks.") or path.endswith("LambdaCallback") or not isinstance(callback, Result):
        return "" if isinstance(callback, (Object, Result)) else None
    if path.rpartition(".")[2] not in _MONITORING:
        return None
    monitor = argument(callback.call, "monitor", 1 if path.endswith("ModelCheckpoint") else 0)
    if monitor is None:
        return "val_loss"
    return str(monitor.value.evaluated_value) if isinstance(monitor.value, cst.SimpleString) else ""
