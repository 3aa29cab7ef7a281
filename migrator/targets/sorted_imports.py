"""Where an import goes among imports that are sorted, as isort and ruff sort them.

Sorted is what a file shows: at least three imports on its top, each section in order by module name. The `import`
lines of a section stand before its `from` lines, or among them (isort's `force_sort_within_sections`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable, Union, cast

import libcst as cst

from migrator.facts.program.modules import module_name
from migrator.facts.program.syntax import dotted

_FEWEST = 3  # two stand in order by chance
_Import = Union[cst.Import, cst.ImportFrom]
_Key = Callable[[cst.SimpleStatementLine], tuple[Any, ...]]


def place_among(module: cst.Module, last: cst.CSTNode, name: str) -> tuple[cst.CSTNode, bool] | None:
    """The statement beside which `import name` keeps the section of `last` sorted, and whether it goes before it; None
    where the imports are not sorted, or it would come behind `last`."""
    sections = _sections(module.body)
    section = next((s for s in sections if any(statement is last for statement in s)), None)
    order = _order(sections)
    if section is None or order is None:
        return None
    new = order(cst.SimpleStatementLine([cst.Import([cst.ImportAlias(cst.Name(name))])]))
    above = [statement for statement in section if order(statement) < new]
    if not above:
        return section[0], True
    allowed = next(i for i, statement in enumerate(section, 1) if statement is last)
    return (above[-1], False) if len(above) <= allowed else None


def _sections(body: Sequence[cst.BaseStatement]) -> list[list[cst.SimpleStatementLine]]:
    """The imports that stand together, without a line between them."""
    found: list[list[cst.SimpleStatementLine]] = []
    adjoins = False
    for statement in body:
        if not isinstance(statement, cst.SimpleStatementLine) or not _is_import(statement):
            adjoins = False
            continue
        if adjoins and not statement.leading_lines:
            found[-1].append(statement)
        else:
            found.append([statement])
        adjoins = True
    return found


def _is_import(statement: cst.SimpleStatementLine) -> bool:
    return len(statement.body) == 1 and isinstance(statement.body[0], (cst.Import, cst.ImportFrom))


def _order(sections: Sequence[Sequence[cst.SimpleStatementLine]]) -> _Key | None:
    """The order that all sections are in."""
    if sum(map(len, sections)) < _FEWEST or any(_imports_several(s) for section in sections for s in section):
        return None
    for key in (_by_form, _by_name):
        if all(list(section) == sorted(section, key=key) for section in sections):
            return key
    return None


def _imports_several(statement: cst.SimpleStatementLine) -> bool:
    return isinstance(node := _import_of(statement), cst.Import) and len(node.names) > 1


def _import_of(statement: cst.SimpleStatementLine) -> _Import:
    return cast(_Import, statement.body[0])


def _name(node: _Import) -> str:
    return dotted(node.names[0].name) if isinstance(node, cst.Import) else module_name(node)


def _by_form(statement: cst.SimpleStatementLine) -> tuple[Any, ...]:
    node = _import_of(statement)
    return isinstance(node, cst.ImportFrom), _name(node).lower()


def _by_name(statement: cst.SimpleStatementLine) -> tuple[Any, ...]:
    node = _import_of(statement)
    return _name(node).lower(), isinstance(node, cst.ImportFrom)
