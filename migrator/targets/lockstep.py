"""The bundled runtime: its calls are what the rules write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import Edit, InsertBefore, Refusal, new_text
from migrator.facts.names import api
from migrator.facts.script import Facts
from migrator.targets.placing import on_import


class LockstepSpelling:
    def __init__(self, facts: Facts, module: cst.Module) -> None:
        self._facts = facts
        self._module = module

    def spell(self, edit: Edit) -> Iterator[Edit]:
        yield edit

    def refused(self, rule: str, refusal: Refusal) -> Refusal:
        return refusal

    def calls(self, edit: Edit) -> bool:
        return f"{self._facts.joining.runtime_name(self._module)}." in new_text(edit)

    def imports(self, nodes: Sequence[cst.CSTNode]) -> Iterator[Edit]:
        """`import lockstep`, under another name where the script has taken that one; above what first needs it."""
        joining = self._facts.joining
        own, place = joining.runtime_import(self._module), joining.after(self._module)
        if own is not None and joining.used_before(self._module, nodes, own) is None:
            return
        nodes = [*nodes, *(joining.drawn_above(self._module, place) if place is not None else ())]
        name = joining.runtime_name(self._module)
        code = f"import {api.RUNTIME}" if name == api.RUNTIME else f"import {api.RUNTIME} as {name}"
        first = joining.used_before(self._module, nodes, place) if place is not None else None
        if first is not None:
            yield InsertBefore(first, (f"{code}\n",))  # formatters want a blank line below imports
        else:
            yield from on_import(self._facts, self._module, code, api.RUNTIME)


class Lockstep:
    name = "lockstep"
    package = api.RUNTIME
    launch = "lockstep run -n 2 {}"
    joins_anywhere = True
    tells_whole = True

    def spelling(self, facts: Facts, module: cst.Module) -> LockstepSpelling:
        return LockstepSpelling(facts, module)

    def joining(self, facts: Facts, edited: set[cst.Module]) -> set[cst.Module]:
        return edited.union(facts.joining.must_join(edited)) if edited else set()


LOCKSTEP = Lockstep()
