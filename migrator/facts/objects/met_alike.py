"""Which code all workers come to equally often, whatever each of them has: where something may be exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator

import libcst as cst

from migrator.facts.objects.kinds import is_of_options
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
        is_alike |= isinstance(owner, cst.If) and _is_told(tree, resolver, owner.test, owner)
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


def _is_told(tree: Tree, resolver: Resolver, test: cst.BaseExpression, branch: cst.If) -> bool:
    """Whether the condition asks nothing but what the command line says, which all workers are started with, and what
    is written down."""
    if isinstance(test, (cst.Name, cst.Attribute)):
        return _is_option(tree, resolver, test, branch) or (
            isinstance(test, cst.Name) and _is_given_alike(tree, resolver, test, branch)
        )
    if isinstance(test, cst.Comparison):
        sides = [test.left, *(c.comparator for c in test.comparisons)]
        told = [side for side in sides if not _is_written(side)]
        return bool(told) and all(_is_told(tree, resolver, side, branch) for side in told)
    if isinstance(test, cst.UnaryOperation):
        return _is_told(tree, resolver, test.expression, branch)
    if isinstance(test, cst.BooleanOperation):
        return all(_is_told(tree, resolver, side, branch) for side in (test.left, test.right))
    return False


def _is_option(tree: Tree, resolver: Resolver, node: cst.CSTNode, branch: cst.If) -> bool:
    # What the branch itself puts in its place is met alike by then.
    if not isinstance(node, (cst.Name, cst.Attribute)):
        return False
    values = resolver.values(node)
    set_at = tree.attributes.get(node.attr.value, ()) if isinstance(node, cst.Attribute) else ()
    is_set = any(not tree.contains(branch, binding.node) for binding in set_at)
    return not is_set and bool(values) and all(isinstance(v, Member) and is_of_options(v) for v in values)


def _is_given_alike(tree: Tree, resolver: Resolver, name: cst.Name, branch: cst.If) -> bool:
    """Whether all that the name is given is written down or an option: `train("runs")` its function's parameter."""
    given: list[cst.CSTNode | None] = []
    for binding in resolver.reaching(name):
        param = binding.node
        if isinstance(param, cst.Param):
            callers = resolver.callers(resolver.function_of_parameter(param))
            is_seen = bool(callers) and not any(arg.star for caller in callers for arg in caller.args)
            given += resolver.given(param) if is_seen else [None]
        else:
            given.append(binding.value if binding.kind == "assign" and not binding.path else None)
    return bool(given) and all(
        isinstance(node, cst.BaseExpression) and (_is_written(node) or _is_option(tree, resolver, node, branch))
        for node in given
    )


def _is_written(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.BaseNumber, cst.BaseString)) or (
        isinstance(node, cst.Name) and node.value in ("None", "True", "False")
    )


def is_main(node: cst.CSTNode) -> bool:
    """`if __name__ == "__main__":`"""
    test = node.test if isinstance(node, cst.If) else None
    return isinstance(test, cst.Comparison) and isinstance(test.left, cst.Name) and test.left.value == "__name__"
