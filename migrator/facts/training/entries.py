"""Functions that train and that nothing in the program may run: what imports the file calls them."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training


def entries(
    tree: Tree, training: Training, sites: Collection[cst.CSTNode], cut: Collection[cst.CSTNode]
) -> dict[cst.FunctionDef, bool]:
    """The functions by which a training may be entered: those that nobody calls and that come by one of the `sites`,
    then those in which these stand. For each, whether it also comes by something of which a worker takes its part,
    `cut`, so that nobody can have taken it before from what the function is given."""
    cut = [*cut, *(fit.call for fit in training.fits)]
    called = {body for module in tree.modules for body in training.reached_from(module)}
    first = [f for f in tree.functions if f not in called and _holds_one(tree, training.reached_from(f), sites)]
    functions = dict.fromkeys([*first, *(f for f in map(tree.function_of, sites) if f is not None)])
    return {function: _holds_one(tree, training.reached_from(function), cut) for function in functions}


def _holds_one(tree: Tree, bodies: Collection[cst.CSTNode], nodes: Collection[cst.CSTNode]) -> bool:
    return any(tree.contains(body, node) for body in bodies for node in nodes)
