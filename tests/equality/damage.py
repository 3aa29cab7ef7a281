"""Take calls of lockstep out of a migrated script, to see whether the proof notices."""

from __future__ import annotations

import ast


def without_calls(source: bytes, function: str) -> bytes:
    """The script with every `lockstep.<function>(x, ...)` replaced by what it returns in a single process.

    Raises ValueError if there is no such call: then there is nothing to notice.
    """
    remover = _CallRemover(function)
    tree = remover.visit(ast.parse(source))
    if not remover.removed:
        raise ValueError(f"the script never calls lockstep.{function}")
    return ast.unparse(ast.fix_missing_locations(tree)).encode()


class _CallRemover(ast.NodeTransformer):
    def __init__(self, function: str) -> None:
        self._function = function
        self.removed = 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if not (
            isinstance(called, ast.Attribute)
            and isinstance(called.value, ast.Name)
            and called.value.id == "lockstep"
            and called.attr == self._function
        ):
            return node
        self.removed += 1
        if len(node.args) == 1:
            return node.args[0]
        return ast.Tuple(elts=node.args, ctx=ast.Load())
