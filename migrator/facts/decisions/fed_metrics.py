"""Keras's metrics, and what they are updated with: by the script, or by `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.decisions.compiled_metrics import CompiledMetrics
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import calls
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# Positions in an update of a `Mean`, and of what compares labels with predictions.
_WEIGHTS_OF_MEAN, _WEIGHTS = 1, 2


class FedMetrics:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self._is_metric = training.kinds.is_metric
        self.compiled = CompiledMetrics(tree, resolver, training)

    @cached_property
    def results(self) -> list[cst.Call]:
        """The calls that ask metrics for their results."""
        return [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "result"
            and any(map(self._is_metric, self.resolver.values(call.func.value)))
        ]

    @property
    def results_of_fit(self) -> list[cst.Call]:
        """Those that ask metrics which `fit` feeds."""
        return [call for call in self.results if self.is_fed_by_fit(cst.ensure_type(call.func, cst.Attribute).value)]

    def is_fed_by_fit(self, metric: cst.BaseExpression) -> bool:
        """Whether a model is compiled with it that Keras trains on this worker's rows."""
        return self.compiled.holds(metric)

    def fed_to(self, metric: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a Keras metric is updated with."""
        return [a.value for call in self._updates_of(metric) for a in call.args]

    def is_weighted(self, metric: cst.BaseExpression) -> bool:
        """Whether it is given weights, or may be: as many rows do not count as much then."""
        only = all(calls(v) == "keras.metrics.Mean" for v in self.resolver.values(metric))
        position = _WEIGHTS_OF_MEAN if only else _WEIGHTS
        return any(
            any(a.star for a in call.args) or argument(call, "sample_weight", position) is not None
            for call in self._updates_of(metric)
        )

    def _updates_of(self, metric: cst.BaseExpression) -> Iterator[cst.Call]:
        metrics = {v for v in self.resolver.values(metric) if self._is_metric(v)}
        for call in self._metric_updates:
            target = call.func.value if isinstance(call.func, cst.Attribute) and _is_update(call) else call.func
            if metrics & set(self.resolver.values(target)):
                yield call

    @cached_property
    def _metric_updates(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if _is_update(call) or (call.args and any(self._is_metric(v) for v in self.resolver.values(call.func)))
        ]


def _is_update(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "update_state"
