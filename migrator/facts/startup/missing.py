"""Files that are imported and not among those of the run, as far as names tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libcst as cst

from migrator.facts.names import packages
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import Binding
from migrator.facts.script import Facts

_DEEPEST = 4


def missing_files(facts: Facts, node: cst.CSTNode, depth: int = 0) -> Iterator[str]:
    """The files, as they are imported, that the names in the node come from, directly or through assignments."""
    for name in facts.tree.names_in(node):
        for binding in facts.resolver.reaching(name) if facts.tree.parent.get(name) is not None else ():
            if binding.kind == "import":
                yield from _files_of(facts, binding)
            elif binding.kind == "assign" and binding.value is not None and depth < _DEEPEST:
                yield from missing_files(facts, binding.value, depth + 1)
        if facts.tree.scope_of(name).lookup(name.value) is None:
            for starred in facts.tree.imports:
                if isinstance(starred, cst.ImportFrom) and isinstance(starred.names, cst.ImportStar):
                    yield from files_imported(facts, starred)


def _files_of(facts: Facts, binding: Binding) -> Iterator[str]:
    node: cst.CSTNode | None = binding.node
    while node is not None and not isinstance(node, (cst.Import, cst.ImportFrom)):
        node = facts.tree.parent.get(node)
    if node is not None:
        yield from files_imported(facts, node)


def files_imported(facts: Facts, node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    """The missing ones among the files that the statement imports."""
    for name in imported_modules(node):
        top = name.lstrip(".").split(".")[0]
        is_given = facts.joining.is_of_program(node)
        if top and not is_given and not (_is_package(top) or facts.sources.has(top)):
            yield f"{Path(*name.lstrip('.').split('.'))}.py"


def _is_package(name: str) -> bool:
    return name.startswith(("tensorflow", "keras")) or packages.is_there(name)
