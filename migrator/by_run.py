"""Scripts that share files and are run apart: where the data of one of them cannot be split, every worker trains on all
of these in that one, and the others are split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from migrator.files.programs import Program
from migrator.findings.results import Failure, Outcome
from migrator.records import replace
from migrator.trained_whole import REFUSED_ANYWAY

Outcomes = Mapping[Path, "Outcome | Failure"]

# Each run is analysed once more: a library of many has none that is meant.
_MOST_RUNS = 6


def asked_apart(program: Program, together: Outcomes, migrate: Callable[[Program], Outcomes]) -> Outcomes:
    """What comes of the program where each of its runs is asked by itself, if that leaves fewer files with refusals and
    all runs want the same of the files that they share; else what came of it together."""
    runs = program.runs
    refused = _refused(together)
    is_one = all(refused <= run for run in runs)
    if is_one or len(runs) > _MOST_RUNS or not any(_may_be_whole(run, together) for run in runs):
        return together
    apart: dict[Path, Outcome | Failure] = {}
    for run in sorted(runs, key=lambda run: -len(refused & run)):  # those first that may end it
        for path, outcome in migrate(_part(program, run)).items():
            if path not in apart:
                apart[path] = outcome
            elif not _are_alike(apart[path], outcome):
                return together
        if not _refused(apart) < refused:
            return together
    return {path: apart[path] for path in together}


def _may_be_whole(run: set[Path], outcomes: Outcomes) -> bool:
    """Whether the run has refusals, and none that would be left were its data not split."""
    found = [outcome for path, outcome in outcomes.items() if path in run and _is_refused(outcome)]
    rules = {f.rule for outcome in found if isinstance(outcome, Outcome) for f in outcome.refusals}
    return bool(rules) and REFUSED_ANYWAY.isdisjoint(rules)


def _part(program: Program, run: set[Path]) -> Program:
    return replace(
        program,
        files={path: data for path, data in program.files.items() if path in run},
        imported={path: others for path, others in program.imported.items() if path in run},
        context=program.context & run,
        unread={path: failure for path, failure in program.unread.items() if path in run},
    )


def _refused(outcomes: Outcomes) -> set[Path]:
    return {path for path, outcome in outcomes.items() if _is_refused(outcome)}


def _is_refused(outcome: Outcome | Failure) -> bool:
    return isinstance(outcome, Failure) or bool(outcome.refusals)


def _are_alike(one: Outcome | Failure, other: Outcome | Failure) -> bool:
    if isinstance(one, Failure) or isinstance(other, Failure):
        return one is other
    return one.data == other.data and one.findings == other.findings
