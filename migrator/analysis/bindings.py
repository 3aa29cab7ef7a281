"""Names of the program: what they hold where they are read, and what they are bound to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis import walruses
from migrator.analysis.frames import Frame
from migrator.analysis.redefined import REPLACED
from migrator.analysis.values import NOTHING, External, Function, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_BUILTINS = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)


class Bindings:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._bound_late = walruses.bound_late(run.tree)

    def load(self, name: str, frame: Frame) -> Value:
        scope = frame.scope.lookup(name)
        if scope is None:
            return self._global(name, frame)
        owner: Frame | None = frame
        while owner is not None and owner.scope is not scope:
            owner = owner.parent
        if owner is None:
            owner = self.run.frames.get(self.module_of(frame))
        if owner is None or owner.names is None:
            return v.unseen(f"what {name} is by then is not seen")
        value = owner.names.get(name)
        if value is not None and (owner.scope.node, name) in self._bound_late:
            return v.unseen(f"when a generator gives {name} another value is not seen")
        if owner is not frame:
            self.run.calls.note_read(owner, name, value)
            if owner.parent is not None:
                value = self.run.redefined.closed_over(value)
            if value is not None and owner.has_ended:
                value = v.forgotten(value)
        if value is None:  # not bound yet on this way: a function that runs later, or an error
            return self._unbound(name, owner)
        return value

    def has_nothing(self, node: cst.BaseExpression, frame: Frame) -> bool:
        """Whether it takes a name that this very code is going to bind later: `x = inputs if i == 0 else block(x)`
        in the first turn of a loop, or of the other branch. It does not run then."""
        if isinstance(node, cst.Call):
            return any(self.has_nothing(arg.value, frame) for arg in node.args)
        if isinstance(node, (cst.List, cst.Tuple)):
            return any(self.has_nothing(element.value, frame) for element in node.elements)
        if not isinstance(node, cst.Name) or frame.names is None or node.value in frame.names:
            return False
        scope, own = frame.scope, self.run.tree.function_of
        if scope.is_class or scope.lookup(node.value) is not scope:
            return False
        return all(b.kind == "assign" and own(b.node) in (scope.node, None) for b in scope.bindings[node.value])

    def _unbound(self, name: str, owner: Frame) -> Value:
        for binding in owner.scope.bindings.get(name, ()):
            if isinstance(binding.node, cst.FunctionDef):
                return v.of(Function(binding.node, owner))
            if isinstance(binding.node, cst.ClassDef):
                found = self.run.classes.at(binding.node)
                if found is not None:
                    return v.of(found)
        return NOTHING if owner.scope.bindings.get(name) else self._global(name, owner)

    def _global(self, name: str, frame: Frame) -> Value:
        starred = self.run.imports.starred(name, self.module_of(frame))
        if starred is not None:
            return starred
        if name in _BUILTINS:
            found = External(f"builtins.{name}")
            return v.join(v.of(found), self.run.heap.load(found, REPLACED))
        return v.NUMBER if name.startswith("__") else v.unseen(f"what {name} is cannot be seen")

    def module_of(self, frame: Frame) -> cst.Module:
        current = frame
        while current.parent is not None:
            current = current.parent
        node = current.scope.node
        return node if isinstance(node, cst.Module) else self.run.tree.module_of(node)

    def assign(self, name: str, value: Value, frame: Frame) -> None:
        owner = around = frame if name in frame.scope.bindings else walruses.around(frame)
        if name in around.scope.globals:
            owner = self.run.frames.get(self.module_of(frame), frame)
        elif name in around.scope.nonlocals and around.parent is not None:
            scope = around.scope.lookup(name)
            while owner.parent is not None and owner.scope is not scope:
                owner = owner.parent
        if owner.names is None:
            return
        if owner is not frame:
            value = v.forgotten(value)
        self.run.changing.note(owner.scope, name, value)
        if owner is not around:
            value = v.join(owner.names.get(name, NOTHING), self.run.chosen_now(value))
            if owner.names.get(name) != value:
                self.run.heap.change_elsewhere()
        owner.names[name] = value

    def delete(self, name: str, frame: Frame) -> None:
        """`del name`: from then on it is what Python has by that name; of others, no other file finds it."""
        is_of_file = name in frame.scope.globals
        owner = self.run.frames.get(self.module_of(frame), frame) if is_of_file else frame
        if owner.names is None or not (owner.parent is None or owner.scope.is_class):
            return
        before = owner.names.pop(name, NOTHING)
        if is_of_file or name in _BUILTINS:
            owner.names[name] = v.join(before if is_of_file else NOTHING, self._global(name, frame))

    def change(self, name: str, value: Value, frame: Frame) -> None:
        """Notes that what a name holds was changed in place, wherever it is bound."""
        scope = frame.scope.lookup(name)
        owner: Frame | None = frame
        while owner is not None and owner.scope is not scope:
            owner = owner.parent
        owner = owner or self.run.frames.get(self.module_of(frame))
        if owner is None or owner.names is None:
            return
        value = v.forgotten(value)
        joined = value if owner is frame else v.join(owner.names.get(name, NOTHING), value)
        if owner is not frame and owner.names.get(name) != joined:
            self.run.heap.change_elsewhere()
        owner.names[name] = joined
