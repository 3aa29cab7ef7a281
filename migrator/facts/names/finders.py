"""What finds functions and classes by names that a program makes while it runs."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.program.tree import Tree

# Modules, functions, methods and tables, in whatever sense the name stands in the program.
FINDERS = frozenset({
    "__builtins__", "__dict__", "__getattribute__", "__globals__", "__import__", "argh", "attrgetter",
    "builtins", "defopt", "doctest", "eval", "exec", "f_globals", "f_locals", "fire", "getmembers", "globals",
    "import_module", "importlib", "inspect", "instantiate", "locals", "locate", "methodcaller", "pkgutil",
    "pydoc", "pytest", "resolve_name", "runpy", "unittest", "vars",
})  # fmt: skip


def finders(tree: Tree) -> Iterator[cst.Name]:
    """Where these stand in the program, and `sys.modules`: a package of the program's may be called `modules`."""
    for name in FINDERS:
        yield from tree.names[name]
    yield from (name for name in tree.names["modules"] if _is_table(tree, name))


def _is_table(tree: Tree, name: cst.Name) -> bool:
    """`sys.modules`, `from sys import modules`"""
    owner = tree.parent[name]
    imported = next((o for o in tree.ancestors(name) if isinstance(o, (cst.Import, cst.ImportFrom))), None)
    if imported is not None:
        source = imported.module if isinstance(imported, cst.ImportFrom) else None
        return isinstance(source, cst.Name) and source.value == "sys"
    return isinstance(owner, cst.Attribute) and owner.attr is name
