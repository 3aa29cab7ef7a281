"""Where a file imports the API that it is written against.

Workers join when the API is imported, which must happen before the first tensor exists: so right after the
framework's own import.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import InsertAfter, InsertBefore
from migrator.facts.script import Facts
from migrator.targets.sorted_imports import place_among


def on_import(facts: Facts, module: cst.Module, code: str, imported: str = "") -> Iterator[InsertAfter | InsertBefore]:
    """The statements below the imports of TensorFlow and Keras; on top of the file where it imports neither.

    Code that only imports a module goes where sorted imports want it, given that module's name.
    """
    framework = facts.joining.after(module)
    if framework is not None and imported:
        place = place_among(module, framework, imported)
        if place is not None:
            beside, before = place
            yield (InsertBefore if before else InsertAfter)(beside, (code,))
            return
    if framework is not None:
        yield InsertAfter(framework, (code,))
        return
    first = next((s for s in module.body if not _is_prologue(s)), None)
    if first is not None:
        yield InsertBefore(first, (code + "\n" * _lines_between(first),), above_comments=True)


def _lines_between(first: cst.CSTNode) -> int:
    """How many blank lines formatters want below imports."""
    if isinstance(first, (cst.FunctionDef, cst.ClassDef)):
        return 2
    is_import = isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], (cst.Import, cst.ImportFrom))
    return 0 if is_import else 1


def _is_prologue(statement: cst.CSTNode) -> bool:
    """The module's docstring and its `from __future__` imports."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    if isinstance(small, cst.Expr):
        return isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
    return (
        isinstance(small, cst.ImportFrom) and isinstance(small.module, cst.Name) and small.module.value == "__future__"
    )
