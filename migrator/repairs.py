"""Repairs of the analysis as edits: what the rules that own them have in common."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.analysis.values import Operand, Repair
from migrator.edits import InsertBefore, Refusal, Replace, Wrap
from migrator.facts.script import Facts

_BINDS_CLOSER = (cst.Multiply, cst.Divide, cst.FloorDivide, cst.MatrixMultiply, cst.Modulo, cst.Power)
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def put_together(facts: Facts, operand: Operand) -> Iterator[Wrap | Replace | InsertBefore]:
    """Gives every worker the whole of what the operand is a part of: once before a comprehension that only reads it.
    Of a term that all have, each counts its share."""
    if operand.how == "share":
        opening, closing = ("", "") if _is_one_factor(operand.node) else ("(", ")")
        yield Wrap(operand.node, opening, f"{closing} / {facts.call('size')}")
    elif operand.how in ("mean", "sum") and _is_read_in_turns(facts, operand.node):
        name = facts.source(operand.node)
        whole = facts.fresh_variable(f"global_{name}", operand.node)
        arguments = ('reduction="sum"',) if operand.how == "sum" else ()
        yield InsertBefore(operand.node, (f"{whole} = {facts.call('all_reduce', name, *arguments)}",))
        yield Replace(operand.node, (whole,))
    else:
        yield _at_the_place(facts, operand)


def _is_read_in_turns(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it is a name that a comprehension reads in each of its turns, and gets from outside, in a line of its own
    which reads it nowhere else."""
    if not isinstance(node, cst.Name) or not isinstance(facts.tree.statement_of(node), cst.SimpleStatementLine):
        return False
    turns: list[cst.CSTNode] = []
    for owner in facts.tree.ancestors(node):
        if isinstance(owner, cst.SimpleStatementLine):
            break
        if isinstance(owner, (cst.Lambda, cst.IfExp, cst.BooleanOperation)):
            return False  # it may not be read at all
        turns += [owner] if isinstance(owner, _COMPREHENSIONS) else []
    if not turns or any(node.value in facts.tree.scopes[turn].bindings for turn in turns):
        return False
    line = facts.tree.statement_of(node)
    return [n for n in facts.tree.names[node.value] if facts.tree.contains(line, n)] == [node]


def _at_the_place(facts: Facts, operand: Operand) -> Wrap | Replace:
    if operand.how == "gather":
        return Wrap(operand.node, f"{facts.runtime}.all_gather(", ")")
    if operand.how == "metric":
        metric = cst.ensure_type(cst.ensure_type(operand.node, cst.Call).func, cst.Attribute).value
        return Replace(operand.node, (facts.call("metric_result", facts.source(metric)),))
    if operand.how == "once":
        return Wrap(operand.node, f"{facts.runtime}.shard_batch(", ', loss="gather")')
    if operand.how == "samples":
        return Wrap(operand.node, f"{facts.runtime}.sample_gradients(", ")")
    if operand.how == "shard":
        return Wrap(operand.node, f"{facts.runtime}.shard_like(", f", {operand.like})")
    tail = ', reduction="sum")' if operand.how == "sum" else ")"
    return Wrap(operand.node, f"{facts.runtime}.all_reduce(", tail)


def _is_one_factor(node: cst.CSTNode) -> bool:
    if getattr(node, "lpar", ()):
        return True
    if isinstance(node, cst.BinaryOperation):
        return isinstance(node.operator, _BINDS_CLOSER)
    return not isinstance(node, (cst.IfExp, cst.Lambda, cst.Comparison, cst.BooleanOperation))


def waits_alone(facts: Facts, repair: Repair) -> Refusal | None:
    """A refusal where the repair would have the chief wait for workers that never come."""
    for write in facts.files.writes:
        bodies = [body for statement in write.statements for body in facts.training.reached_from(statement)]
        if any(facts.tree.contains(body, repair.node) for body in bodies):
            return Refusal(
                repair.node,
                "all workers put this together, but the chief alone writes a file with what it is part of",
                "work that out before the file is written",
                breaks_training=True,
            )
    return None
