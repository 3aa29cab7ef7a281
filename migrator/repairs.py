"""Repairs of the analysis as edits: what the rules that own them have in common."""

from __future__ import annotations

import libcst as cst

from migrator.analysis.values import Operand, Repair
from migrator.edits import Refusal, Replace, Wrap
from migrator.facts.script import Facts


def put_together(facts: Facts, operand: Operand) -> Wrap | Replace:
    """Gives every worker the whole of what the operand is a part of."""
    if operand.how == "gather":
        return Wrap(operand.node, f"{facts.runtime}.all_gather(", ")")
    if operand.how == "metric":
        metric = cst.ensure_type(cst.ensure_type(operand.node, cst.Call).func, cst.Attribute).value
        return Replace(operand.node, (facts.call("metric_result", facts.source(metric)),))
    if operand.how == "shard":
        return Wrap(operand.node, f"{facts.runtime}.shard_like(", f", {operand.like})")
    tail = ', reduction="sum")' if operand.how == "sum" else ")"
    return Wrap(operand.node, f"{facts.runtime}.all_reduce(", tail)


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
