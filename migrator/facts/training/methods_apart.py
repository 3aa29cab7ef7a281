"""Methods that train, where no `model.fit(…)` shows it: taken as values, found by their names, called of a class."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, is_of_other_library, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    File,
    Function,
    Literal,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
    calls,
)
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import is_super
from migrator.records import dataclass

_OF_MODELS = frozenset({"fit", "fit_generator", "train_on_batch", "train_step", "make_train_function"})
_OF_OPTIMIZERS = frozenset({"minimize", "apply_gradients", "apply"})
_METHODS = _OF_MODELS | _OF_OPTIMIZERS
# What is not seen may be a model or an optimizer by these; the others are names of much else.
_OF_UNSEEN = _METHODS - {"train_step", "apply"}
# What they make is neither.
_KNOWN = ("tensorflow.", "keras.", "numpy.", "pandas.", "argparse.", "absl.", "os.", "sys.", "json.", "pathlib.")
# Steps of `fit`: who calls one of Keras's by itself trains by it.
_STEPS = frozenset({"train_step", "make_train_function"})
# They look at what they are given, or take its name and its text over.
_LOOKING = frozenset({
    "builtins.print", "builtins.help", "builtins.hasattr", "builtins.callable", "builtins.id", "builtins.repr",
    "builtins.str", "builtins.isinstance", "builtins.type", "builtins.dir", "builtins.hash", "builtins.bool",
    "functools.wraps", "functools.update_wrapper",
})  # fmt: skip
_LOOKING_IN = ("inspect.", "logging.", "typing.", "pydoc.")
_TELLING = frozenset({"__doc__", "__name__", "__qualname__", "__module__", "__signature__", "__code__"})
_LOOKING_UP = frozenset({"operator.methodcaller", "operator.attrgetter"})


@dataclass(frozen=True, eq=False)
class MethodApart:
    """A place where a method that trains is taken, or called in another way than `model.fit(…)`."""

    node: cst.BaseExpression
    name: str
    is_called: bool  # where it stands
    of_super: bool = False  # `super().fit(…)`


class MethodsApart:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    @cached_property
    def found(self) -> list[MethodApart]:
        found = [apart for name in sorted(_METHODS) for apart in self._attributes(name)]
        found += [apart for call in self.tree.calls for apart in self._asked_for(call)]
        return sorted(found, key=lambda apart: self.tree.order[apart.node])

    def _attributes(self, name: str) -> Iterator[MethodApart]:
        for found in self.tree.names.get(name, ()):
            node = self.tree.parent.get(found)
            if not isinstance(node, cst.Attribute) or node.attr is not found:
                continue
            parent = self.tree.parent.get(node)
            if isinstance(parent, (cst.AssignTarget, cst.Del)) or self._is_own(node, node.value, name):
                continue
            if isinstance(parent, cst.Call) and parent.func is node:
                if self._is_called_otherwise(node):
                    yield MethodApart(node, name, True, is_super(node.value))
            elif self._may_train(node.value, name) and self._runs(node):
                yield MethodApart(node, name, False, is_super(node.value))

    def _is_own(self, node: cst.BaseExpression, owner: cst.BaseExpression, name: str) -> bool:
        """A method, or an attribute, of the script's own: what trains stands in it."""
        values = [] if isinstance(node, cst.Call) else self.resolver.values(node)
        if values and not any(isinstance(v, (Member, External)) for v in values):
            return True
        models = [v for v in self.resolver.values(owner) if self.kinds.is_model(v)]
        return bool(models) and all(isinstance(v, Object) and self.resolver.method(v.of, name) for v in models)

    def _is_called_otherwise(self, node: cst.Attribute) -> bool:
        """`keras.Model.fit(model, x)`, `super().fit(x)`, `model.train_step(batch)`"""
        name = node.attr.value
        if is_super(node.value):
            return name in _OF_MODELS - _STEPS and self._is_super_of_model(node.value)
        values = self.resolver.values(node.value)
        if name in _STEPS:
            return any(map(self._is_model, values))
        return name in _OF_MODELS and any(map(self._is_model_class, values))

    def _asked_for(self, call: cst.Call) -> Iterator[MethodApart]:
        """`getattr(model, "fit")`, `operator.methodcaller("fit", x, y)`"""
        paths = set(self.resolver.public(call.func))
        if "builtins.getattr" in paths and len(call.args) > 1:
            owner, name = call.args[0].value, call.args[1].value
            known = _texts(self.resolver.values(name))
            if known is None:  # by a name that only the run knows
                if self._texts & _OF_MODELS and any(map(self._is_model, self.resolver.values(owner))):
                    yield from [MethodApart(call, "", False)] if self._runs(call) else ()
                return
            for text in known & _METHODS:
                if self._may_train(owner, text) and not self._is_own(call, owner, text) and self._runs(call):
                    yield MethodApart(call, text, False)
        elif paths & _LOOKING_UP and call.args:
            for text in (_texts(self.resolver.values(call.args[0].value)) or set()) & _METHODS:
                yield MethodApart(call, text, False)

    @cached_property
    def _texts(self) -> set[str]:
        return {str(node.evaluated_value) for node in self.tree.order if isinstance(node, cst.SimpleString)}

    # -- whose method it is ----------------------------------------------------------------------------------------

    def _may_train(self, owner: cst.BaseExpression, name: str) -> bool:
        if is_super(owner):
            return name in _OF_MODELS and self._is_super_of_model(owner)
        values = self.resolver.values(owner)
        if name in _OF_OPTIMIZERS and any(map(self.kinds.is_optimizer, values)):
            return True
        if name in _OF_MODELS and any(self._is_model(v) or self._is_model_class(v) for v in values):
            return True
        return name in _OF_UNSEEN and (not values or any(map(is_unseen, values)))

    def _is_model(self, value: Value) -> bool:
        return self.kinds.is_model(value)

    def _is_model_class(self, value: Value) -> bool:
        """`keras.Model`, a subclass of it, `type(model)`"""
        if isinstance(value, External):
            return api.is_model_class(value.path) or api.makes_model(value.path)
        if isinstance(value, Class):
            return self.kinds.is_keras_model_class(value)
        if isinstance(value, Member) and value.name == "__class__":
            return self._is_model(value.owner)
        of = value.call.args[:1] if isinstance(value, Result) and calls(value) == "builtins.type" else ()
        return any(self._is_model(v) for arg in of for v in self.resolver.values(arg.value))

    def _is_super_of_model(self, call: cst.BaseExpression) -> bool:
        owners = [node for node in self.tree.ancestors(call) if isinstance(node, cst.ClassDef)]
        return bool(owners) and self.kinds.is_keras_model_class(Class(owners[0]))

    # -- what becomes of it ----------------------------------------------------------------------------------------

    def _runs(self, node: cst.BaseExpression, seen: frozenset[cst.CSTNode | None] = frozenset()) -> bool:
        """Whether what the expression gives may be called: it is not only looked at."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, (cst.Expr, cst.If, cst.While, cst.Assert, cst.Comparison, cst.ComparisonTarget)):
            return False
        if isinstance(parent, (cst.UnaryOperation, cst.FormattedStringExpression)):
            return False
        if isinstance(parent, cst.Attribute):
            return parent.attr.value not in _TELLING
        if isinstance(parent, cst.IfExp) and node is parent.test:
            return False
        if isinstance(parent, (cst.BooleanOperation, cst.IfExp)):
            return self._runs(parent, seen)
        if isinstance(parent, cst.Arg):
            call = self.tree.parent.get(parent)
            paths = [origin(v) for v in self.resolver.values(call.func)] if isinstance(call, cst.Call) else []
            return not paths or not all(path in _LOOKING or path.startswith(_LOOKING_IN) for path in paths)
        if not isinstance(parent, (cst.Assign, cst.AnnAssign)) or parent in seen:
            return parent not in seen  # a call of it, among others
        targets = [t.target for t in parent.targets] if isinstance(parent, cst.Assign) else [parent.target]
        names = [target.value for target in targets if isinstance(target, cst.Name)]
        return len(names) < len(targets) or any(self._name_runs(name, parent, seen) for name in names)

    def _name_runs(self, name: str, assignment: cst.CSTNode, seen: frozenset[cst.CSTNode | None]) -> bool:
        scope = self.tree.scope_of(assignment)
        if scope.is_class or name in scope.globals or name in scope.nonlocals:
            return True  # read where it is not followed
        for read in self.tree.names[name]:
            parent = self.tree.parent.get(read)
            if isinstance(parent, cst.ImportAlias):
                return True
            if isinstance(parent, cst.Attribute) and parent.attr is read:
                if any(isinstance(v, File) for v in self.resolver.values(parent.value)):
                    return True
                continue
            if self.tree.is_read(read) and self._is_from(read, assignment) and self._runs(read, seen | {assignment}):
                return True
        return False

    def _is_from(self, read: cst.Name, assignment: cst.CSTNode) -> bool:
        return any(
            self.tree.contains(assignment, binding.node) or self.tree.contains(binding.node, assignment)
            for binding in self.resolver.reaching(read)
        )


def is_unseen(value: Value) -> bool:
    """Whether the value may be a model or an optimizer: of a parameter, a container, another package."""
    if isinstance(value, External) or is_of_other_library(value):
        return False
    path = origin(value)
    if path:
        return not path.startswith(_KNOWN)
    root: Value = value
    while isinstance(root, (Member, Element, Result)):
        root = root.owner if isinstance(root, Member) else root.of if isinstance(root, Element) else root.function
    if isinstance(root, (Literal, Function)):
        return root is not value  # `for name, model in models.items()`
    return isinstance(root, (Parameter, Unknown)) or (isinstance(root, Object) and root.call is None)


def _texts(values: tuple[Value, ...]) -> set[str] | None:
    """The texts that the values are; None where one is not seen."""
    found = set()
    for value in values:
        node = getattr(value, "node", None)
        if not isinstance(node, cst.SimpleString):
            return None
        found.add(str(node.evaluated_value))
    return found or None
