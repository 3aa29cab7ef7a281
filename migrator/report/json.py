"""The result of a run as JSON: one document, or one object a line. docs/formats.md tells what each key means.

The keys are stable: new ones may come, none changes its meaning while FORMAT_VERSION is the same.
"""

from __future__ import annotations

import json as encoder
from collections.abc import Iterator
from typing import Any

from migrator.findings.results import Defect, Failure, FileResult, Finding, Outcome, RunResult
from migrator.report import View
from migrator.report.sites import Piece, Place, Site, cell_of, failures, pieces, relative, sites
from migrator.report.text import counts
from migrator.report.tool import version

FORMAT_VERSION = 1


def json(result: RunResult, view: View) -> Iterator[str]:
    document = {
        "format_version": FORMAT_VERSION,
        "tool": {"name": "migrate", "version": version()},
        "files": [_file(file) for file in result.files],
        "findings": [_finding(site) for site in sites(result)],
        "trusted": [_remark(file, remark) for file in result.files for remark in file.remarks.trusted],
        "unused": [_remark(file, remark) for file in result.files for remark in file.remarks.unused],
        "errors": [_error(file, failure) for file, failure in failures(result)],
        "exit_code": view.exit_code,
    }
    yield encoder.dumps(document, indent=2)


def json_lines(result: RunResult, view: View) -> Iterator[str]:
    """Findings, remarks and errors, each with a key `type`."""
    for site in sites(result):
        yield encoder.dumps({"type": "finding", **_finding(site)})
    for file in result.files:
        for kind, remarks in (("trusted", file.remarks.trusted), ("unused", file.remarks.unused)):
            for remark in remarks:
                yield encoder.dumps({"type": kind, **_remark(file, remark)})
    for file, failure in failures(result):
        yield encoder.dumps({"type": "error", **_error(file, failure)})


def statistics(result: RunResult) -> Iterator[str]:
    """How many sites each rule has left, or had: most first."""
    rows = [{"rule": rule, "count": number, "refused": refused} for rule, number, refused in counts(result)]
    yield encoder.dumps(rows, indent=2)


def _file(file: FileResult) -> dict[str, Any]:
    outcome = file.outcome
    return {
        "path": relative(file.name),
        "status": _status(file),
        "written": relative(file.written) if file.written else None,
        "is_start": file.is_start,
        "edit": [_piece(piece) for piece in pieces(outcome, outcome.changes)] if isinstance(outcome, Outcome) else [],
        "lacking": [{"rule": rule, "needs": needed} for rule, needed in getattr(outcome, "lacking", ())],
    }


def _status(file: FileResult) -> str:
    if isinstance(file.outcome, Failure):
        return "failed"
    if file.is_passed_over:
        return "passed-over"
    if file.is_changed:
        return "migrated" if file.written else "to-migrate"
    return "refused" if file.refusals else "nothing-to-do"


def _finding(site: Site) -> dict[str, Any]:
    found = site.finding
    return {
        "kind": "refusal" if found.is_refusal else "edit",
        "rule": found.rule,
        "path": relative(site.file.name),
        "range": _range((found.line, found.column), (found.end_line, found.end_column)),
        "cell": _cell(site.file, found),
        "scope": found.scope,
        "message": found.message,
        "advice": found.advice,
        "applied": site.is_applied,
        "accepted": site.is_accepted,
        "fingerprint": site.fingerprint,
        "edit": [_piece(piece) for piece in site.pieces],
    }


def _remark(file: FileResult, remark: Finding) -> dict[str, Any]:
    return {
        "rule": remark.rule or None,
        "path": relative(file.name),
        "cell": _cell(file, remark),
        "range": _range((remark.line, remark.column), (remark.end_line, remark.end_column)),
        "message": remark.message,
        "advice": remark.advice,
    }


def _cell(file: FileResult, finding: Finding) -> dict[str, int] | None:
    cell = cell_of(file, finding)
    return None if cell is None else {"number": cell[0], "line": cell[1]}


def _error(file: FileResult, failure: Failure) -> dict[str, Any]:
    return {
        "path": relative(file.name),
        "line": failure.line,
        "column": failure.column,
        "message": failure.message,
        "is_defect": isinstance(failure, Defect),
    }


def _piece(piece: Piece) -> dict[str, Any]:
    return {"range": _range(piece.start, piece.end), "old": piece.old, "new": piece.new}


def _range(start: Place, end: Place) -> dict[str, dict[str, int]]:
    return {
        "start": {"line": start[0], "column": start[1]},
        "end": {"line": end[0], "column": end[1]},
    }
