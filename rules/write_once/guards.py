"""Which statements the chief alone may run, and why others are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import libcst as cst

from migrator.edits import Guard, Refusal, Wrap
from migrator.facts.files.writes import Write
from migrator.facts.program.syntax import is_format
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts

from .extents import is_waited_for, lies_within
from .leaving import is_given_to_nobody, may_leave
from .questions import existence_test
from .statements import calls_model_early, names_read_after, only_prints

_ADVICE = "write the file under `if lockstep.is_chief():` by hand"


def guarded(facts: Facts, write: Write) -> Guard | Wrap | Refusal:
    statement = write.statement
    condition = facts.call("is_chief")
    small = _small_statement(facts, write.node)
    if small is not None and _shares_its_line(facts, small):
        return Guard(write.node, write.node, condition)  # parts the line: each statement is looked at by itself then
    if any(facts.training.is_within(s) for s in write.statements):
        return Refusal(
            write.node,
            "training goes on inside of this statement, so it cannot run on the chief alone",
            _ADVICE,
        )
    if facts.drawing.draws(write.statements):
        return Refusal(
            write.node,
            "random numbers are drawn inside of this statement: drawn by the chief alone, its generator would run "
            "ahead of the others'",
            "draw them before the write, which can then run on the chief alone",
        )
    changed = facts.left_behind.by(write.statements)
    if changed is not None:
        what = f"`{changed}`, which this statement changes," if changed else "what this statement changes"
        reason = f"{what} is needed by every worker afterwards"
        advice = "change it before the write, which can then run on the chief alone"
        return _chiefs_path(facts, write) or Refusal(write.node, reason, advice)
    if any(calls_model_early(facts, s) for s in write.statements):
        reason = "a model that is not built yet would be built here by the chief alone"
        return Refusal(write.node, reason, "call the model before the write, on every worker")
    as_it_stands = Guard(statement, write.statements[-1], condition)
    if write.is_with or write.following:
        if not may_leave(facts, write.statements, is_waited_for(facts, as_it_stands, ())):
            reason = "the chief alone would leave here what the others go on with"
            return Refusal(write.node, reason, "leave behind the write, and not in the midst of it")
        lost = names_read_after(facts, *write.statements)
        if lost:
            block = "this block makes" if write.is_with else "is made while this file is open"
            return Refusal(write.node, f"`{lost}`, which {block}, is needed by every worker afterwards", _ADVICE)
        return as_it_stands
    if small is None:
        reason = "this write is a part of a condition, or of a loop's header"
        return _chiefs_path(facts, write) or Refusal(write.node, reason, _ADVICE)
    if isinstance(small, cst.Expr):
        return as_it_stands
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        return _guard_assignment(facts, write, small, small.targets[0].target, condition)
    if isinstance(small, cst.Return):
        is_waited = is_waited_for(facts, as_it_stands, ())
        if may_leave(facts, write.statements, is_waited):
            return as_it_stands
        # What comes behind a guard would run on the workers that do not return there.
        if small.value is write.node and not is_waited and is_given_to_nobody(facts, small):
            return _chiefs(write.node, condition)
    reason = "what this write returns is needed by every worker"
    return _chiefs_path(facts, write) or Refusal(write.node, reason, _ADVICE)


def _chiefs_path(facts: Facts, write: Write) -> Wrap | None:
    """The path that the chief has written to, on all workers; nobody has it before the file is there."""
    if not facts.files.restores.tells_its_path(write.node) or facts.files.is_in_chiefs_callback(write.node):
        return None
    return Wrap(write.node, f"{facts.runtime}.broadcast(", f' if {facts.call("is_chief")} else "")')


def met_by_all(facts: Facts, wrap: Wrap, guards: Sequence[Guard]) -> Wrap | Refusal:
    """What the chief alone calls, while it writes something else, must wait for nobody."""
    calls = [call for call in facts.tree.calls if any(lies_within(facts, guard, call) for guard in guards)]
    alone = {body for call in calls for body in facts.training.reached_from(call)[1:]} if wrap.before else set()
    if not any(facts.tree.contains(body, wrap.node) for body in alone):
        return wrap
    reason = "what this write returns is needed by every worker, and the chief alone calls it where it writes a file"
    return Refusal(wrap.node, reason, "call it in front of that write", breaks_training=True)


def _chiefs(value: cst.BaseExpression, condition: str) -> Wrap:
    """The value where the chief asks for it, with all that is made of what it writes."""
    is_tight = isinstance(value, (cst.Call, cst.Attribute, cst.Subscript)) or value.lpar
    opening, closing = ("", "") if is_tight else ("(", ")")
    return Wrap(value, opening, f"{closing} if {condition} else None")


def guarded_fetch(facts: Facts, write: Write) -> Guard | Wrap | Refusal:
    """A download, with the question around it whether the file is there: the others ask only when all of it is."""
    asking = existence_test(facts, write.node)
    if asking is None:
        return guarded(facts, write)
    lost = names_read_after(facts, asking)
    other = asking.orelse
    is_told = other is None or (isinstance(other, cst.Else) and _only_print(facts, other.body))
    if lost or not is_told:
        reason = f"`{lost}`, which this block makes, is" if lost else "the other branch is"
        return Refusal(write.node, f"{reason} needed by every worker", "download the file before training is started")
    return Guard(asking, asking, facts.call("is_chief"))


def _only_print(facts: Facts, block: cst.BaseSuite) -> bool:
    return isinstance(block, cst.IndentedBlock) and all(only_prints(facts, cast(Statement, s)) for s in block.body)


def _guard_assignment(
    facts: Facts, write: Write, assign: cst.Assign, target: cst.Name, condition: str
) -> Guard | Wrap | Refusal:
    """`path = manager.save()`: guarded together with the lines directly after it that print the path. Printed further
    down, the other workers have None for it."""
    uses = [
        n
        for n in facts.tree.names[target.value]
        if facts.tree.is_read(n) and any(b.node is assign for b in facts.resolver.reaching(n))
    ]
    if uses and all(_is_only_told(facts, n) for n in uses) and not _are_told_next(facts, write.statement, uses):
        return _chiefs(assign.value, condition)
    block = facts.tree.block_of(write.statement)
    last = write.statement
    body = list(cast(cst.IndentedBlock, block).body)
    following = iter(body[body.index(write.statement) + 1 :])
    while uses:
        statement = next(following, None)
        if statement is None or not only_prints(facts, cast(Statement, statement)):
            reason = f"`{target.value}`, which this write returns, is needed by every worker"
            return _chiefs_path(facts, write) or Refusal(write.node, reason, _ADVICE)
        last = cast(Statement, statement)
        uses = [n for n in uses if not facts.tree.contains(statement, n)]
    return Guard(write.statement, last, condition)


def _are_told_next(facts: Facts, statement: Statement, uses: list[cst.Name]) -> bool:
    """Whether the lines directly after the statement are all that read the names."""
    body = list(cast(cst.IndentedBlock, facts.tree.block_of(statement)).body)
    left = list(uses)
    for following in body[body.index(statement) + 1 :]:
        if not left or not only_prints(facts, cast(Statement, following)):
            break
        left = [n for n in left if not facts.tree.contains(following, n)]
    return not left


def _is_only_told(facts: Facts, name: cst.Name) -> bool:
    """Whether the name is read in a line that only prints, and asked nothing there."""
    parent = facts.tree.parent.get(name)
    asked = isinstance(parent, (cst.Attribute, cst.Subscript, cst.BinaryOperation)) and not is_format(parent)
    statement = facts.tree.statement_of(name)
    return not asked and not isinstance(statement, cst.If) and only_prints(facts, statement)


def _small_statement(facts: Facts, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((o for o in facts.tree.ancestors(node) if isinstance(o, cst.BaseSmallStatement)), None)


def _shares_its_line(facts: Facts, small: cst.CSTNode) -> bool:
    line = facts.tree.parent[small]
    return isinstance(line, cst.SimpleStatementSuite) or len(cst.ensure_type(line, cst.SimpleStatementLine).body) > 1
