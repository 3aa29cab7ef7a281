"""Where training is steered by what only one worker has seen: a loss or metric of its share of the batches.

Workers that decide differently part ways: the one that leaves a loop first lets the others wait for ever, and one
that changes its learning rate alone trains another model. Three kinds of places steer: conditions that leave a loop,
train, set the optimizer or write files; conditions that bind what such a condition reads; and the expressions that
set the optimizer or enter an update.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from migrator.facts.files import Files
from migrator.facts.kinds import calls
from migrator.facts.locality import CLOCKS, COUNT, Locality
from migrator.facts.metrics import MetricResult, Metrics
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.training import Minimization, Training
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import External

_CONDITIONS = (cst.If, cst.While)

_SETTINGS = frozenset({"learning_rate", "lr", "momentum", "weight_decay", "_learning_rate"})


@dataclass(frozen=True, eq=False)
class LocalNumber:
    """A number of this worker's own that steers training.

    `binding`, where given, is the statement right after which it can be averaged for all that follows; else it is
    averaged where the expression stands. The number of samples seen cannot be averaged. `metric`, where given, says
    that the expression is a metric's result, whether or not it steers.
    """

    expression: cst.BaseExpression
    binding: Binding | None = None
    is_count: bool = False
    metric: MetricResult | None = None


class Decisions:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding, files: Files) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.files = files
        self.locality = Locality(tree, resolver, training, sharding)
        self.metrics = Metrics(tree, resolver, training, sharding, files, self.locality)

    @cached_property
    def local_numbers(self) -> list[LocalNumber]:
        """The local numbers that steer training, in source order."""
        if not (self.sharding.consumptions or self.training.batch_fits or self.sharding.minibatches.all):
            return []
        found: dict[cst.CSTNode, LocalNumber] = {
            r.call: LocalNumber(r.call, metric=r) for r in self._results if not r.is_own
        }
        places = [*(n.test for n in self.steering), *self._settings, *self._update_arguments]
        for place in sorted(places, key=self.tree.order.__getitem__):
            for expression in self._atoms(place, set()):
                locality = self.locality.of(expression)
                if locality and expression not in found:
                    found[expression] = self._number(expression, locality)
        for result in self._results:
            found.setdefault(result.call, LocalNumber(result.call, metric=result))
        return sorted(found.values(), key=lambda number: self.tree.order[number.expression])

    @cached_property
    def _results(self) -> list[MetricResult]:
        """The results of metrics that are combined where they are asked for, and settled by that."""
        found = list(self.metrics.results())
        for result in found:
            if not result.is_own:
                self.locality.settle(result.call)
        return found

    def _number(self, expression: cst.BaseExpression, locality: str) -> LocalNumber:
        if locality == COUNT:
            return LocalNumber(expression, is_count=True)
        binding = self._bound_nearby(expression)
        if binding is not None:
            self.locality.settle(binding)
        return LocalNumber(expression, binding)

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
        if not (alike and same and isinstance(node, cst.Assign)) or self._is_differentiated(bindings[0]):
            return None
        return bindings[0]

    def _is_differentiated(self, binding: Binding) -> bool:
        """Whether a tape goes back through the name: the loss itself must stay this worker's until then."""
        return any(
            name.value == binding.name and self.tree.order[name] > self.tree.order[binding.node]
            for call in self.tree.calls
            if self.training.flow.is_tape_call(call)
            for arg in call.args
            for name in self.tree.names_in(arg.value)
        )

    # -- conditions ----------------------------------------------------------------------------------------------

    @cached_property
    def steering(self) -> list[cst.If | cst.While]:
        """Conditions that decide how training goes on, by themselves or through names that such a place reads."""
        conditions = [n for n in self.tree.order if isinstance(n, _CONDITIONS) and not self.files.is_chief_only(n)]
        chosen = {n for n in conditions if self._steers(n)}
        while True:
            places = [*(n.test for n in chosen), *self._settings, *self._update_arguments]
            read = {name for place in places for name in self._reads(place, set())}
            more = {n for n in conditions if n not in chosen and self._binds(n, read)}
            if not more:
                return [n for n in conditions if n in chosen]
            chosen |= more

    def _reads(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[str]:
        """The names and attributes that the expression depends on, through assignments and functions of the script."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Name):
            yield node.value
            for binding in self.resolver.reaching(node):
                if binding.kind in ("assign", "augmented") and binding.value is not None:
                    yield from self._reads(binding.value, seen)
        elif isinstance(node, cst.Attribute):
            yield node.attr.value
        if isinstance(node, cst.Call):
            for function in self.locality.functions_run_by(node):
                for returned in self.resolver.returned(function):
                    yield from self._reads(returned, seen)
        for child in semantic_children(node):
            yield from self._reads(child, seen)

    def _binds(self, node: cst.If | cst.While, names: set[str]) -> bool:
        if not isinstance(node, cst.If):
            return False
        return any(
            self.tree.contains(node, binding.node)
            for name in names
            for binding in (*self._bindings_by_name.get(name, ()), *self.tree.attributes.get(name, ()))
        )

    @cached_property
    def _bindings_by_name(self) -> dict[str, list[Binding]]:
        found: dict[str, list[Binding]] = {}
        for scope in self.tree.scopes.values():
            for name, bindings in scope.bindings.items():
                found.setdefault(name, []).extend(b for b in bindings if b.kind in ("assign", "augmented"))
        return found

    def _steers(self, node: cst.If | cst.While) -> bool:
        if isinstance(node, cst.While):
            return self._runs_training(node)
        branches: list[cst.CSTNode] = [node.body, *([node.orelse] if node.orelse is not None else [])]
        return any(
            self._asks_metrics(b)
            or self._leaves_loop(b)
            or self._runs_training(b)
            or self._sets_optimizer(b)
            or self._writes(b)
            for b in branches
        )

    def _asks_metrics(self, branch: cst.CSTNode) -> bool:
        """Whether the branch combines results, for which all workers have to come."""
        bodies = self.training.reached_from(branch)
        return any(self.tree.contains(body, result.call) for body in bodies for result in self._results)

    def _leaves_loop(self, branch: cst.CSTNode) -> bool:
        for child in semantic_children(branch):
            if isinstance(child, (cst.Break, cst.Continue, cst.Return)):
                return True
            if isinstance(child, (cst.FunctionDef, cst.ClassDef)):
                continue
            if isinstance(child, (cst.BaseStatement, cst.BaseSuite)) and self._leaves_loop(child):
                return True
        return False

    def _runs_training(self, branch: cst.CSTNode) -> bool:
        bodies = self.training.reached_from(branch)
        return any(self.tree.contains(body, site) for body in bodies for site in self._sites)

    @cached_property
    def _sites(self) -> list[cst.Call]:
        return self.training.sites

    def _writes(self, branch: cst.CSTNode) -> bool:
        return any(self.tree.contains(branch, w.node) for w in self.files.writes) or any(
            self.tree.contains(branch, call) for call in self.files.restores
        )

    def _sets_optimizer(self, branch: cst.CSTNode) -> bool:
        return any(self.tree.contains(branch, setting) for setting in self._settings)

    # -- expressions ---------------------------------------------------------------------------------------------

    @cached_property
    def _settings(self) -> list[cst.BaseExpression]:
        """What an optimizer's settings get: `opt.learning_rate = …`, `….assign(…)`, `K.set_value(opt.lr, …)`."""
        found: list[cst.BaseExpression] = []
        for name in _SETTINGS:
            for binding in self.tree.attributes.get(name, ()):
                if isinstance(binding.value, cst.BaseExpression):
                    found.append(binding.value)
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and func.attr.value.startswith("assign") and _is_setting(func.value):
                found.extend(arg.value for arg in call.args)
            elif len(call.args) > 1 and _is_setting(call.args[0].value) and self._sets_value(call):
                found.append(call.args[1].value)
        return found

    def _sets_value(self, call: cst.Call) -> bool:
        return any(v == External("keras.backend.set_value") for v in self.resolver.values(call.func))

    @cached_property
    def _update_arguments(self) -> list[cst.BaseExpression]:
        updates = (u for u in self.training.updates if not isinstance(u, Minimization))
        return [arg.value for update in updates for arg in update.call.args]

    # -- what to average -----------------------------------------------------------------------------------------

    def _atoms(self, node: cst.BaseExpression, seen: set[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
        """The local numbers in an expression: names, attributes and results, not the arithmetic around them."""
        if node in seen or not self.locality.of(node) or self._picks_gradients(node):
            return
        seen.add(node)
        inner = self._inside(node)
        if inner is None:
            yield node
            return
        for part in inner:
            yield from self._atoms(part, seen)

    def _inside(self, node: cst.BaseExpression) -> Iterable[cst.BaseExpression] | None:
        """The operands of an operation, condition or outside function; None for what is to be averaged as a whole."""
        if isinstance(node, cst.Call) and any(v.path in CLOCKS for v in self._outside(node)):
            return None
        if isinstance(node, cst.Call):
            if any(isinstance(v, External) for v in self.resolver.values(node.func)) and not self._is_sample_result(
                node
            ):
                return [arg.value for arg in node.args]
            functions = self.locality.functions_run_by(node)
            returned = [r for f in functions for r in self.resolver.returned(f)]
            return returned if returned and all(map(_is_truth, returned)) else None
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            values = [b.value for b in bindings if b.kind == "assign" and not b.path]
            truths = [v for v in values if isinstance(v, cst.BaseExpression) and _is_truth(v)]
            return truths if truths and len(truths) == len(bindings) else None
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            return None
        return [child for child in _operands(node) if isinstance(child, cst.BaseExpression)]

    def _picks_gradients(self, node: cst.BaseExpression) -> bool:
        """Whether it takes gradients out of something that holds local numbers, too: they are reduced on their own."""
        return isinstance(node, (cst.Attribute, cst.Subscript)) and bool(self.training.flow.sources(node))

    def _outside(self, call: cst.Call) -> list[External]:
        return [v for v in self.resolver.values(call.func) if isinstance(v, External)]

    def _is_sample_result(self, call: cst.Call) -> bool:
        """A mean over a list (`np.mean(losses[-10:])`) is averaged as a whole: its argument is no number."""
        return any(
            calls(v).rpartition(".")[2] in ("mean", "reduce_mean", "average", "sum", "min", "max", "median")
            for v in self.resolver.values(call)
        )


def _is_setting(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in _SETTINGS


def _is_truth(node: cst.CSTNode) -> bool:
    """Whether an expression is a truth value: what decides in it can be averaged, it itself cannot."""
    if isinstance(node, cst.Name):
        return node.value in ("True", "False")
    return isinstance(node, (cst.Comparison, cst.BooleanOperation)) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    )


def _operands(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The expressions directly below, through the nodes that only hold them."""
    for child in semantic_children(node):
        if isinstance(child, (cst.ComparisonTarget, cst.BaseElement, cst.BaseDictElement, cst.CompFor)):
            yield from _operands(child)
        else:
            yield child
