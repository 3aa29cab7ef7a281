"""Findings as lines for people and editors: `path:line:column: rule: message`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from migrator.results import Finding, Outcome


def findings(path: str, outcome: Outcome, *, with_edits: bool) -> Iterator[str]:
    """The refusals of a file, and its edits where they are asked for (`--check`)."""
    seen = set()
    for finding in outcome.findings:
        key = (finding.line, finding.rule, finding.message)
        if (finding.is_refusal or with_edits) and key not in seen:
            seen.add(key)
            yield _line(path, finding)
            if finding.is_refusal and finding.advice:
                yield f"    {finding.advice}"


def _line(path: str, finding: Finding) -> str:
    where = click.style(f"{path}:{finding.line}:{finding.column}:", bold=True)
    rule = click.style(finding.rule, fg="yellow" if finding.is_refusal else "cyan")
    verb = "refused: " if finding.is_refusal else ""
    return f"{where} {rule}: {verb}{finding.message}"


def error(message: str) -> str:
    return f"{click.style('error:', fg='red', bold=True)} {message}"


def summary(changed: int, refused: int, unchanged: int, passed_over: int, failed: int, *, dry: bool) -> str:
    """One line for the whole run: what became of how many files."""
    parts = [
        _count(changed, "would be migrated" if dry else "migrated", "green"),
        _count(refused, "with refusals", "yellow"),
        _count(unchanged, "with nothing to do", None),
        _count(passed_over, "passed over as unit tests", None),
        _count(failed, "failed", "red"),
    ]
    return ", ".join(p for p in parts if p)


def _count(number: int, what: str, colour: str | None) -> str:
    if not number:
        return ""
    return click.style(f"{number} {'file' if number == 1 else 'files'} {what}", fg=colour)
