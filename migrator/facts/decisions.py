"""Where a script decides by what only one worker has seen: a loss or metric of its share of the batches.

Workers that decide differently part ways: the one that leaves the loop first lets the others wait for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst
import libcst.matchers as m

from migrator.facts import api
from migrator.facts.kinds import Kinds, calls
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.training import Training
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import External, Result, Value

_AGREED = frozenset({f"{api.RUNTIME}.all_reduce", f"{api.RUNTIME}.is_chief", f"{api.RUNTIME}.rank"})
_COUNTING_ATTRIBUTES = frozenset({"shape", "size"})
_COUNTING_CALLS = frozenset({"builtins.len", "tensorflow.shape", "tensorflow.size"})
_SETTINGS = frozenset({"learning_rate", "lr", "momentum", "weight_decay"})
_COLLECTING = frozenset({"append", "extend", "add", "update_state"})

COUNT = "count"  # how many samples this worker has seen
VALUE = "value"  # a number computed from them


@dataclass(frozen=True, eq=False)
class LocalNumber:
    """A number of this worker's own that steers training.

    `binding`, where given, is the statement right after which it can be averaged for all that follows; else the
    expression stands in a condition and is averaged there. The number of samples seen cannot be averaged.
    """

    expression: cst.BaseExpression
    binding: Binding | None = None
    is_count: bool = False


class Decisions:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, sharding: Sharding) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.sharding = sharding
        self._known: dict[cst.CSTNode, str] = {}
        self._busy: set[cst.CSTNode] = set()
        self._averaged: set[Binding] = set()

    @cached_property
    def local_numbers(self) -> list[LocalNumber]:
        """The local numbers by which conditions of `if` and `while` steer training, in source order."""
        if not self.sharding.consumptions:
            return []
        found = []
        for node in self._steering:
            for expression in self._atoms(node.test):
                locality = self.locality(expression)
                binding = self._bound_nearby(expression)
                if locality == COUNT:
                    found.append(LocalNumber(expression, is_count=True))
                elif locality == VALUE:  # an earlier one of this condition may have settled it
                    found.append(LocalNumber(expression, binding))
                    if binding is not None:
                        self._averaged.add(binding)
                        self._known.clear()
        return found

    def _bound_nearby(self, expression: cst.BaseExpression) -> Binding | None:
        """The one assignment of a plain name, where each of its turns comes to the condition: averaged there, what is
        derived from it (the best so far) agrees as well."""
        if not isinstance(expression, cst.Name):
            return None
        bindings = self.resolver.reaching(expression)
        if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].path:
            return None
        node = bindings[0].node
        alike = list(self.tree.loops_around(node)) == list(self.tree.loops_around(expression))
        same = self.tree.function_of(node) is self.tree.function_of(expression)
        if not (alike and same and isinstance(node, cst.Assign)) or self._is_differentiated(expression):
            return None
        return bindings[0]

    def _is_differentiated(self, name: cst.Name) -> bool:
        """Whether a tape goes back through the name: the loss itself must stay this worker's until then."""
        return any(
            other.value == name.value and self.tree.order[other] > self.tree.order[name]
            for call in self.tree.calls
            if self.training.flow.is_tape_call(call) and call.args
            for other in self.tree.names_in(call.args[0].value)
        )

    # -- what is steered -----------------------------------------------------------------------------------------

    @cached_property
    def _steering(self) -> list[cst.If | cst.While]:
        """Conditions that decide how training goes on, by themselves or through names that such a condition reads."""
        conditions = [n for n in self.tree.order if isinstance(n, (cst.If, cst.While))]
        chosen = {n for n in conditions if self._steers(n)}
        while True:
            read = {name.value for n in chosen for name in self.tree.names_in(n.test)}
            more = {n for n in conditions if n not in chosen and self._binds(n, read)}
            if not more:
                return [n for n in conditions if n in chosen]
            chosen |= more

    def _binds(self, node: cst.If | cst.While, names: set[str]) -> bool:
        scope = self.tree.scope_of(node)
        return isinstance(node, cst.If) and any(
            self.tree.contains(node, b.node) and not isinstance(b.node, cst.NamedExpr)
            for name in names
            for b in scope.bindings.get(name, ())
        )

    def _steers(self, node: cst.If | cst.While) -> bool:
        if isinstance(node, cst.While):
            return self._runs_training(node)
        branches: list[cst.CSTNode] = [node.body, *([node.orelse] if node.orelse is not None else [])]
        return any(self._leaves_loop(b) or self._runs_training(b) or self._sets_optimizer(b) for b in branches)

    def _leaves_loop(self, branch: cst.CSTNode) -> bool:
        for child in semantic_children(branch):
            if isinstance(child, (cst.Break, cst.Continue, cst.Return)):
                return True
            if isinstance(child, (cst.FunctionDef, cst.ClassDef, cst.For, cst.While)):
                continue  # what is left there is not this loop
            if isinstance(child, (cst.BaseStatement, cst.BaseSuite)) and self._leaves_loop(child):
                return True
        return False

    def _runs_training(self, branch: cst.CSTNode) -> bool:
        bodies = self.training.reached_from(branch)
        return any(self.tree.contains(body, site) for body in bodies for site in self._sites)

    @cached_property
    def _sites(self) -> list[cst.Call]:
        return [*(f.call for f in self.training.fits), *(u.call for u in self.training.updates)]

    def _sets_optimizer(self, branch: cst.CSTNode) -> bool:
        for name in _SETTINGS:
            for binding in self.tree.attributes.get(name, ()):
                if self.tree.contains(branch, binding.node):
                    return True
        setting = m.Attribute(value=m.Attribute(attr=m.Name()), attr=m.Name("assign"))
        return any(
            m.matches(call.func, setting)
            and cst.ensure_type(cst.ensure_type(call.func, cst.Attribute).value, cst.Attribute).attr.value in _SETTINGS
            for call in self.tree.calls
            if self.tree.contains(branch, call)
        )

    # -- what is local -------------------------------------------------------------------------------------------

    def locality(self, node: cst.CSTNode | None) -> str:
        """COUNT or VALUE where the expression depends on this worker's samples; empty where all workers agree."""
        if node is None or node in self._busy:
            return ""
        known = self._known.get(node)
        if known is None:
            self._busy.add(node)
            known = self._locality(node)
            self._busy.discard(node)
            if not self._busy:
                self._known[node] = known
        return known

    def _locality(self, node: cst.CSTNode) -> str:
        if isinstance(node, cst.Name):
            return self._strongest([*map(self._of_binding, self.resolver.reaching(node)), self._collected(node)])
        if isinstance(node, cst.Call):
            return self._of_call(node)
        if isinstance(node, cst.Attribute):
            inner = self.locality(node.value)
            return COUNT if inner and node.attr.value in _COUNTING_ATTRIBUTES else inner
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return ""
        return self._strongest(
            self.locality(child)
            for child in semantic_children(node)
            if not isinstance(child, (cst.BaseCompOp, cst.BaseBinaryOp, cst.BaseUnaryOp, cst.BaseBooleanOp))
        )

    @staticmethod
    def _strongest(kinds: Iterator[str] | list[str]) -> str:
        present = set(kinds)
        return VALUE if VALUE in present else COUNT if COUNT in present else ""

    def _of_binding(self, binding: Binding) -> str:
        if binding in self._averaged:
            return ""
        if binding.kind == "for":
            return self._of_loop_target(binding)
        if binding.kind == "param":
            return self._strongest([self.locality(a) for a in self.resolver.given(cast(cst.Param, binding.node))])
        if binding.kind in ("assign", "augmented") and binding.value is not None:
            kinds = [self.locality(binding.value)]
            if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
                kinds += [self._of_binding(b) for b in self.resolver.reaching(binding.target) if b is not binding]
            return self._strongest(kinds)
        return ""

    def _of_loop_target(self, binding: Binding) -> str:
        if any(c.reader is binding.node for c in self.sharding.consumptions):
            loop = cast(cst.For, binding.node)
            counts = isinstance(loop.iter, cst.Call) and any(
                v == External("builtins.enumerate") for v in self.resolver.values(loop.iter.func)
            )
            return "" if counts and binding.path[:1] == (0,) else VALUE
        return self.locality(binding.value)

    def _of_call(self, call: cst.Call) -> str:
        paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
        if paths & _AGREED:
            return ""
        given = self._strongest([self.locality(a.value) for a in call.args])
        if given and paths & _COUNTING_CALLS:
            return COUNT
        if isinstance(call.func, cst.Attribute):
            given = self._strongest([given, self.locality(call.func.value)])
            if call.func.attr.value == "result" and self._is_fed_locally(call.func.value):
                return VALUE
        return given or self._of_training_function(call)

    def _of_training_function(self, call: cst.Call) -> str:
        """A function that trains an epoch by itself returns what its own batches gave."""
        for function in self.tree.functions:
            if call in self.resolver.callers(function):
                return self._strongest([self.locality(r) for r in self.resolver.returned(function)])
        return ""

    def _collected(self, name: cst.Name) -> str:
        """`losses.append(loss)`: the list holds what is put into it."""
        return self._strongest([self.locality(a.value) for c in self._fed.get(name.value, ()) for a in c.args])

    @cached_property
    def _fed(self) -> dict[str, list[cst.Call]]:
        """Calls that put something into a named object, by that name."""
        found: dict[str, list[cst.Call]] = {}
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name) and func.attr.value in _COLLECTING:
                found.setdefault(func.value.value, []).append(call)
        return found

    def _is_fed_locally(self, metric: cst.BaseExpression) -> bool:
        """Whether a Keras metric was updated with local values: `m(loss)` or `m.update_state(loss)`."""
        metrics = {v for v in self.resolver.values(metric) if self._is_metric(v)}
        for call in self._metric_updates:
            target = call.func.value if isinstance(call.func, cst.Attribute) else call.func
            if metrics & set(self.resolver.values(target)) and any(self.locality(a.value) for a in call.args):
                return True
        return False

    @cached_property
    def _metric_updates(self) -> list[cst.Call]:
        found = []
        for call in self.tree.calls:
            func = call.func
            updates = isinstance(func, cst.Attribute) and func.attr.value == "update_state"
            if updates or (call.args and any(self._is_metric(v) for v in self.resolver.values(func))):
                found.append(call)
        return found

    @staticmethod
    def _is_metric(value: Value) -> bool:
        return isinstance(value, Result) and calls(value).startswith("keras.metrics.")

    # -- what to average -----------------------------------------------------------------------------------------

    def _atoms(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The largest local numbers in a condition: the operands of its comparisons."""
        if not self.locality(node):
            return
        if isinstance(node, cst.BooleanOperation):
            yield from self._atoms(node.left)
            yield from self._atoms(node.right)
        elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            yield from self._atoms(node.expression)
        elif isinstance(node, cst.Comparison):
            yield from self._atoms(node.left)
            for target in node.comparisons:
                yield from self._atoms(target.comparator)
        elif isinstance(node, cst.Call) and self._tests(node):
            for arg in node.args:
                yield from self._atoms(arg.value)
        else:
            yield node

    def _tests(self, call: cst.Call) -> bool:
        """`np.isnan(loss)` and the like: the number inside is averaged, not the truth value."""
        return any(
            isinstance(v, External) and v.path.rpartition(".")[2].startswith(("is", "less", "greater", "equal"))
            for v in self.resolver.values(call.func)
        )
