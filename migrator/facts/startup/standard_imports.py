"""By which name a file has a module of the standard library, and where an import of it goes that it does not have."""

from __future__ import annotations

import libcst as cst

from migrator.facts.names.packages import STANDARD_LIBRARY
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import Tree


class StandardImports:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def name(self, module: cst.Module, wanted: str) -> str | None:
        """The name by which the file has imported the module for all of its functions."""
        for name, bindings in self.tree.scopes[module].bindings.items():
            # `import logging` and `import logging.handlers` bind the same name to the same.
            are_imports = bool(bindings) and all(binding.kind == "import" for binding in bindings)
            if are_imports and all(External(wanted) in self.resolver.binding_values(b) for b in bindings):
                return name
        return None

    def place(self, module: cst.Module, wanted: str) -> tuple[cst.CSTNode, bool]:
        """The statement that the import goes in front of, and whether a line is left between them: above the others of
        the standard library, in their order, or on top of the file's imports."""
        imports = [s for s in module.body if isinstance(s, cst.SimpleStatementLine) and _imported(s)]
        imports = [s for s in imports if "__future__" not in _imported(s)]
        standard = [s for s in imports if all(n.partition(".")[0] in STANDARD_LIBRARY for n in _imported(s))]
        for statement in standard:
            if isinstance(statement.body[0], cst.Import) and _imported(statement)[0] > wanted:
                return statement, False
        first = imports[0] if imports else module.body[0]
        return first, bool(imports) and first not in standard


def _imported(statement: cst.SimpleStatementLine) -> list[str]:
    small = statement.body[0]
    return list(imported_modules(small)) if isinstance(small, (cst.Import, cst.ImportFrom)) else []
