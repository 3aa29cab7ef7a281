"""Comparisons that ask whether there is something: `x is None`, and `x == None` where it is asked for its truth.

NumPy compares each item of an array with None, and such an array of several has no truth: in a condition only a scalar
is left, which is not None.
"""

from __future__ import annotations

import libcst as cst

from migrator.facts.program.syntax import is_none
from migrator.facts.program.tree import Tree


def asks_for_presence(tree: Tree, node: cst.Comparison) -> bool:
    return all(
        is_none(c.comparator)
        and (
            isinstance(c.operator, (cst.Is, cst.IsNot))
            or (isinstance(c.operator, (cst.Equal, cst.NotEqual)) and _is_condition(tree, node))
        )
        for c in node.comparisons
    )


def asks_if_there_is_none(tree: Tree, node: cst.Comparison) -> bool | None:
    """Whether the comparison with None holds where there is nothing; None for other comparisons."""
    if len(node.comparisons) != 1 or not asks_for_presence(tree, node):
        return None
    return isinstance(node.comparisons[0].operator, (cst.Is, cst.Equal))


def _is_condition(tree: Tree, node: cst.BaseExpression) -> bool:
    """Whether the expression is asked for its truth, unless a class of the script compares in a way of its own."""
    if tree.methods.get("__eq__") or tree.methods.get("__ne__"):
        return False
    parent = tree.parent.get(node)
    if isinstance(parent, (cst.If, cst.While, cst.IfExp, cst.Assert)):
        return parent.test is node
    is_not = isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
    if is_not or (isinstance(parent, cst.BooleanOperation) and parent.left is node):
        return True
    return isinstance(parent, cst.BooleanOperation) and _is_condition(tree, parent)
