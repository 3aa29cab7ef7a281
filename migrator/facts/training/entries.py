"""Functions that train and that nothing in the program may run: what imports the file calls them, or a library that
found them by a decorator or a base class. Beside these, others run that nobody calls."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training


def entries(
    tree: Tree, training: Training, sites: Collection[cst.CSTNode], cut: Collection[cst.CSTNode]
) -> dict[cst.FunctionDef, bool]:
    """The functions by which a training may be entered: those that nobody calls and that come by one of the `sites`,
    then those in which these stand. For each, whether it also comes by something of which a worker takes its part,
    `cut`, so that nobody can have taken it before from what the function is given."""
    cut = [*cut, *(fit.call for fit in training.fits)]
    called = _called(tree, training)
    first = [f for f in tree.functions if f not in called and _holds_one(tree, training.reached_from(f), sites)]
    functions = dict.fromkeys([*first, *(f for f in map(tree.function_of, sites) if f is not None)])
    return {function: _holds_one(tree, training.reached_from(function), cut) for function in functions}


def makers(
    tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, entered: Collection[cst.FunctionDef]
) -> Iterator[cst.FunctionDef]:
    """Where a training is entered by one of these, the other functions that nobody calls, but a library may, and that
    make models: `setUp` of a test, the first command of a group. What they put aside, the training may find."""
    called = _called(tree, training)
    if called.issuperset(entered):
        return
    for function in tree.functions:
        if function in called or function in entered or not _is_kept_elsewhere(tree, resolver, function):
            continue
        made = (call for call in tree.calls if tree.contains(function.body, call))
        if any(kinds.has_weights(v) or kinds.is_variable(v) for call in made for v in resolver.values(call)):
            yield function


def _is_kept_elsewhere(tree: Tree, resolver: Resolver, function: cst.FunctionDef) -> bool:
    """Whether a decorator, a base class from elsewhere or whoever reads its name may have it called."""
    owner = tree.class_of(function)
    if function.decorators or (owner is not None and owner.decorators):
        return True
    if owner is not None and resolver.derives_from(Class(owner), lambda path: not api.is_base_of_networks(path)):
        return True
    return any(name is not function.name for name in tree.names[function.name.value])


def _called(tree: Tree, training: Training) -> set[cst.CSTNode]:
    return {body for module in tree.modules for body in training.reached_from(module)}


def _holds_one(tree: Tree, bodies: Collection[cst.CSTNode], nodes: Collection[cst.CSTNode]) -> bool:
    return any(tree.contains(body, node) for body in bodies for node in nodes)
