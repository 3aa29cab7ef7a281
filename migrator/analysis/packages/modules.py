"""Modules of packages that have run, and what their names stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.frames import Frame
from migrator.analysis.packages.sources import Sources
from migrator.analysis.values import Atom, Bound, Class, External, Function, Instance, Value
from migrator.facts.names import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run


class PackageModules:
    def __init__(self, run: Run, sources: Sources) -> None:
        self.run = run
        self.sources = sources
        self._frames: dict[str, Frame | None] = {}
        self._names: dict[cst.Module, str] = {}

    def __contains__(self, module: cst.Module) -> bool:
        return module in self._names

    @property
    def are_there(self) -> bool:
        return bool(self._names)

    def absolute(self, module: cst.Module, name: str) -> str:
        """What a name with leading dots means in the module."""
        return self.sources.absolute(self._names[module], name)

    def starred(self, module: cst.Module, name: str) -> Value | None:
        """What an `import *` of the module may give by that name."""
        found = self.sources.starred(self._names[module], name)
        return v.of(External(api.canonical(found))) if found else None

    def value(self, path: str) -> Value | None:
        """What the dotted name stands for; None where that is not seen."""
        place = self.sources.place(path)
        if place is None or isinstance(place, str):
            return v.of(External(place)) if place is not None else None
        frame = self._frame(place.module)
        if frame is None or place.name not in (frame.names or {}):
            return None
        value = (frame.names or {})[place.name]
        for name in place.rest:
            value = self.run.objects.attribute(value, name, frame.scope.node)
        return value

    def name_of(self, atom: Atom) -> str:
        """The dotted name of the code of a package that a call of the object runs; empty where that is none."""
        inner = atom.function if isinstance(atom, Bound) else atom.cls if isinstance(atom, Instance) else atom
        if not isinstance(inner, (Function, Class)):
            return ""
        module = self.run.bindings.module_of(inner.frame)
        if module not in self._names:
            return ""
        name = inner.node.name.value if not isinstance(inner.node, cst.Lambda) else "lambda"
        owner = self.run.definitions.owner_of(inner) if isinstance(inner, Function) else None
        return ".".join((self._names[module], *((owner.name.value,) if owner is not None else ()), name))

    def _frame(self, name: str) -> Frame | None:
        """The module, once it has run; what code of packages reads may be one of constants."""
        if name not in self._frames:
            module = self.sources.module(name, needs_framework=not self.run.packages.inside)
            if module is None:
                return None
            self._names[module] = name
            self.run.tree = self.sources.tree
            self.run.generators |= self.sources.tree.generators
            frame = Frame(self.run.tree.scopes[module], None, names={"__name__": v.NUMBER, "__file__": v.NUMBER})
            self.run.frames[module] = self._frames[name] = frame
            if self.run.packages.seen(lambda: self._run_module(module, frame)) is None:
                self._frames[name] = None
        return self._frames[name]

    def _run_module(self, module: cst.Module, frame: Frame) -> Value:
        before, self.run.running = self.run.running, [frame]
        try:
            with self.run.heap.kept():  # it runs once, whatever becomes of the call that it runs for
                self.run.statements.body(module, frame)
        finally:
            self.run.running = before
        return v.NONE
