"""Definitions that a program changes from outside: attributes under names that it makes, and the insides of functions.

What may be another definition by then is each of those that it may replace.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import namespaces, ops
from migrator.analysis import values as v
from migrator.analysis.libraries.keras import hooks
from migrator.analysis.libraries.python import made_names
from migrator.analysis.placement import Unknown
from migrator.analysis.values import (
    NONE,
    NOTHING,
    NUMBER,
    Atom,
    Bound,
    Class,
    Container,
    Curried,
    External,
    File,
    Function,
    Instance,
    Made,
    Method,
    Site,
    Tuple,
    Value,
)

if TYPE_CHECKING:
    from migrator.analysis.calls import Arguments
    from migrator.analysis.run import Run

BASES = "__bases__"
CELL = "cell_contents"
_KEYWORD_DEFAULTS = "__kwdefaults__"
_DEFAULTS = "__defaults__"
_CODE = "__code__"
REPLACED = "replaced"  # what a program puts in the place of a library's function or class
_ANY_MEMBER = "any member"  # the same of some function or class of a module
_CELLS = External("builtins.cell")  # holds what the program puts into cells of its functions
_CALLABLE = (Function, Bound, Class, Curried, External, Method, Instance, Made)
_UNSEEN = v.unseen("what a function gets as a default that is set from outside is not seen")


class Redefined:
    def __init__(self, run: Run) -> None:
        self.run = run

    def _is_named(self, name: str) -> bool:
        """Whether the program speaks of such insides at all."""
        return bool(self.run.tree.names.get(name)) or name in self._texts

    @cached_property
    def _texts(self) -> set[str]:
        texts = (node.evaluated_value for node in self.run.tree.all_of(cst.SimpleString))
        return {text for text in texts if isinstance(text, str) and text.startswith("__")}

    # -- names that are not seen -------------------------------------------------------------------------------------

    def store_somewhere(
        self, owner: Value, value: Value, node: cst.CSTNode, names: re.Pattern[str] | None = None
    ) -> None:
        """`setattr(obj, prefix + name, value)`: whichever of its attributes, by those `names`, may be that now."""
        hooks.note_somewhere(self.run, owner, value, node, names)
        if value.data is not None:
            value = v.join(value, NUMBER)
        for atom in owner:
            for name in list(self.names_of(atom)):
                if (names is None or names.match(name)) and _may_replace(value, self._known(atom, name)):
                    self.run.objects.store_attribute(v.of(atom), name, value, node)
            if isinstance(atom, Instance):
                made_names.store(self.run, atom, value, names)
            elif isinstance(atom, Class):
                made_names.store_in_class(self.run, atom, value)
            elif isinstance(atom, External) and _is_callable(value):
                self.run.heap.store(atom, _ANY_MEMBER, value)
        if owner.data is not None or any(isinstance(atom, (Made, Method)) for atom in owner):
            others = Value(owner.data, frozenset(atom for atom in owner if isinstance(atom, (Made, Method))))
            if _is_callable(value):
                self.run.objects.store_attribute(others, "call", value, node)

    def names_of(self, atom: Atom) -> Iterator[str]:
        """What the program has given it, or its class, a value by."""
        if isinstance(atom, (Instance, Made)):
            held = self.run.heap.fields(atom)
            yield from (name for name in held if isinstance(name, str) and name != namespaces.ATTRIBUTE)
        if isinstance(atom, (Instance, Class)):
            yield from self.run.classes.names(atom.cls if isinstance(atom, Instance) else atom)
        if isinstance(atom, File):
            yield from self._names_of(atom)

    def _names_of(self, file: File) -> dict[str, Value]:
        frame = self.run.frames.get(file.module)
        return (frame.names if frame is not None else None) or {}

    def _known(self, atom: Atom, name: str) -> Value:
        classes, heap = self.run.classes, self.run.heap
        if isinstance(atom, Class):
            return classes.of_class(atom, name) or NOTHING
        if isinstance(atom, Instance):
            return v.join(heap.load(atom, name), classes.of_class(atom.cls, name) or NOTHING)
        return self._names_of(atom).get(name, NOTHING) if isinstance(atom, File) else heap.load(atom, name)

    def may_be_other(self, path: str) -> bool:
        """Whether the program has put something in the place of whichever function of that library's module."""
        return self.run.heap.load(External(path.rpartition(".")[0]), _ANY_MEMBER) is not NOTHING

    def set_bases(self, cls: Class, bases: Value) -> None:
        """`Class.__bases__ = (Other,)`"""
        for atom in self.run.objects.parts(bases):
            names = self.run.classes.names(atom) if isinstance(atom, Class) else {"call", "__call__"}
            why = v.unseen("what a class has by bases that are set from outside is not seen")
            for name in names:
                found = self.run.classes.of_class(atom, name) if isinstance(atom, Class) else None
                self.run.classes.set_later(cls, name, why if found is None else found)

    # -- the insides of functions ------------------------------------------------------------------------------------

    def of_function(self, function: Function, name: str) -> Value:
        """What the program keeps at a function, or has of its insides."""
        if name == "__globals__":
            return namespaces.of(v.of(File(self.run.tree.module_of(function.node))))
        if name == _KEYWORD_DEFAULTS:
            self.run.heap.store(holder(function), name, v.of(self._keyword_defaults(function)))
        elif name == _DEFAULTS:
            given = (self.run.definitions.default(function, param) for param in _positional(function))
            self.run.heap.store(holder(function), name, v.of(Tuple(tuple(x for x in given if x is not None))))
        return self.run.heap.load(holder(function), name)

    def _keyword_defaults(self, function: Function) -> Container:
        made = Container("dict", Site(function.node.params, ()))
        for param in function.node.params.kwonly_params:
            self.run.heap.store(made, param.name.value, self.run.definitions.default(function, param) or NOTHING)
        return made

    def default(self, function: Function, param: cst.Param) -> Value:
        """What the program has made a parameter's default, behind the definition."""
        positional = _positional(function)
        name = _DEFAULTS if param in positional else _KEYWORD_DEFAULTS
        if not self._is_named(name):
            return NOTHING
        changed = self.run.heap.load(holder(function), name)
        found = _UNSEEN if changed.data is not None and changed != NONE else NOTHING
        for atom in changed:
            if isinstance(atom, Container) and atom.kind == "dict":
                held = (self.run.heap.load(atom, key) for key in (param.name.value, None))
                found = v.join(found, v.join_all(held))
            else:
                items = self.run.objects.sequence_items(v.of(atom))
                found = v.join(found, _of_last(items, param, positional) if items is not None else _UNSEEN)
        return found

    def called(self, function: Function, result: Value, args: Arguments, node: cst.CSTNode) -> Value:
        """What a function gives that may run the code of another one."""
        if not self._is_named(_CODE) or self.run.heap.load(holder(function), _CODE) is NOTHING:
            return result
        return v.join(result, self.run.unknown_call(v.of(function), args, node))

    def set_cell(self, value: Value) -> None:
        """`function.__closure__[0].cell_contents = value`"""
        self.run.heap.store(_CELLS, None, value)

    def closed_over(self, value: Value | None) -> Value | None:
        """What a name of a function around may hold, whose cell may have been set."""
        if value is None or not self._is_named(CELL):
            return value
        held = self.run.heap.load(_CELLS, None)
        return v.join(value, held) if _may_replace(held, value) else value


def holder(function: Function) -> Made:
    """What has the attributes of a function, whichever time it is defined."""
    return Made("builtins.function", Site(function.node, ()))


def _positional(function: Function) -> list[cst.Param]:
    return [*function.node.params.posonly_params, *function.node.params.params]


def _of_last(items: Sequence[Value], param: cst.Param, positional: Sequence[cst.Param]) -> Value:
    """The default that a parameter has by all of them: they are those of the last parameters."""
    place = len(items) - (len(positional) - positional.index(param)) if param in positional else -1
    return items[place] if place >= 0 else NOTHING


def _may_replace(value: Value, known: Value) -> bool:
    """Whether a program may mean to put the value there: a function for a function, a number for a number."""
    if value.objects and known == NONE:
        return True
    for is_kind in (_is_function, _is_object):
        if any(map(is_kind, value.objects)) and any(map(is_kind, known.objects)):
            return True
    if value.data is not None and isinstance(value.data.placement, Unknown):
        return True
    return value.data is not None and known.data is not None and not known.objects


def _is_function(atom: Atom) -> bool:
    """Whether it is something to be called, be it a property or a static method; a module is none."""
    if isinstance(atom, Made):
        return atom.path.startswith(("keras.layers.", "keras.losses."))
    if isinstance(atom, External):
        return ops.lookup(atom.path) is not None
    return isinstance(atom, (*_CALLABLE, Tuple))


def _is_object(atom: Atom) -> bool:
    return isinstance(atom, (Instance, Made, Container, Tuple, File))


def _is_callable(value: Value) -> bool:
    return any(isinstance(atom, _CALLABLE) for atom in value)
