"""Metrics that models are compiled with, and that training is steered by, of which the workers' parts do not add up."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.decisions.metrics import works_along_the_batch
from migrator.facts.names import api
from migrator.facts.objects.contents import Part, Parts
from migrator.facts.objects.listed import listed
from migrator.facts.objects.values import External, Function, Object, Result, Value, calls
from migrator.facts.script import Facts
from migrator.facts.training.asking import decides_by_training, logs_asked_for
from migrator.facts.training.sites import Fit
from migrator.records import dataclass

_METRICS = 2  # position in compile
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
        if told and decides_by_training(facts, fit):
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
        hidden = (node for node in (metrics, weighted) if node is not None)
        if not found and not beside and (odd & {"function", "own"} or any(_hides_odd(facts, node) for node in hidden)):
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


def _hides_odd(facts: Facts, metrics: cst.BaseExpression) -> bool:
    """Whether there may be a metric in a list that is not written out there which works along the batch."""
    ends = facts.contents.ends(Parts([Part(metrics, (None,))]))
    if ends is None:
        return not facts.resolver.values(metrics)
    inside = [value for end in ends for value in facts.resolver.values(end)]
    return any(_is_unseen(value) or works_along_the_batch(value) for value in inside)


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
    if decides_by_training(facts, fit):
        return True
    return any(log.startswith("val_") and (also_loss or log != "val_loss") for log in logs_asked_for(facts, fit))


def _is_odd(facts: Facts, value: Value, odd: set[str]) -> bool:
    if isinstance(value, Function):
        return "function" in odd
    if isinstance(value, Object):
        return "own" in odd and facts.resolver.derives_from(value.of, lambda p: p.startswith("keras.metrics."))
    return _is_unseen(value) or works_along_the_batch(value)


def _is_unseen(value: Value) -> bool:
    """Whether a library that nobody knows has made it, or is to call it."""
    path = calls(value) if isinstance(value, Result) else value.path if isinstance(value, External) else ""
    return bool(path) and not path.startswith(("keras.", "builtins.", f"{api.RUNTIME}."))


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
