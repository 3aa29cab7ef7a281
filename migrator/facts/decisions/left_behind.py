"""What statements change that comes into the training: run by the chief alone, they would leave the others with what it
was.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.consequences import HARMLESS
from migrator.facts.decisions.into_training import IntoTraining
from migrator.facts.dependence import Key
from migrator.facts.files.writes import Files
from migrator.facts.names import api
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Literal, Member, Object, Result, Value, calls
from migrator.facts.program.syntax import dotted
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training

# What their functions give is new.
_MAKING = ("numpy.", "tensorflow.", "builtins.", "collections.")
_WRITERS = frozenset({"csv.writer", "csv.DictWriter"})
_METRICS = "keras.metrics."
_STATES = frozenset({"update_state", "reset_state", "reset_states"})


class LeftBehind:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding, files: Files) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.files = files
        self._into_training = IntoTraining(tree, resolver, training, sharding, files)
        self.regions = self._into_training.regions

    def by(self, statements: Sequence[cst.CSTNode]) -> str | None:
        """The name of something of that kind, empty where it has none; None where no such thing is changed."""
        bodies = [body for statement in statements for body in self.training.reached_from(statement)]
        for call in (call for body in bodies for call in self.regions.calls_in(body)):
            if self._moves_on(call):
                return dotted(call.func)
        keys = dict.fromkeys(self.regions.changed_within(statements, self._into_training.dependence, self._aside))
        kept = (key for key in keys if not self._is_made_in(bodies, key))
        found = next((key for key in kept if self._into_training.comes([key])), None)
        return _name(found) if found is not None else None

    @cached_property
    def _aside(self) -> set[cst.CSTNode]:
        """The calls that change nothing in the process, and those that write: what reads the files waits for that. A
        model changes nothing that it is given, and a package that nobody knows writes it."""
        unknown = (call for call in self.tree.calls if any(map(_is_unknown, self.resolver.values(call.func))))
        writes = (write.node for write in self.files.writes)
        ran = filter(self.training.runs_model, self.tree.calls)
        return {*filter(self.regions.only_tells, self.tree.calls), *ran, *unknown, *writes}

    def _is_made_in(self, bodies: Sequence[cst.CSTNode], key: Key) -> bool:
        """Whether it is in something that is made there: a file that is opened, an array."""
        binding = key[-1] if isinstance(key, tuple) else key
        if not isinstance(binding, Binding) or not any(self.tree.contains(body, binding.node) for body in bodies):
            return False
        values = self.resolver.values(binding.value) if isinstance(binding.value, cst.BaseExpression) else ()
        is_new = bool(values) and all(
            calls(v).startswith(_MAKING) or isinstance(v, Literal) or self._writes_to_new(bodies, v) for v in values
        )
        return binding.kind == "with" or (binding.kind == "assign" and is_new)

    def _writes_to_new(self, bodies: Sequence[cst.CSTNode], value: Value) -> bool:
        """Whether it writes the rows of a table into a file that is opened there."""
        if not isinstance(value, Result) or calls(value) not in _WRITERS or not value.call.args:
            return False
        file = value.call.args[0].value
        opened = self.resolver.reaching(file) if isinstance(file, cst.Name) else []
        return bool(opened) and all(
            b.kind == "with"
            and isinstance(b.value, cst.Call)
            and self.resolver.public_alone(b.value.func) == ["builtins.open"]
            and any(self.tree.contains(body, b.node) for body in bodies)
            for b in opened
        )

    def _moves_on(self, call: cst.Call) -> bool:
        """Whether the call leaves a variable or a metric, or a layer of the model that it runs, other than it was."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in api.SETTING_VARIABLES:
            return True
        if any(map(_counts, self.resolver.values(call.func))):
            return True
        return self._layers_change and self.training.runs_model(call)

    @cached_property
    def _layers_change(self) -> bool:
        """Whether a layer of the script's own keeps something of what it is called with: `self.seen.assign_add(1.0)`"""
        for call, _ in self.training.methods(*api.SETTING_VARIABLES):
            function = self.tree.function_of(call)
            cls = self.tree.class_of(function) if function is not None else None
            is_called = isinstance(function, cst.FunctionDef) and function.name.value in ("call", "__call__")
            if cls is not None and is_called and self.training.kinds.has_weights(Object(Class(cls))):
                return True
        return False


def _is_unknown(value: Value) -> bool:
    return isinstance(value, External) and not f"{value.path}.".startswith(HARMLESS)


def _counts(value: Value) -> bool:
    """`accuracy(y, prediction)`, `accuracy.update_state(...)`: whether it is called on what a metric is to count."""
    if isinstance(value, Member):
        return value.name in _STATES and origin(value).startswith(_METRICS)
    return isinstance(value, Result) and calls(value).startswith(_METRICS)


def _name(key: Key) -> str:
    if isinstance(key, Binding):
        return key.name
    return key.value if isinstance(key, cst.Name) else ""
