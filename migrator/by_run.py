"""Scripts that share files and are run apart: what is refused in one of them need not keep the others from being
migrated, nor make them train on all of the data where only one of them cannot have these split."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Callable

from migrator.programs import Program
from migrator.records import replace
from migrator.results import Failure, Outcome

Outcomes = Mapping[Path, "Outcome | Failure"]

# Each run is analysed once more: a library of many has none that is meant.
_MOST_RUNS = 6


def asked_apart(program: Program, together: Outcomes, migrate: Callable[[Program], Outcomes]) -> Outcomes:
    """What comes of the program where each of its runs is asked by itself, if that leaves fewer files with refusals and
    all runs want the same of the files that they share; else what came of it together."""
    runs = program.runs
    refused = _refused(together)
    if not refused or not 1 < len(runs) <= _MOST_RUNS or all(refused <= run for run in runs):
        return together
    apart: dict[Path, Outcome | Failure] = {}
    for part in (_part(program, run) for run in runs):
        for path, outcome in migrate(part).items():
            if path not in apart:
                apart[path] = outcome
            elif not _are_alike(apart[path], outcome):
                return together
    return {path: apart[path] for path in together} if _refused(apart) < refused else together


def _part(program: Program, run: set[Path]) -> Program:
    return replace(
        program,
        files={path: data for path, data in program.files.items() if path in run},
        imported={path: others for path, others in program.imported.items() if path in run},
        context=program.context & run,
        unread={path: failure for path, failure in program.unread.items() if path in run},
    )


def _refused(outcomes: Outcomes) -> set[Path]:
    return {path for path, outcome in outcomes.items() if isinstance(outcome, Failure) or outcome.refusals}


def _are_alike(one: Outcome | Failure, other: Outcome | Failure) -> bool:
    if isinstance(one, Failure) or isinstance(other, Failure):
        return one is other
    return one.data == other.data and one.findings == other.findings
