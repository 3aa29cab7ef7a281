"""The bundled runtime: its calls are what the rules write."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, Refusal
from migrator.facts import api
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

    def imports(self) -> Iterator[Edit]:
        """`import lockstep`, under another name where the script has taken that one."""
        joining = self._facts.joining
        if not joining.imports_runtime(self._module):
            name = joining.runtime_name(self._module)
            code = f"import {api.RUNTIME}" if name == api.RUNTIME else f"import {api.RUNTIME} as {name}"
            yield from on_import(self._facts, self._module, code, api.RUNTIME)


class Lockstep:
    name = "lockstep"
    package = api.RUNTIME
    launch = "lockstep run -n 2 {}"

    def spelling(self, facts: Facts, module: cst.Module) -> LockstepSpelling:
        return LockstepSpelling(facts, module)

    def joining(self, facts: Facts, edited: set[cst.Module]) -> set[cst.Module]:
        return edited.union(facts.joining.must_join(edited)) if edited else set()


LOCKSTEP = Lockstep()
