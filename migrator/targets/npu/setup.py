"""What a file on npu_device needs once: the import, the open device, and the names of rank and number of workers."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, InsertAfter
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.values import External, Result, calls
from migrator.facts.program.tree import Binding, Statement
from migrator.facts.script import Facts
from migrator.targets.placing import on_import

PACKAGE = "npu_device"


class Setup:
    """Hands out names, and remembers which of them the file must be given."""

    def __init__(self, facts: Facts, module: cst.Module) -> None:
        self._facts = facts
        self._module = module
        self._wanted: dict[str, str] = {}
        self._handed_out: set[str] = set()

    @property
    def npu(self) -> str:
        """The name of the imported package."""
        return self._imported(PACKAGE) or self._facts.fresh_name("npu", self._module)

    @property
    def rank(self) -> str:
        return self._number("rank_id", "RANK_ID", "0", Role.RANK)

    @property
    def size(self) -> str:
        return self._number("rank_size", "RANK_SIZE", "1", Role.SIZE)

    @property
    def tensorflow(self) -> str:
        known = self._imported("tensorflow")
        if known is None:
            known = self._facts.fresh_name("tf", self._module)
            self._wanted["tensorflow"] = f"import tensorflow as {known}"
        return known

    def named(self, wanted: str) -> str:
        """A name that is free in the file."""
        return self._facts.fresh_name(wanted, self._module)

    def named_anew(self, wanted: str) -> str:
        """A name that is free in the file, another each time."""
        name, number = self.named(wanted), 2
        while name in self._handed_out:
            name, number = self.named(f"{wanted}_{number}"), number + 1
        self._handed_out.add(name)
        return name

    def imports(self) -> Iterator[Edit]:
        """The lines that are not there yet, below the framework's imports."""
        lines = [self._wanted[name] for name in ("tensorflow",) if name in self._wanted]
        if self._imported(PACKAGE) is None:
            lines.append(f"import {PACKAGE} as {self.npu}")
        opening = [f"{self.npu}.open().as_default()"] if self._is_entry and not self._is_open else []
        numbers = [self._wanted[name] for name in ("RANK_ID", "RANK_SIZE") if name in self._wanted]
        anchor = self._os_import if numbers else None
        if numbers and anchor is None:
            lines.insert(0, "import os")
        if self._follows_imports(has_more=bool(lines)):
            # As formatters want it: a blank line between the imports and what follows.
            first = opening or ([] if anchor else numbers)
            first[:1] = [f"\n{line}" for line in first[:1]]
        for line in (*lines, *opening):
            yield from on_import(self._facts, self._module, line)
        for line in numbers:
            yield from [InsertAfter(anchor, (line,))] if anchor else on_import(self._facts, self._module, line)

    def _follows_imports(self, *, has_more: bool) -> bool:
        """Whether what is written at the top level of the file comes right after imports."""
        framework = self._facts.joining.after(self._module)
        if framework is None or self._facts.tree.block_of(framework) is not self._module:
            return False
        is_import = isinstance(framework, cst.SimpleStatementLine) and isinstance(
            framework.body[0], (cst.Import, cst.ImportFrom)
        )
        return is_import or has_more

    # -- names ---------------------------------------------------------------------------------------------------

    def _number(self, name: str, variable: str, alone: str, role: Role) -> str:
        for known, binding in self._bindings():
            if binding.kind == "assign" and self._is_number(binding, role):
                return known
        name = self._facts.fresh_name(name, self._module)
        self._wanted[variable] = f'{name} = int({self._os}.environ.get("{variable}", "{alone}"))'
        return name

    def _is_number(self, binding: Binding, role: Role) -> bool:
        """Whether the whole value is read from the environment: `int(os.environ["RANK_ID"])`."""
        value = binding.value
        if not isinstance(value, cst.Call) or binding.path:
            return False
        return self._facts.ranks.roles(value) == {role} and any(
            isinstance(v, Result) and calls(v) in ("builtins.int", "hccl.manage.api.get_rank_id")
            for v in self._facts.resolver.values(value)
        )

    @property
    def _os(self) -> str:
        return self._imported("os") or "os"

    @property
    def _os_import(self) -> Statement | None:
        """The import of `os` that numbers can follow, where it stands below the framework's; else the framework's."""
        imports = [b for _, b in self._bindings() if self._is_import_of(b, "os")]
        framework = self._facts.joining.after(self._module)
        if not imports:
            return None
        last = self._facts.tree.statement_of(imports[0].node)
        if framework is None or self._facts.tree.order[last] > self._facts.tree.order[framework]:
            return last
        return framework

    def _imported(self, package: str) -> str | None:
        return next((name for name, b in self._bindings() if self._is_import_of(b, package)), None)

    def _is_import_of(self, binding: Binding, package: str) -> bool:
        return binding.kind == "import" and External(package) in self._facts.resolver.binding_values(binding)

    def _bindings(self) -> Iterator[tuple[str, Binding]]:
        """What the file binds at its top level."""
        for name, bindings in self._facts.tree.scopes[self._module].bindings.items():
            yield from ((name, binding) for binding in bindings)

    # -- the device ----------------------------------------------------------------------------------------------

    @property
    def _is_entry(self) -> bool:
        return self._module in self._facts.joining.entries({self._module})

    @property
    def _is_open(self) -> bool:
        calls = (c for c in self._facts.tree.calls if self._facts.tree.module_of(c) is self._module)
        return any(External(f"{PACKAGE}.open") in self._facts.resolver.values(call.func) for call in calls)
