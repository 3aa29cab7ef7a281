"""Parameters that their function calls, or hands on to one that does: models and functions, and no rows of a batch.

Where nobody is seen to call a function, its arguments are taken for a worker's part of a batch, as most are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.values import Bound, Function
from migrator.facts.names import api
from migrator.facts.program.tree import Scope

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_DEEPEST = 5


def is_called(run: Run, name: cst.Name) -> bool:
    """Whether the name is a parameter, and nothing else, that is called, or asked for its weights."""
    scope = run.tree.scope_of(name).lookup(name.value)
    return scope is not None and _is_called(run, scope, name.value, 0)


def _is_called(run: Run, scope: Scope, name: str, depth: int) -> bool:
    bindings = scope.bindings.get(name, [])
    if depth > _DEEPEST or len(bindings) != 1 or bindings[0].kind != "param":
        return False
    tree = run.tree
    for read in tree.names[name]:
        if not tree.is_read(read) or tree.scope_of(read).lookup(name) is not scope:
            continue
        owner = tree.parent[read]
        if isinstance(owner, cst.Call) and owner.func is read:
            return True
        if isinstance(owner, cst.Attribute) and owner.attr.value in api.WEIGHT_LISTS:
            return True
        if isinstance(owner, cst.Arg):
            call = tree.parent[owner]
            if isinstance(call, cst.Call) and any(
                _is_called(run, tree.scopes[function], param, depth + 1)
                for function, param in _given_to(run, call, owner)
            ):
                return True
    return False


def _given_to(run: Run, call: cst.Call, arg: cst.Arg) -> Iterator[tuple[cst.CSTNode, str]]:
    """The parameters of the program's functions that get the argument."""
    position = call.args.index(arg)
    is_placed = arg.keyword is None and not any(a.star for a in call.args[: position + 1])
    called = run.seen.get(call.func)
    for atom in called if called is not None else ():
        function = atom.function if isinstance(atom, Bound) else atom
        if not isinstance(function, Function):
            continue
        if arg.keyword is not None:
            yield function.node, arg.keyword.value
        elif is_placed:
            params = [*function.node.params.posonly_params, *function.node.params.params]
            for param in params[position + isinstance(atom, Bound) :][:1]:
                yield function.node, param.name.value
