"""The names of the scripts that import a file, in refusals of what nothing among the files given calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from migrator.findings.results import Finding, Outcome

WITH_CALLER = "migrate it together with the script that calls it"
_MOST_CALLERS = 3


def asks_for_caller(outcome: Outcome) -> bool:
    """Whether the file is refused for that nothing among the files given calls what it defines."""
    return any(WITH_CALLER in refusal.advice for refusal in outcome.refusals)


def with_callers(outcome: Outcome, name: str, callers: Sequence[str]) -> Outcome:
    """The outcome, of which the refusals name the scripts that may call what the file defines."""
    told = f"{WITH_CALLER}: migrate {name} {' '.join(callers[:_MOST_CALLERS])}"

    def named(finding: Finding) -> Finding:
        return replace(finding, advice=finding.advice.replace(WITH_CALLER, told))

    return replace(
        outcome, findings=tuple(map(named, outcome.findings)), findings_after=tuple(map(named, outcome.findings_after))
    )
