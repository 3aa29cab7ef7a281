"""Which code all workers come to equally often, whatever each of them has: where something may be exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Member
from migrator.facts.program.tree import Tree, nodes_in

# What stands in them may not run, or run again, or later.
UNCERTAIN = (
    cst.If, cst.IfExp, cst.For, cst.While, cst.Try, cst.ExceptHandler, cst.Match, cst.BooleanOperation, cst.Lambda,
    cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp,
)  # fmt: skip


def places_met_alike(
    tree: Tree,
    resolver: Resolver,
    node: cst.CSTNode,
    passed: Collection[cst.CSTNode] = (),
    turned_alike: Callable[[cst.For | cst.While], bool] = lambda loop: False,
) -> list[cst.CSTNode] | None:
    """The node with the calls through which it is run, where it runs under no condition but whether the file is run and
    what the command line says, in no loop but those that all workers turn alike, and in functions that only such places
    call and that are no generators, which run later; None otherwise."""
    for owner in _around(tree, node):
        is_alike = is_main(owner) or (isinstance(owner, (cst.For, cst.While)) and turned_alike(owner))
        is_alike |= isinstance(owner, cst.If) and _is_told(tree, resolver, owner.test)
        if isinstance(owner, UNCERTAIN) and not is_alike:
            return None
    function = tree.function_of(node)
    if function is None:
        return [node]
    if any(isinstance(each, cst.Yield) for each in nodes_in(function)):
        return None
    found = [node]
    callers = resolver.callers(function)
    for caller in callers:
        is_new = caller not in passed
        more = places_met_alike(tree, resolver, caller, (*passed, node), turned_alike) if is_new else None
        if more is None:
            return None
        found += more
    return found if callers else None


def _around(tree: Tree, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What the node stands in, within its function."""
    return itertools.takewhile(lambda owner: not isinstance(owner, cst.FunctionDef), tree.ancestors(node))


def _is_told(tree: Tree, resolver: Resolver, test: cst.BaseExpression) -> bool:
    """Whether the condition asks nothing but what the command line says, which all workers are started with."""
    if isinstance(test, (cst.Name, cst.Attribute)):
        values = resolver.values(test)
        is_set = isinstance(test, cst.Attribute) and bool(tree.attributes.get(test.attr.value))
        return not is_set and bool(values) and all(isinstance(v, Member) and _is_of_options(v) for v in values)
    if isinstance(test, cst.Comparison):
        sides = [test.left, *(c.comparator for c in test.comparisons)]
        told = [side for side in sides if not _is_written(side)]
        return bool(told) and all(_is_told(tree, resolver, side) for side in told)
    if isinstance(test, cst.UnaryOperation):
        return _is_told(tree, resolver, test.expression)
    if isinstance(test, cst.BooleanOperation):
        return all(_is_told(tree, resolver, side) for side in (test.left, test.right))
    return False


def _is_of_options(value: Member) -> bool:
    return origin(value).startswith(("argparse.", "absl.flags."))


def _is_written(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.BaseNumber, cst.BaseString)) or (
        isinstance(node, cst.Name) and node.value in ("None", "True", "False")
    )


def is_main(node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":`"""
    test = node.test if isinstance(node, cst.If) else None
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
