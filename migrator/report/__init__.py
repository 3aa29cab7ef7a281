"""What a run tells its user, one module for each form. None is called from inside the run: they read its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module

from migrator.findings.results import RunResult
from migrator.records import dataclass


@dataclass(frozen=True)
class View:
    """What the user asked of the run, as far as reports differ by it.

    `with_edits`: edits that were not made are listed beside the refusals. `exit_code` is the run's own.
    """

    with_edits: bool
    exit_code: int


# For people and editors first, then for programs; each is a function of the same name (with _ for -).
TEXTS = {"concise": "text", "full": "full", "grouped": "grouped"}
DATA = {
    "json": "json",
    "json-lines": "json",
    "github": "github",
    "gitlab": "gitlab",
    "sarif": "sarif",
    "junit": "junit",
    "rdjson": "rdjson",
}
FORMATS = (*TEXTS, *DATA)


def lines(name: str, result: RunResult, view: View) -> Iterator[str]:
    """The report in the form of this name, line by line."""
    module = import_module(f"migrator.report.{ {**TEXTS, **DATA}[name] }")
    report: Callable[[RunResult, View], Iterator[str]] = getattr(module, name.replace("-", "_"))
    return report(result, view)
