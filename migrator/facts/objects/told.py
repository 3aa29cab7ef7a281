"""Values of which nothing is made but a line of text, or a summary."""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree

TELLING = ("builtins.print", "tensorflow.print", "tensorflow.summary.", "logging.", "absl.logging.")
_CONVERTING = frozenset({"builtins.float", "builtins.str", "builtins.format", "builtins.round", "numpy.round"})
_TAKING_NUMBERS = frozenset({"numpy", "item"})
# What stands between a number and the text that is made of it, `100 * x` and `"%.3f" % x` among it.
_IN_TEXTS = (
    cst.BinaryOperation, cst.Call, cst.ConcatenatedString, cst.Element, cst.FormattedString,
    cst.FormattedStringExpression, cst.Tuple,
)  # fmt: skip


def is_only_told(tree: Tree, resolver: Resolver, node: cst.CSTNode) -> bool:
    """`print(f"loss {float(mean.result()):.3f}")`"""
    value: cst.CSTNode | None = node
    while value is not None and not _is_told(tree, resolver, value):
        value = _converted(tree, resolver, value)
    return value is not None


def _is_told(tree: Tree, resolver: Resolver, node: cst.CSTNode) -> bool:
    arg = tree.parent[node]
    call = tree.parent[arg] if isinstance(arg, cst.Arg) else None
    paths = resolver.public_alone(call.func) if isinstance(call, cst.Call) else []
    return bool(paths) and all(path.startswith(TELLING) for path in paths)


def _converted(tree: Tree, resolver: Resolver, node: cst.CSTNode) -> cst.CSTNode | None:
    """The number in another form, or the text that it is a part of; None of all else."""
    owner = tree.parent[node]
    if isinstance(owner, cst.Attribute):
        return owner if owner.attr.value in _TAKING_NUMBERS else None
    if not isinstance(owner, cst.Arg):
        return owner if isinstance(owner, _IN_TEXTS) else None
    call = cst.ensure_type(tree.parent[owner], cst.Call)
    paths = resolver.public_alone(call.func)
    is_text = isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.SimpleString)
    return call if is_text or (paths and all(path in _CONVERTING for path in paths)) else None
