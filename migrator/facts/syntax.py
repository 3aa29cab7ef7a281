"""Small readings of the syntax: arguments of calls, dotted names, imported modules."""

from __future__ import annotations

import libcst as cst


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument given by that keyword, or at that position before any `*args`."""
    for i, arg in enumerate(call.args):
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return arg
        elif arg.star:
            position = None
        elif i == position:
            return arg
    return None


def has_unpacked_keywords(call: cst.Call) -> bool:
    return any(arg.star == "**" for arg in call.args)


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` of a name or an attribute chain; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""


def imported_modules(node: cst.Import | cst.ImportFrom) -> list[str]:
    """The dotted names of the modules that an import statement names."""
    if isinstance(node, cst.ImportFrom):
        return [dotted(node.module)] if node.module is not None and not node.relative else []
    return [dotted(alias.name) for alias in node.names]
