"""How far guards reach: those side by side are one, and around some the others wait for the chief."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.edits import Guard
from migrator.facts.script import Facts

from .questions import around_question, question_around


def joined(facts: Facts, guards: list[Guard]) -> list[Guard]:
    """The guards in source order, one for those that stand side by side, without those inside of others."""
    found: list[Guard] = []
    for guard in sorted(guards, key=lambda g: (facts.tree.order[g.first], -facts.tree.last_order_in(g.last))):
        if found and lies_within(facts, found[-1], guard.first):
            continue
        if found and _adjoins(facts, found[-1], guard):
            found[-1] = Guard(found[-1].first, guard.last, guard.condition)
        else:
            found.append(guard)
    return found


def widened(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> Guard:
    """The guard with the question around it, where that has to be or spares a guard."""
    outer = around_question(facts, guard)
    is_next = any(_adjoins(facts, outer, other) for other in guards)
    return outer if is_next or is_waited_for(facts, guard, guards) else guard


def _adjoins(facts: Facts, guard: Guard, next_: Guard) -> bool:
    first, second = facts.tree.statement_of(guard.last), facts.tree.statement_of(next_.first)
    block = facts.tree.block_of(first)
    if block is not facts.tree.block_of(second):
        return False
    body = facts.tree.statements_beside(first)
    return second in body[body.index(first) + 1 :][:1] and not second.leading_lines


def lies_within(facts: Facts, guard: Guard, node: cst.CSTNode) -> bool:
    return facts.tree.order[guard.first] <= facts.tree.order[node] <= facts.tree.last_order_in(guard.last)


def is_guarded(facts: Facts, node: cst.CSTNode, guards: Sequence[Guard]) -> bool:
    return any(lies_within(facts, guard, node) for guard in guards)


def is_waited_for(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> bool:
    return _fetches(facts, guard) or is_read_later(facts, guard, guards)


def _fetches(facts: Facts, guard: Guard) -> bool:
    """Whether the guarded statements download files or make folders, which all workers may use."""
    fetching = (*facts.files.fetches, *facts.files.folders)
    return any(lies_within(facts, guard, call) for call in fetching)


def is_read_later(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> bool:
    """Whether the script may read afterwards what the guarded statements wrote, in the same run. What is read inside of
    other guards, the chief reads that has written it."""
    reads = facts.read_again.reads(guard.first, guard.last, writing_in(facts, guard))
    return any(
        not is_guarded(facts, read, guards) and not facts.apart.are_apart(read, [guard.first, guard.last])
        for read in reads
    )


def writing_in(facts: Facts, guard: Guard) -> list[cst.Call]:
    """The calls in the guarded statements that write files."""
    first, last = facts.tree.statement_of(guard.first), facts.tree.statement_of(guard.last)
    start, end = facts.tree.order[first], facts.tree.last_order_in(last)
    calls = (write.node for write in facts.files.writes if start <= facts.tree.order[write.node] <= end)
    return [call for call in calls if isinstance(call, cst.Call)]


def is_asked_first(facts: Facts, guard: Guard, is_waited_for: bool) -> bool:
    """Whether all workers need the answer from before the write to the question whether the file is there: to come to
    the barrier behind the write, or to set names by it."""
    question = question_around(facts, guard, False)
    if question is None or is_waited_for:
        return question is not None
    if not isinstance(question, (cst.If, cst.While)) or around_question(facts, guard) is not guard:
        return False
    spelled, paths = facts.paths.spelled, facts.files.paths
    asked = {spelled(path) for call in facts.files.asking_in(question.test) for path in paths(call)}
    return any(spelled(path) in asked for call in writing_in(facts, guard) for path in paths(call))
