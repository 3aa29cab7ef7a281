"""The metrics that models are compiled with which Keras trains on this worker's rows: what they have counted is this
worker's own, wherever and in whatever way it is read.

What a list of metrics holds is followed to where they are made; where not all of it is seen, it may hold any metric.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.libraries import is_agreed
from migrator.facts.names import api
from migrator.facts.objects.contents import Contents, Part, Parts
from migrator.facts.objects.keywords import Keywords
from migrator.facts.objects.listed import listed
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Result, Value
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_GIVEN = (("metrics", 2), ("weighted_metrics", None))
_ASKED = frozenset({"result", "stateless_result"})
_DISPLAYS = (cst.List, cst.Tuple, cst.Set, cst.Dict)
# What is read of a metric that tells nothing of what it has counted.
_HARMLESS = frozenset({
    "name", "dtype", "update_state", "reset_state", "reset_states", "result", "add_weight", "get_config", "from_config",
    "stateless_update_state", "stateless_reset_state", "stateless_result", "__class__", "__call__",
})  # fmt: skip
_NOT_READING = frozenset({"builtins.print", "builtins.id", "builtins.repr"})


class CompiledMetrics:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self._is_metric = training.kinds.is_metric
        self._contents = Contents(tree, resolver)

    def holds(self, metric: cst.BaseExpression) -> bool:
        """Whether the expression may be one of them."""
        return not self._all.isdisjoint(self.resolver.values(metric))

    @cached_property
    def _all(self) -> frozenset[Value]:
        given = Keywords(self.tree, self.resolver).given
        compiles = [c for fit in self.training.fits for c in self.training.compiles_of(fit.values)]
        nodes = [given(c.call, *of) for c in dict.fromkeys(compiles) for of in _GIVEN]
        found: set[Value] = set()
        for node in nodes:
            held = self._in(node) if node is not None else []
            if held is None:
                return frozenset(
                    v for call in self.tree.calls for v in self.resolver.values(call) if self._is_metric(v)
                )
            found.update(held)
        return frozenset(found)

    def _in(self, node: cst.BaseExpression) -> list[Value] | None:
        """The metrics in a list, in lists by outputs, or in dictionaries; None where not all are seen."""
        found: list[Value] = []
        values = self.resolver.values(node)
        if values and all(map(self._is_single, values)):
            return list(filter(self._is_metric, values))
        if isinstance(node, _DISPLAYS):
            ends: list[cst.CSTNode] | None = [element.value for element in node.elements]
            if any(isinstance(e, (cst.StarredElement, cst.StarredDictElement)) for e in node.elements):
                ends = self._contents.ends(Parts([Part(node, (None,))]))
        else:
            ends = self._contents.ends(Parts([Part(node, (None,))]))
        for end in ends if ends is not None else ():
            held = self._in(end) if isinstance(end, cst.BaseExpression) else None
            if held is None or end is node:
                return None
            found += held
        return found if ends is not None else None

    def _is_single(self, value: Value) -> bool:
        """Whether it is a metric, or a name or function of one, in no list."""
        if isinstance(value, Literal):
            return isinstance(value.node, (cst.BaseString, cst.Lambda))
        return self._is_metric(value) or isinstance(value, (External, Function, Class))

    def read_otherwise(self) -> Iterator[cst.CSTNode]:
        """What reads what they have counted, but calls of their `result`: states of theirs, calls of themselves, and
        what libraries make of them."""
        if not self._all:
            return
        for node in self.tree.all_of(cst.Attribute):
            is_called = isinstance(parent := self.tree.parent[node], cst.Call) and parent.func is node
            is_asked = node.attr.value in _ASKED and not (is_called and node.attr.value == "result")
            if (is_asked or node.attr.value not in _HARMLESS) and self.holds(node.value):
                yield node
        for call in self.tree.calls:
            if self.holds(call.func) or self._is_read_by_library(call):
                yield call

    def _is_read_by_library(self, call: cst.Call) -> bool:
        """`operator.methodcaller("result")(metric)`, `getattr(metric, "result")`, `Metric.result(metric)`"""
        if not any(map(self.holds, (part for arg in call.args for part in listed(arg.value)))):
            return False
        values = self.resolver.values(call.func)
        return not values or any(isinstance(v, Result) or self._reads(v) for v in values)

    def _reads(self, value: Value) -> bool:
        path = value.path if isinstance(value, External) else ""
        if not path or is_agreed(path) or path in _NOT_READING or path.startswith(f"{api.RUNTIME}."):
            return False
        return not path.startswith("keras.") or path.rpartition(".")[2] in _ASKED
