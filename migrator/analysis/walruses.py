"""`name := value` within expressions: it binds around the comprehensions that it stands in, in each of their turns, and
an operand that has one may not be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import row_counts, same_batch
from migrator.analysis.frames import Frame, join_names
from migrator.analysis.values import NOTHING, Value
from migrator.facts.program.tree import COMPREHENSIONS, Tree

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_MOST_TURNS = 6
# They go through what they are given at once, so that a generator's names are bound where it is made.
_AT_ONCE = frozenset({"all", "any", "dict", "frozenset", "list", "max", "min", "next", "set", "sorted", "sum", "tuple"})


def in_turns(
    run: Run, node: cst.BaseExpression, frame: Frame, evaluate: Callable[[], Value], agreed: Sequence[Value]
) -> Value:
    """What a comprehension gives, with the names that its turns bind; of none at all, they are as before. `agreed`:
    what decides, once it has been evaluated, how many turns there are."""
    owner = around(frame)
    before = owner.names
    if before is None or not (run.tree.around_walruses and node in run.tree.around_walruses):
        return evaluate()
    state, made = before, NOTHING
    for _ in range(_MOST_TURNS):
        names = row_counts.in_next_turn(state, node, run.tree)
        owner.names = dict(same_batch.in_next_turn(names, node, run.tree))
        made = evaluate()
        after = join_names([state, owner.names])
        if after is None or after == state:
            break
        state = after
    owner.names = run.statements.chosen_names([state], before, agreed)
    return made


def perhaps(
    run: Run, node: cst.BaseExpression, frame: Frame, evaluate: Callable[[], Value], agreed: Sequence[Value]
) -> Value:
    """What an operand gives that is asked by these conditions alone: the names that it binds may be as before."""
    owner = around(frame)
    before = owner.names
    if before is None or not (run.tree.around_walruses and node in run.tree.around_walruses):
        return evaluate()
    owner.names = dict(before)
    made = evaluate()
    owner.names = run.statements.chosen_names([before, owner.names], before, agreed)
    return made


def around(frame: Frame) -> Frame:
    """The frame in which a `:=` binds."""
    while frame.parent is not None and isinstance(frame.scope.node, COMPREHENSIONS):
        frame = frame.parent
    return frame


def bound_late(tree: Tree) -> frozenset[tuple[cst.CSTNode, str]]:
    """The names, by what they are bound in, that a generator binds whenever somebody asks it for what comes next."""
    return frozenset(
        (tree.scope_of(node).around().node, node.target.value)
        for node in tree.all_of(cst.NamedExpr)
        if isinstance(node.target, cst.Name) and _is_late(tree, node)
    )


def _is_late(tree: Tree, node: cst.NamedExpr) -> bool:
    for owner in tree.ancestors(node):
        if isinstance(owner, (cst.FunctionDef, cst.Lambda, cst.BaseSmallStatement)):
            return False
        if isinstance(owner, cst.GeneratorExp):
            arg = tree.parent[owner]
            call = tree.parent[arg] if isinstance(arg, cst.Arg) else None
            func = call.func if isinstance(call, cst.Call) else None
            if not isinstance(func, cst.Name) or func.value not in _AT_ONCE or tree.scope_of(func).lookup(func.value):
                return True
    return False
