"""The sites that train: `fit` calls and updates, with what they train, on what and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.gradients import GradientFlow, Gradients, sources_of
from migrator.facts.kinds import Kinds, origin
from migrator.facts.resolve import Resolver
from migrator.facts.tree import Tree, semantic_children
from migrator.facts.values import Class, Function, Object, Result, Value

_ASSIGNMENTS = frozenset({"assign", "assign_sub", "assign_add", "scatter_sub", "scatter_add"})


@dataclass(frozen=True, eq=False)
class Fit:
    """A call of a Keras model's `fit`."""

    call: cst.Call
    model: cst.BaseExpression
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Update:
    """A call that changes weights by gradients: `apply_gradients`, `apply`, or an assignment by hand."""

    call: cst.Call
    gradients: tuple[Gradients, ...]


class Training:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.flow = GradientFlow(tree, resolver, kinds)

    # -- fit -----------------------------------------------------------------------------------------------------

    def methods(self, *names: str) -> Iterator[tuple[cst.Call, cst.Attribute]]:
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in names:
                yield call, call.func

    @cached_property
    def fits(self) -> list[Fit]:
        found = []
        for call, func in self.methods("fit"):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_model(v) for v in values) and not self.is_overridden(values, "fit"):
                found.append(Fit(call, func.value, values))
        return found

    def is_overridden(self, values: tuple[Value, ...], name: str) -> bool:
        return any(isinstance(v, Object) and self.resolver.method(v.of, name) is not None for v in values)

    @cached_property
    def compiles(self) -> list[Fit]:
        """`compile` calls of models, with the model, as `fits` has them."""
        found = []
        for call, func in self.methods("compile"):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_model(v) for v in values):
                found.append(Fit(call, func.value, values))
        return found

    # -- updates -------------------------------------------------------------------------------------------------

    @cached_property
    def updates(self) -> list[Update]:
        found = []
        for call, func in self.methods("apply_gradients", "apply"):
            if any(isinstance(v, Function) for v in self.resolver.values(call.func)):
                continue  # a method of the script's own: the call inside of it is the update
            if is_super(func.value):
                continue
            gradients = [g for arg in call.args[:1] for g in self.flow.sources(arg.value)]
            is_optimizer = any(self.kinds.is_optimizer(v) for v in self.resolver.values(func.value))
            if func.attr.value == "apply" and not gradients and not is_optimizer:
                continue  # a dataset's or a pandas frame's
            found.append(Update(call, tuple(gradients)))
        found.extend(self._assignments())
        return [u for u in found if not self._optimises_input(u)]

    def _assignments(self) -> Iterator[Update]:
        for call, _ in self.methods(*_ASSIGNMENTS):
            gradients = [g for arg in call.args for g in self.flow.sources(arg.value)]
            if gradients:
                yield Update(call, tuple(gradients))

    def _optimises_input(self, update: Update) -> bool:
        """Style transfer, adversarial examples: the gradients move an image, not a model."""
        sources = [s for g in update.gradients for c in g.tape_calls if (s := sources_of(c)) is not None]
        return bool(sources) and all(self.is_input(s) for s in sources)

    def is_input(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.List, cst.Tuple)):
            return bool(node.elements) and all(self.is_input(e.value) for e in node.elements)
        values = self.resolver.values(node)
        return bool(values) and all(
            self.kinds.is_variable(v) and _starts_from_data(cast(Result, v), self.resolver) for v in values
        )

    def step_class(self, update: Update) -> Class | None:
        """The model class in whose `train_step` the update stands: `fit` calls it, with batches of its own."""
        function = self.tree.function_of(update.call)
        while function is not None:
            cls = self.tree.class_of(function)
            if cls is not None and function.name.value == "train_step" and self.kinds.is_keras_model_class(Class(cls)):
                return Class(cls)
            callers = self.resolver.callers(function)
            outer = self.tree.function_of(callers[0]) if len(callers) == 1 else None
            function = outer if outer is not function else None
        return None

    def trains_by_itself(self, values: tuple[Value, ...]) -> bool:
        """Whether `fit` of these models runs a `train_step` of the script's own that applies the gradients."""
        classes = [cls for u in self.updates if (cls := self.step_class(u)) is not None]
        return any(isinstance(v, Object) and any(cls in self.resolver.lineage(v.of) for cls in classes) for v in values)

    def reached_from(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The node and the bodies of all functions of the script that run when it runs."""
        bodies: list[cst.CSTNode] = [node]
        run_by: dict[cst.Call, list[cst.CSTNode]] = {}
        for function in self.tree.functions:
            for call in self.resolver.callers(function):
                run_by.setdefault(call, []).append(function)
        for body in bodies:
            for call, functions in run_by.items():
                if self.tree.contains(body, call):
                    bodies.extend(f for f in functions if f not in bodies)
        return bodies


def is_super(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


_INITIALISERS = re.compile(
    r"\.(?:random|initializers|truncated_normal|zeros|ones|fill|constant|eye|zeros_like|ones_like|randn|normal|uniform)\b"
)


def _starts_from_data(variable: Result, resolver: Resolver) -> bool:
    """Whether a tf.Variable begins as data (an image), and not as numbers, random ones or an initialiser's."""
    initial = next(
        (a.value for a in variable.call.args if a.keyword is None or a.keyword.value == "initial_value"), None
    )
    if initial is None or isinstance(initial, (cst.BaseNumber, cst.List, cst.Tuple, cst.Lambda)):
        return False
    values = resolver.values(initial)
    return (
        bool(values) and not any(_INITIALISERS.search(origin(v)) for v in values) and not _has_call(initial, resolver)
    )


def _has_call(node: cst.CSTNode, resolver: Resolver) -> bool:
    """Whether an initialiser is called anywhere in the expression (`0.1 * np.random.randn(3)`)."""
    if isinstance(node, cst.Call) and any(_INITIALISERS.search(origin(v)) for v in resolver.values(node)):
        return True
    return any(_has_call(child, resolver) for child in semantic_children(node))
