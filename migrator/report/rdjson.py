"""The result of a run in reviewdog's diagnostic format, which it posts as comments to pull requests of many hosts.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from migrator.findings.results import Outcome, RunResult
from migrator.report import View
from migrator.report.sites import Place, Site, failures, left, lines_of, relative, source_lines
from migrator.report.tool import HOME, manual


def rdjson(result: RunResult, view: View) -> Iterator[str]:
    diagnostics: list[dict[str, Any]] = [_diagnostic(site) for site in left(result, with_edits=view.with_edits)]
    for file, failure in failures(result):
        location: dict[str, Any] = {"path": relative(file.name)}
        if failure.line is not None:
            location["range"] = {"start": {"line": failure.line}}
        diagnostics.append({"message": failure.message, "location": location, "severity": "ERROR"})
    yield json.dumps({"source": {"name": "migrate", "url": HOME}, "diagnostics": diagnostics}, indent=2)


def _diagnostic(site: Site) -> dict[str, Any]:
    found = site.finding
    lines = source_lines(site)
    place = _range(lines, (found.line, found.column), (found.end_line, found.end_column))
    diagnostic: dict[str, Any] = {
        "message": f"{site.message}\n{found.advice}" if found.advice else site.message,
        "location": {"path": relative(site.file.name), "range": place},
        "severity": "ERROR" if found.is_refusal else "WARNING",
        "code": {"value": found.rule, "url": manual(found.rule)},
    }
    outcome = site.file.outcome
    if site.changes and isinstance(outcome, Outcome):
        old = lines_of(outcome.old_text)
        diagnostic["suggestions"] = [
            {"range": _range(old, piece.start, piece.end), "text": piece.new} for piece in site.pieces
        ]
    return diagnostic


def _range(lines: Sequence[str], start: Place, end: Place) -> dict[str, dict[str, int]]:
    return {"start": _position(lines, start), "end": _position(lines, end)}


def _position(lines: Sequence[str], place: Place) -> dict[str, int]:
    """reviewdog counts columns in bytes of UTF-8."""
    line, column = place
    before = lines[line - 1][: column - 1] if line <= len(lines) else ""
    return {"line": line, "column": len(before.encode("utf-8", "surrogatepass")) + 1}
