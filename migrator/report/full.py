"""The result of a run with the source of each site: the lines around it, a caret below, the advice, the edit."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

import click

from migrator.findings.results import Outcome, RunResult
from migrator.report import View
from migrator.report.hunks import hunks
from migrator.report.sites import Site, left, source_lines, where

_CONTEXT = 2
_TAB = "    "


def full(result: RunResult, view: View) -> Iterator[str]:
    for site in left(result, with_edits=view.with_edits):
        yield from _told(site)


def _told(site: Site) -> Iterator[str]:
    found = site.finding
    rule = click.style(found.rule, fg="yellow" if found.is_refusal else "cyan", bold=True)
    yield f"{rule}{': refused' if found.is_refusal else ''}: {found.message}"
    lines = source_lines(site)
    last = min(found.line + _CONTEXT, max(len(lines) - (lines[-1] == ""), found.line))
    width = len(str(last))
    yield f"{' ' * width}{_rail('-->')} {where(site.file, found)}"
    yield f"{' ' * width} {_rail('|')}"
    for number in range(max(found.line - _CONTEXT, 1), last + 1):
        text = lines[number - 1]
        yield f"{_rail(f'{number:>{width}} |')} {_shown(text)}".rstrip()
        if number == found.line:
            yield f"{' ' * width} {_rail('|')} {_caret(site, text)}"
    yield f"{' ' * width} {_rail('|')}"
    if found.advice:
        yield f"{' ' * width} {_rail('=')} {click.style('help', bold=True)}: {found.advice}"
    yield from (f"{' ' * width} {_rail('|')} {line}" for line in _edit(site))
    yield ""


def _rail(text: str) -> str:
    return click.style(text, fg="blue", bold=True)


def _shown(text: str) -> str:
    """The line as a terminal shows it: tabs of a known width, no codes that move the cursor."""
    text = text.replace("\t", _TAB)
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _caret(site: Site, line: str) -> str:
    found = site.finding
    start = found.column - 1
    end = found.end_column - 1 if found.end_line == found.line else len(line.rstrip())
    marked = click.style("^" * max(_columns(line[start:end]), 1), fg="yellow" if found.is_refusal else "cyan")
    return " " * _columns(line[:start]) + marked


def _columns(text: str) -> int:
    """How many columns of a terminal the text takes: East Asian characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in _shown(text)
    )


def _edit(site: Site) -> Iterator[str]:
    """The lines that the edit of this site alone changes, before and after."""
    outcome = site.file.outcome
    if not site.changes or not isinstance(outcome, Outcome):
        return
    for before, after in hunks(outcome.old_text, site.changes):
        yield from (click.style(f"- {_shown(line)}", fg="red") for line in before)
        yield from (click.style(f"+ {_shown(line)}", fg="green") for line in after)
