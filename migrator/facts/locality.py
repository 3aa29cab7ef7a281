"""Which expressions differ from worker to worker, since they come from the worker's own share of the batches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Callable, TypeVar, cast

import libcst as cst

from migrator.facts import vocabulary
from migrator.facts.iteration import Iteration
from migrator.facts.kinds import calls
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.training import Training
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import External, Object, Value
from migrator.facts.vocabulary import Role

COUNT = "count"  # how many samples this worker has seen
VALUE = "value"  # a number computed from them

# No two workers read the same time.
CLOCKS = frozenset({"time.time", "time.monotonic", "time.perf_counter", "time.process_time", "timeit.default_timer"})
_STATISTICS = re.compile(r"^keras\.layers\.(?:experimental\.)?(?:Sync)?BatchNormalization$|^keras\.applications\.")
_INFERENCE = frozenset({"evaluate", "predict", "predict_on_batch", "test_on_batch"})
_TRAINED = frozenset({"trainable_variables", "trainable_weights"})  # alike on all workers
_COUNTING_ATTRIBUTES = frozenset({"shape", "size"})
_COUNTING_CALLS = frozenset({"builtins.len", "tensorflow.shape", "tensorflow.size"})
_COLLECTING = frozenset({"append", "extend", "add", "update_state", "insert"})
_Key = TypeVar("_Key")
# What is further from its origin than so many steps counts as local: Python's own stack must not decide.
_DEEPEST = 100
_OPERATORS = (cst.BaseCompOp, cst.BaseBinaryOp, cst.BaseUnaryOp, cst.BaseBooleanOp, cst.BaseAugOp)


class Locality:
    """Follows the batches of this worker through names, attributes, containers, metrics and functions."""

    def __init__(self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self._iteration = Iteration(tree, resolver)
        self._known: dict[object, str] = {}
        # Of the evaluation that is going on: what it has found, and found before where it meets itself.
        self._found: dict[object, str] = {}
        self._assumed: dict[object, str] = {}
        self._busy: set[object] = set()
        self._met_itself = False
        # Gradients are reduced before anything reads them.
        self._settled: set[object] = {g.holder for u in training.updates for g in u.gradients if g.holder is not None}

    def settle(self, agreed: Binding | cst.Call) -> None:
        """From here on, what the binding or the call gives counts as averaged."""
        self._settled.add(agreed)
        self._known.clear()

    def of(self, node: cst.CSTNode | None) -> str:
        """COUNT or VALUE where the expression depends on this worker's samples; empty where all workers agree."""
        if node is None:
            return ""
        if self._busy:
            return self._once(node, self._of)
        # `loss = loss + x` in a loop depends on itself: evaluated anew with what was found, until nothing is added.
        self._assumed = {}
        while node not in self._known:
            self._found, self._met_itself = {}, False
            self._once(node, self._of)
            if not self._met_itself or self._found == self._assumed:
                self._known.update(self._found)
            self._assumed = self._found
        return self._known[node]

    def _once(self, key: _Key, evaluate: Callable[[_Key], str]) -> str:
        known = self._known.get(key, self._found.get(key))
        if known is not None:
            return known
        if len(self._busy) > _DEEPEST:
            return VALUE
        if key in self._busy:
            self._met_itself = True
            return self._assumed.get(key, "")
        self._busy.add(key)
        try:
            self._found[key] = evaluate(key)
        finally:
            self._busy.discard(key)
        return self._found[key]

    def _of(self, node: cst.CSTNode) -> str:
        if node in self._settled:
            return ""
        if node in self.sharding.minibatches.nodes:
            return VALUE
        if isinstance(node, cst.Name):
            return _strongest([*map(self._of_binding, self.resolver.reaching(node)), self._collected(node)])
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node)
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return ""
        return _strongest(self.of(c) for c in semantic_children(node) if not isinstance(c, _OPERATORS))

    def _of_attribute(self, node: cst.Attribute) -> str:
        name = node.attr.value
        if name in _TRAINED:
            return ""
        inner = self.of(node.value)
        if inner:
            return COUNT if name in _COUNTING_ATTRIBUTES else inner
        return _strongest([*map(self._of_binding, self.resolver.bindings_of(node)), self._collected(node)])

    # -- bindings ------------------------------------------------------------------------------------------------

    def _of_binding(self, binding: Binding) -> str:
        return "" if binding in self._settled else self._once(binding, self._of_unsettled)

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
        if binding.value is None:
            return ""
        return self.of(self._iteration.narrowed(binding.value, binding.path)[0])

    def _collected(self, container: cst.CSTNode) -> str:
        """`losses.append(loss)`, `logs["loss"] = loss`: a container is as local as what is put into it."""
        return _strongest([self.of(value) for value in self._put_into(container)])

    def _put_into(self, container: cst.CSTNode) -> list[cst.BaseExpression]:
        return self._stored.get(self._container(container), [])

    @cached_property
    def _stored(self) -> dict[tuple[cst.Module | None, str], list[cst.BaseExpression]]:
        """What is put into containers, by the name in its file, or the attribute, that leads to them."""
        found: dict[tuple[cst.Module | None, str], list[cst.BaseExpression]] = {}
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value in _COLLECTING:
                name = self._container(func.value)
                if name[1] and not any(isinstance(v, External) for v in self.resolver.values(func)):
                    found.setdefault(name, []).extend(arg.value for arg in call.args)
        for target, value in self.tree.item_assignments:
            name = self._container(target)
            if name[1]:
                found.setdefault(name, []).append(value)
        return found

    def _container(self, node: cst.CSTNode) -> tuple[cst.Module | None, str]:
        """What a container is reached by: `logs` of `logs["loss"]` in its file, `losses` of `self.losses` in all."""
        while isinstance(node, cst.Subscript):
            node = node.value
        if isinstance(node, cst.Name):
            return self.tree.module_of(node), node.value
        return None, node.attr.value if isinstance(node, cst.Attribute) else ""

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

    def _gives_dataset(self, call: cst.Call) -> bool:
        return any(map(self.training.kinds.is_dataset, self.resolver.values(call)))

    @cached_property
    def _fit_calls(self) -> set[cst.Call]:
        return {fit.call for fit in self.training.fits}

    def _of_call(self, call: cst.Call) -> str:
        paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
        if any(vocabulary.has_role(p, Role.REDUCE, Role.RANK) for p in paths) or self.training.flow.is_tape_call(call):
            return ""
        if any(map(self.training.kinds.has_weights, self.resolver.values(call))):
            return ""  # a model or layer is no number, whatever symbolic tensors it is made of
        if any(vocabulary.has_role(p, Role.SHARD) for p in paths) and not self._gives_dataset(call):
            return VALUE  # of a dataset it is the batches, where training reads them
        if paths & CLOCKS or (self.keeps_statistics and self._infers(call)):
            return VALUE
        if any(call is fit.call for fit in self.training.batch_fits):
            return VALUE
        if any(call is c.reader for c in self.sharding.consumptions if c.reader not in self._fit_calls):
            return VALUE  # `next(iterator)`
        functions = self.functions_run_by(call)
        returned = [r for f in functions for r in self.resolver.returned(f)]
        if functions and returned:
            return _strongest([self.of(r) for r in returned])
        given = _strongest([self.of(a.value) for a in call.args])
        if given and paths & _COUNTING_CALLS:
            return COUNT if self._counts_samples(call) else ""
        if isinstance(call.func, cst.Attribute):
            given = _strongest([given, self.of(call.func.value)])
            if call.func.attr.value == "result" and self.is_fed_locally(call.func.value):
                return VALUE
        return given

    @cached_property
    def keeps_statistics(self) -> bool:
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
        return not self._put_into(call.args[0].value)

    # -- metrics -------------------------------------------------------------------------------------------------

    def _is_metric(self, value: Value) -> bool:
        """A metric of Keras's, or of a class of the script's that derives from one."""
        if isinstance(value, Object):
            return self.resolver.derives_from(value.of, lambda path: path.startswith("keras.metrics."))
        return calls(value).startswith("keras.metrics.")

    def is_fed_locally(self, metric: cst.BaseExpression) -> bool:
        """Whether a Keras metric was updated with local values: `m(loss)` or `m.update_state(loss)`."""
        return any(map(self.of, self.fed_to(metric)))

    def fed_to(self, metric: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a Keras metric is updated with."""
        metrics = {v for v in self.resolver.values(metric) if self._is_metric(v)}
        found: list[cst.BaseExpression] = []
        for call in self._metric_updates:
            target = call.func.value if isinstance(call.func, cst.Attribute) and _is_update(call) else call.func
            if metrics & set(self.resolver.values(target)):
                found.extend(a.value for a in call.args)
        return found

    @cached_property
    def _metric_updates(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if _is_update(call) or (call.args and any(self._is_metric(v) for v in self.resolver.values(call.func)))
        ]


def _strongest(kinds: Iterable[str]) -> str:
    present = set(kinds)
    return VALUE if VALUE in present else COUNT if COUNT in present else ""


def _is_update(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "update_state"
