"""Which expressions differ from worker to worker, since they come from the worker's own share of the batches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts import api
from migrator.facts.kinds import calls
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.training import Training
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import External, Object, Result, Value

COUNT = "count"  # how many samples this worker has seen
VALUE = "value"  # a number computed from them

_AGREED = frozenset({f"{api.RUNTIME}.all_reduce", f"{api.RUNTIME}.is_chief", f"{api.RUNTIME}.rank"})
# No two workers read the same time.
CLOCKS = frozenset({"time.time", "time.monotonic", "time.perf_counter", "time.process_time", "timeit.default_timer"})
_STATISTICS = re.compile(r"^keras\.layers\.(?:experimental\.)?(?:Sync)?BatchNormalization$|^keras\.applications\.")
_INFERENCE = frozenset({"evaluate", "predict", "predict_on_batch", "test_on_batch"})
_COUNTING_ATTRIBUTES = frozenset({"shape", "size"})
_COUNTING_CALLS = frozenset({"builtins.len", "tensorflow.shape", "tensorflow.size"})
_COLLECTING = frozenset({"append", "extend", "add", "update_state", "insert"})
_MANY = 100_000  # evaluations after which every result is kept, so that time stays bounded
_OPERATORS = (cst.BaseCompOp, cst.BaseBinaryOp, cst.BaseUnaryOp, cst.BaseBooleanOp, cst.BaseAugOp)


class Locality:
    """Follows the batches of this worker through names, attributes, containers, metrics and functions."""

    def __init__(self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self._known: dict[cst.CSTNode, str] = {}
        self._busy: set[object] = set()
        self._cycles = 0
        self._evaluations = 0
        # Gradients are reduced before anything reads them.
        self._settled = {g.holder for u in training.updates for g in u.gradients if g.holder is not None}

    def settle(self, binding: Binding) -> None:
        """From here on, what the binding gives counts as averaged."""
        self._settled.add(binding)
        self._known.clear()

    def of(self, node: cst.CSTNode | None) -> str:
        """COUNT or VALUE where the expression depends on this worker's samples; empty where all workers agree."""
        if node is None:
            return ""
        known = self._known.get(node)
        if known is not None:
            return known
        if node in self._busy:
            self._cycles += 1
            return ""
        cycles = self._cycles
        self._busy.add(node)
        known = self._of(node)
        self._busy.discard(node)
        self._evaluations += 1
        if not self._busy or cycles == self._cycles or self._evaluations > _MANY:
            self._known[node] = known
        return known

    def _of(self, node: cst.CSTNode) -> str:
        if isinstance(node, cst.Name):
            return _strongest([*map(self._of_binding, self.resolver.reaching(node)), self._collected(node.value)])
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return ""
        return _strongest(self.of(c) for c in semantic_children(node) if not isinstance(c, _OPERATORS))

    def _of_attribute(self, node: cst.Attribute) -> str:
        inner = self.of(node.value)
        name = node.attr.value
        if inner:
            return COUNT if name in _COUNTING_ATTRIBUTES else inner
        bindings: list[Binding] = []
        for owner in self.resolver.values(node.value):
            if isinstance(owner, Object):
                bindings.extend(self.resolver.attribute_bindings(owner.of, name))
        return _strongest([*map(self._of_binding, bindings), self._collected(name)])

    # -- bindings ------------------------------------------------------------------------------------------------

    def _of_binding(self, binding: Binding) -> str:
        if binding in self._settled:
            return ""
        if binding in self._busy:
            self._cycles += 1
            return ""
        self._busy.add(binding)
        try:
            return self._of_unsettled(binding)
        finally:
            self._busy.discard(binding)

    def _of_unsettled(self, binding: Binding) -> str:
        if binding.kind == "for":
            return self._of_loop_target(binding)
        if binding.kind == "param":
            return _strongest([self.of(a) for a in self.resolver.given(cast(cst.Param, binding.node))])
        if binding.kind in ("assign", "augmented") and binding.value is not None:
            kinds = [self.of(binding.value)]
            if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
                kinds += [self._of_binding(b) for b in self.resolver.reaching(binding.target) if b is not binding]
            return _strongest(kinds)
        return ""

    def _of_loop_target(self, binding: Binding) -> str:
        if any(c.reader is binding.node for c in self.sharding.consumptions):
            loop = cast(cst.For, binding.node)
            counts = isinstance(loop.iter, cst.Call) and any(
                v == External("builtins.enumerate") for v in self.resolver.values(loop.iter.func)
            )
            return "" if counts and binding.path[:1] == (0,) else VALUE
        return self.of(binding.value)

    def _collected(self, name: str) -> str:
        """`losses.append(loss)`, `logs["loss"] = loss`: a container is as local as what is put into it."""
        return _strongest([self.of(value) for value in self._stored.get(name, ())])

    @cached_property
    def _stored(self) -> dict[str, list[cst.BaseExpression]]:
        """What is put into containers, by the name or attribute that leads to them."""
        found: dict[str, list[cst.BaseExpression]] = {}
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value in _COLLECTING:
                name = _container(func.value)
                if name and not any(isinstance(v, External) for v in self.resolver.values(func)):
                    found.setdefault(name, []).extend(arg.value for arg in call.args)
        for target, value in self.tree.item_assignments:
            name = _container(target)
            if name:
                found.setdefault(name, []).append(value)
        return found

    # -- calls ---------------------------------------------------------------------------------------------------

    def functions_run_by(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The functions of the script that the call runs."""
        return self._functions.get(call, [])

    @cached_property
    def _functions(self) -> dict[cst.Call, list[cst.FunctionDef]]:
        found: dict[cst.Call, list[cst.FunctionDef]] = {}
        for function in self.tree.functions:
            for call in self.resolver.callers(function):
                found.setdefault(call, []).append(function)
        return found

    def _of_call(self, call: cst.Call) -> str:
        paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
        if paths & _AGREED or self.training.flow.is_tape_call(call):
            return ""
        if paths & CLOCKS or (self._keeps_statistics and self._infers(call)):
            return VALUE
        functions = self.functions_run_by(call)
        returned = [r for f in functions for r in self.resolver.returned(f)]
        if functions and returned:
            return _strongest([self.of(r) for r in returned])
        given = _strongest([self.of(a.value) for a in call.args])
        if given and paths & _COUNTING_CALLS:
            return COUNT if self._counts_samples(call) else ""
        if isinstance(call.func, cst.Attribute):
            given = _strongest([given, self.of(call.func.value)])
            if call.func.attr.value == "result" and self._is_fed_locally(call.func.value):
                return VALUE
        return given

    @cached_property
    def _keeps_statistics(self) -> bool:
        """Whether a model may hold BatchNormalization: its statistics, and so inference, are each worker's own."""
        return any(
            isinstance(value, External) and _STATISTICS.match(value.path)
            for call in self.tree.calls
            for value in self.resolver.values(call.func)
        )

    def _infers(self, call: cst.Call) -> bool:
        """Whether the call runs a model: `model(x)`, `model.evaluate(…)`."""
        func = call.func
        if any(self.training.kinds.has_weights(v) for v in self.resolver.values(func)):
            return True
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in _INFERENCE
            and any(self.training.kinds.is_model(v) for v in self.resolver.values(func.value))
        )

    def _counts_samples(self, call: cst.Call) -> bool:
        """`len(x)` of a batch; the length of a list that grows by one a step is the same everywhere."""
        arg = call.args[0].value
        name = _container(arg)
        return not (name and self._stored.get(name))

    # -- metrics -------------------------------------------------------------------------------------------------

    def _is_fed_locally(self, metric: cst.BaseExpression) -> bool:
        """Whether a Keras metric was updated with local values: `m(loss)` or `m.update_state(loss)`."""
        metrics = {v for v in self.resolver.values(metric) if _is_metric(v)}
        for call in self._metric_updates:
            target = call.func.value if isinstance(call.func, cst.Attribute) and _is_update(call) else call.func
            if metrics & set(self.resolver.values(target)) and any(self.of(a.value) for a in call.args):
                return True
        return False

    @cached_property
    def _metric_updates(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if _is_update(call) or (call.args and any(_is_metric(v) for v in self.resolver.values(call.func)))
        ]


def _strongest(kinds: Iterable[str]) -> str:
    present = set(kinds)
    return VALUE if VALUE in present else COUNT if COUNT in present else ""


def _is_update(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "update_state"


def _is_metric(value: Value) -> bool:
    return isinstance(value, Result) and calls(value).startswith("keras.metrics.")


def _container(node: cst.CSTNode) -> str:
    """The name or attribute that a container is reached by: `logs` of `logs["loss"]`, `losses` of `self.losses`."""
    while isinstance(node, cst.Subscript):
        node = node.value
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""
