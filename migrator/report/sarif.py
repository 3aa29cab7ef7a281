"""The result of a run as SARIF 2.1.0, which code scanning of GitHub, Azure and editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from migrator.findings.results import Failure, FileResult, Finding, Outcome, RunResult
from migrator.findings.words import PER_FILE
from migrator.registry import all_rules
from migrator.report import View
from migrator.report.sites import Piece, Place, Site, failures, left, message, serving, uri
from migrator.report.tool import HOME, manual, version
from migrator.rule import Rule

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
# The folder that relative addresses start from.
_ROOT = "SRCROOT"


def sarif(result: RunResult, view: View) -> Iterator[str]:
    rules = list(all_rules().values())
    numbers = {rule.id: number for number, rule in enumerate(rules)}
    run = {
        "tool": {
            "driver": {
                "name": "migrate",
                "version": version(),
                "informationUri": HOME,
                "rules": [_rule(rule) for rule in rules],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": Path(os.getcwd()).as_uri().rstrip("/") + "/"}},
        "invocations": [_invocation(result, view)],
        "results": [
            *(_result(site, numbers) for site in left(result, with_edits=view.with_edits, with_accepted=True)),
            *(remark for file in result.files for remark in _remarks(file, numbers)),
        ],
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.manual},
        "helpUri": manual(rule.id),
        "defaultConfiguration": {"level": "error" if rule.is_audit else "warning"},
    }


def _invocation(result: RunResult, view: View) -> dict[str, Any]:
    return {
        "executionSuccessful": not result.failed and not result.is_interrupted,
        "exitCode": view.exit_code,
        "toolExecutionNotifications": [_notification(file, failure) for file, failure in failures(result)],
    }


def _notification(file: FileResult, failure: Failure) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": _artifact(file.name)}
    if failure.line is not None:
        place["region"] = {"startLine": failure.line, "startColumn": failure.column or 1}
    return {
        "level": "error",
        "message": {"text": failure.message},
        "locations": [{"physicalLocation": place}],
    }


def _result(site: Site, numbers: dict[str, int]) -> dict[str, Any]:
    found = site.finding
    return {
        **_told(site.file, found, numbers),
        "level": "error" if found.is_refusal else "warning",
        "partialFingerprints": {"migrateSite/v1": site.fingerprint},
        "suppressions": [{"kind": "external", "justification": "the baseline has it"}] if site.is_accepted else [],
        **_fixes(site),
    }


def _told(file: FileResult, found: Finding, numbers: dict[str, int]) -> dict[str, Any]:
    text = message(file, found)
    place: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": _artifact(file.name),
            "region": _region((found.line, found.column), (found.end_line, found.end_column)),
        }
    }
    if found.scope:
        place["logicalLocations"] = [{"fullyQualifiedName": found.scope}]
    return {
        **({"ruleId": found.rule} if found.rule else {}),
        **({"ruleIndex": numbers[found.rule]} if found.rule in numbers else {}),
        "message": {"text": f"{text}\n{found.advice}" if found.advice else text},
        "locations": [place],
    }


def _remarks(file: FileResult, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    """What is ignored, as suppressed; what else is taken on trust, for people to look at; needless comments."""
    for found in file.remarks.trusted:
        told = _told(file, found, numbers)
        if found.ignored_by:
            kind = "external" if found.ignored_by.startswith(PER_FILE) else "inSource"
            yield {**told, "level": "note", "suppressions": [{"kind": kind, "justification": found.ignored_by}]}
        else:
            told["message"]["text"] = f"taken on trust: {told['message']['text']}"
            yield {**told, "kind": "review", "level": "none", "suppressions": []}
    for found in file.remarks.unused:
        yield {**_told(file, found, numbers), "kind": "informational", "level": "none", "suppressions": []}


def _fixes(site: Site) -> dict[str, Any]:
    """The edit, with what it cannot do without."""
    outcome = site.file.outcome
    if not site.changes or not isinstance(outcome, Outcome):
        return {}
    pieces = sorted((*site.pieces, *serving(outcome)), key=lambda piece: (piece.start, piece.end))
    change = {
        "artifactLocation": _artifact(site.file.name),
        "replacements": [_replacement(piece) for piece in pieces],
    }
    told = "One part of the port; it trains the same model only together with the other parts."
    return {"fixes": [{"description": {"text": told}, "artifactChanges": [change]}]}


def _replacement(piece: Piece) -> dict[str, Any]:
    return {"deletedRegion": _region(piece.start, piece.end), "insertedContent": {"text": piece.new}}


def _region(start: Place, end: Place) -> dict[str, int]:
    return {"startLine": start[0], "startColumn": start[1], "endLine": end[0], "endColumn": end[1]}


def _artifact(name: str) -> dict[str, Any]:
    address = uri(name)
    return {"uri": address} if address.startswith("file:") else {"uri": address, "uriBaseId": _ROOT}
