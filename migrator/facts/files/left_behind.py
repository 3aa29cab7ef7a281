"""What statements change that others read: where the chief alone runs them, the other workers keep what it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Object, Value
from migrator.facts.program.syntax import dotted
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

CHANGING = api.SETTING_VARIABLES | {
    "append", "extend", "appendleft", "extendleft", "insert", "update", "setdefault", "put", "add", "discard", "remove",
    "pop", "popleft", "popitem", "clear", "sort", "reverse", "rotate", "send", "get_nowait", "get_next", "__next__",
    "update_state", "reset_state", "reset_states", "readline", "readlines", "read", "seek",
}  # fmt: skip
_RUNNING = frozenset({"predict", "evaluate", "predict_on_batch", "test_on_batch"})
_COUNTING = "keras.metrics."
_DEEPEST = 3  # functions through which something is handed to what changes it


class LeftBehind:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    def by(self, statements: Sequence[cst.CSTNode], told: Collection[cst.CSTNode]) -> str:
        """The name of something that the statements change, or the functions that they run, and that is read elsewhere;
        `told`: statements of which it does not matter what they read."""
        bodies = [body for statement in statements for body in self.training.reached_from(statement)]
        if self._layers_change:
            run = next((c for c in self.tree.calls if self._is_in(bodies, c) and self._is_model(c)), None)
            if run is not None:
                return dotted(run.func) or "the model"
        for node in self._changed(bodies):
            if self._is_trained(node):
                return dotted(node)
            name = self._read_elsewhere(node, bodies, [*statements, *told], 0)
            if name:
                return name
        return ""

    def _changed(self, bodies: Sequence[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
        """The expressions whose objects are changed, or whose attribute or item is set."""
        targets: list[cst.CSTNode] = [target for target, _ in self.tree.item_assignments]
        targets += [node.target for node in self.tree.all_of(cst.AugAssign)]
        targets += [target.target for node in self.tree.all_of(cst.Assign) for target in node.targets]
        for target in targets:
            if isinstance(target, (cst.Attribute, cst.Subscript)) and self._is_in(bodies, target):
                yield target
        for call in self.tree.calls:
            if not self._is_in(bodies, call):
                continue
            if isinstance(call.func, cst.Attribute) and self._changes(call.func):
                yield call.func.value
            elif call.args and External("builtins.next") in self.resolver.values(call.func):
                yield call.args[0].value
            elif any(origin(value).startswith(_COUNTING) for value in self.resolver.values(call.func)):
                yield call.func  # `accuracy(y, model(x))`

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

    def _is_model(self, call: cst.Call) -> bool:
        """Whether it runs a model: `model(x)`, `model.predict(x)`."""
        func = call.func
        run = func.value if isinstance(func, cst.Attribute) and func.attr.value in _RUNNING else func
        is_one = any(map(self.training.kinds.has_weights, self.resolver.values(run)))
        return is_one or self.training.is_model_of_callback(run)

    def _changes(self, method: cst.Attribute) -> bool:
        name = method.attr.value
        return name in CHANGING or (name == "get" and any(map(_is_queue, self.resolver.values(method.value))))

    def _is_trained(self, changed: cst.BaseExpression) -> bool:
        """Whether it is of an optimizer or a model, or a variable, of which no text has to tell who reads it."""
        kinds = self.training.kinds
        if any(map(kinds.is_variable, self.resolver.values(changed))):
            return True
        while isinstance(changed, (cst.Attribute, cst.Subscript)):
            changed = changed.value
            values = self.resolver.values(changed)
            if any(map(kinds.is_optimizer, values)) or any(map(kinds.has_weights, values)):
                return True
        return False

    def _is_in(self, bodies: Sequence[cst.CSTNode], node: cst.CSTNode) -> bool:
        return any(self.tree.contains(body, node) for body in bodies)

    def _read_elsewhere(
        self, node: cst.BaseExpression, bodies: Sequence[cst.CSTNode], aside: Sequence[cst.CSTNode], depth: int
    ) -> str:
        attribute = None
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            attribute = node if isinstance(node, cst.Attribute) else attribute
            node = node.value
        if not isinstance(node, cst.Name):
            return ""
        bindings = self.resolver.reaching(node)
        if any(b.kind == "import" for b in bindings):
            return ""  # a function of a module
        if attribute is not None and isinstance(attribute.value, cst.Name):
            return attribute.attr.value if self._is_asked_for(attribute, bodies, aside) else ""
        params = [b for b in bindings if b.kind == "param" and self._is_in(bodies, b.node)]
        for binding in params if depth < _DEEPEST else ():
            for given in self.resolver.given(cast(cst.Param, binding.node)):
                name = self._read_elsewhere(given, bodies, aside, depth + 1)
                if name:
                    return name
        outside = {b for b in bindings if not self._is_in(bodies, b.node)}
        reads = (name for name in self.tree.names[node.value] if name is not node and self.tree.is_read(name))
        is_read = outside and any(
            not self._is_in(aside, read) and outside & set(self.resolver.reaching(read)) for read in reads
        )
        return node.value if is_read else ""

    def _is_asked_for(
        self, changed: cst.Attribute, bodies: Sequence[cst.CSTNode], aside: Sequence[cst.CSTNode]
    ) -> bool:
        """Whether an attribute of that name is read elsewhere, of an object that is not made there."""
        owner = cst.ensure_type(changed.value, cst.Name)
        made = [b for b in self.resolver.reaching(owner) if b.kind != "param" and self._is_in(bodies, b.node)]
        if made and len(made) == len(self.resolver.reaching(owner)):
            return False
        return any(
            isinstance(parent := self.tree.parent.get(name), cst.Attribute)
            and parent.attr is name
            and parent is not changed
            and not isinstance(self.tree.parent.get(parent), cst.AssignTarget)
            and not self._is_in([*aside, *bodies], name)
            for name in self.tree.names[changed.attr.value]
        )


def _is_queue(value: Value) -> bool:
    return origin(value).startswith(("queue.", "multiprocessing."))
