"""A proof as text for the terminal, and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import click

from migrator.verify.comparison import ORDER, Comparison
from migrator.verify.pace import paces, seconds_per_step
from migrator.verify.proof import Compared, Proof
from migrator.verify.verdict import Verdict

# Of the JSON: new keys may come, none changes its meaning while this is the same. docs/proof.schema.json has them.
FORMAT_VERSION = 1

_COLOURS = {"SAME": "green", "DIFFERENT": "red", "INCONCLUSIVE": "yellow", "NOT TRAINING": "yellow"}


def as_text(proof: Proof) -> Iterator[str]:
    """A table for each number of processes, what was made equal, and the verdict as the last line."""
    updates = len(proof.original.steps)
    recorded = sum(1 for step in proof.original.steps if step.arrays)
    changes = len(proof.migration.changes)
    yield f"{proof.script}: {updates} optimizer steps, of which {recorded} are compared number by number"
    if proof.settings.original is not None:
        yield f"compared with {proof.settings.original}, on one process"
    elif not changes:
        yield "nothing to migrate: the script is compared with itself on several workers"
    for one in proof.compared:
        yield ""
        yield from _table(one)
        yield from (f"  {told}" for told in remarks(one.comparison))
        yield from _pace(one, proof)
    made_equal = dict.fromkeys(text for c in proof.compared for r in c.records for text in r.made_equal)
    if made_equal:
        yield ""
        yield "made equal for the comparison (--as-is leaves it):"
        yield from (f"  {text}" for text in made_equal)
    yield ""
    yield from _verdict(proof.verdict)


def _table(one: Compared) -> Iterator[str]:
    colour = _COLOURS[one.verdict.kind]
    yield f"{click.style(one.title, bold=True)}: {click.style(one.verdict.kind, fg=colour)}"
    head = f"  {'':<16}{'apart at most':>15}{'at step':>9}{'allowed there':>15}"
    yield click.style(head + f"{'in float64':>13}" * (one.wide is not None), dim=True)
    for what in ORDER:
        largest = one.comparison.largest(what)
        if largest is not None:
            step, size, allowed = largest
            apart = "equal" if size == 0 else f"{size:.1e}"
            at = "" if size == 0 else str(step)
            wide = one.wide.largest(what) if one.wide is not None else None
            yield f"  {what:<16}{apart:>15}{at:>9}{allowed:>15.0e}" + (f"{wide[1]:>13.1e}" if wide else "")


def remarks(comparison: Comparison) -> list[str]:
    """Of each line that prints other numbers for a reason that is none in the training, the first time that it does."""
    return [f"{one.line} prints {one.detail}" for one in comparison.remarks]


def _pace(one: Compared, proof: Proof) -> Iterator[str]:
    """How long the steps of several workers take, and what each does in that time."""
    alone, together = seconds_per_step([proof.original]), seconds_per_step(one.records)
    if one.size > 1 and alone and together:
        shares = ", ".join(f"rank {pace.rank} {pace.exchanging:.0%}" for pace in paces(one.records))
        yield f"  a step takes {together:.3g} s, in one process {alone:.3g} s; exchanging and waiting: {shares}"


def _verdict(verdict: Verdict) -> Iterator[str]:
    if verdict.difference is not None and verdict.difference.line:
        cause = str(verdict.cause) if verdict.cause else "the cause is not clear"
        yield f"{verdict.difference.line}: {cause}"
    yield f"{click.style(verdict.kind, fg=_COLOURS[verdict.kind], bold=True)}: {verdict.reason}"
    if verdict.advice:
        yield f"    {verdict.advice}"


def as_json(proof: Proof) -> str:
    """One JSON object; figures are lists of [step, difference, allowed], null for a difference without a number."""
    compared = [
        {
            "title": one.title,
            "processes": one.size,
            "seconds": round(one.seconds, 2),
            "verdict": _plain(one.verdict),
            "seconds_per_step": round(seconds_per_step(one.records), 6),
            "ranks": [{"rank": p.rank, "exchanging": round(p.exchanging, 4)} for p in paces(one.records)],
            "figures": one.comparison.figures,
            "differences": [vars(d) for d in one.comparison.differences[:20]],
            "remarks": [vars(d) for d in one.comparison.remarks],
            "float64": {"figures": one.wide.figures} if one.wide is not None else None,
        }
        for one in proof.compared
    ]
    found = {
        "format_version": FORMAT_VERSION,
        "script": proof.script,
        "verdict": _plain(proof.verdict),
        "steps": len(proof.original.steps),
        "compared_steps": sum(1 for step in proof.original.steps if step.arrays),
        "seconds_per_step": round(seconds_per_step([proof.original]), 6),
        "spread": proof.rounding.spread,
        "seconds": {title: round(seconds, 2) for title, seconds in proof.seconds.items()},
        "not_in_float64": proof.not_wide or None,
        "made_equal": list(dict.fromkeys(t for c in proof.compared for r in c.records for t in r.made_equal)),
        "runs": compared,
    }
    return json.dumps(_finite(found), indent=2)


def _finite(value: Any) -> Any:
    """The value with null where JSON has no number: for what is infinitely far apart, or no number at all."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _plain(verdict: Verdict) -> dict[str, Any]:
    difference, cause = verdict.difference, verdict.cause
    return {
        "kind": verdict.kind,
        "reason": verdict.reason,
        "advice": verdict.advice,
        "difference": vars(difference) if difference else None,
        "rule": (cause.rule or None) if cause else None,
        "cause": cause.text if cause else None,
    }
