"""The result of a run as commands for GitHub Actions, which shows them beside the lines of a pull request.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from collections.abc import Iterator

from migrator.findings.results import RunResult
from migrator.report import View
from migrator.report.sites import failures, left, relative


def github(result: RunResult, view: View) -> Iterator[str]:
    for site in left(result, with_edits=view.with_edits):
        found = site.finding
        properties = {
            "title": f"migrate ({found.rule})",
            "file": relative(site.file.name),
            "line": found.line,
            "endLine": found.end_line,
        }
        if found.line == found.end_line:  # GitHub takes columns for annotations of one line only
            properties |= {"col": found.column, "endColumn": found.end_column}
        command, message = ("error", f"refused: {site.message}") if found.is_refusal else ("warning", site.message)
        advice = found.advice or f"migrate {relative(site.file.name)} ports it"
        yield _command(command, properties, f"{message}\n{advice}")
    for file, failure in failures(result):
        place = {"line": failure.line, "col": failure.column} if failure.line is not None else {}
        yield _command("error", {"title": "migrate", "file": relative(file.name), **place}, failure.message)


def _command(name: str, properties: dict[str, object], message: str) -> str:
    given = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
    return f"::{name} {given}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        text = text.replace(character, f"%{ord(character):02X}")
    return text
