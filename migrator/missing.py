"""Files that are imported and not among those of the run: what a refusal could not see may stand there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names import packages
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import Binding
from migrator.facts.script import Facts

_SAYS_SO = ("seen", "followed", "known")
_DEEPEST = 4
_LACKING = "is imported and not among the files given"


def pointed_out(facts: Facts, refusal: Refusal) -> Refusal:
    """The refusal; where what it could not see comes out of a file that is missing, with the name of that file."""
    if isinstance(refusal.node, cst.Module) or not any(word in refusal.reason for word in _SAYS_SO):
        return refusal
    named = next((told for part in _parts(facts, refusal.node) if (told := told_of(facts, part))), "")
    return replace(refusal, advice=f"{named}; or {refusal.advice}") if named else refusal


def told_of(facts: Facts, node: cst.CSTNode) -> str:
    """That the file is missing which a name in the node comes from, and how to give it; empty where none is."""
    name = next(_missing(facts, node, 0), None)
    script = facts.scripts[facts.tree.module_of(node)].path.name
    return f"{name} {_LACKING}: migrate {script} {name}" if name is not None else ""


def names_a_file(refusal: Refusal) -> bool:
    """Whether the refusal says that a file is missing."""
    return _LACKING in refusal.advice


def _parts(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What the site is made of, then its statement, then what the loops around it go through."""
    yield node
    statement = facts.tree.statement_of(node)
    if isinstance(statement, cst.SimpleStatementLine):
        yield statement
    for loop in facts.tree.loops_around(node):
        yield loop.iter if isinstance(loop, cst.For) else loop.test


def _missing(facts: Facts, node: cst.CSTNode, depth: int) -> Iterator[str]:
    """The files, as they are imported, that the names in the node come from, directly or through assignments."""
    for name in facts.tree.names_in(node):
        for binding in facts.resolver.reaching(name) if facts.tree.parent.get(name) is not None else ():
            if binding.kind == "import":
                yield from _file_of(facts, binding)
            elif binding.kind == "assign" and binding.value is not None and depth < _DEEPEST:
                yield from _missing(facts, binding.value, depth + 1)
        if facts.tree.scope_of(name).lookup(name.value) is None:
            for starred in facts.tree.imports:
                if isinstance(starred, cst.ImportFrom) and isinstance(starred.names, cst.ImportStar):
                    yield from _file(facts, starred)


def _file_of(facts: Facts, binding: Binding) -> Iterator[str]:
    node: cst.CSTNode | None = binding.node
    while node is not None and not isinstance(node, (cst.Import, cst.ImportFrom)):
        node = facts.tree.parent.get(node)
    if node is not None:
        yield from _file(facts, node)


def _file(facts: Facts, node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    for name in imported_modules(node):
        top = name.lstrip(".").split(".")[0]
        is_given = facts.joining.is_of_program(node)
        if top and not is_given and not (_is_package(top) or facts.sources.has(top)):
            yield f"{Path(*name.lstrip('.').split('.'))}.py"


def _is_package(name: str) -> bool:
    return name.startswith(("tensorflow", "keras")) or packages.is_there(name)
