"""What every report tells of: the sites of a run, each with its place, its state, its change and a lasting name."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from migrator.findings.results import Change, Failure, FileResult, Finding, Outcome, RunResult
from migrator.notebooks.cells import is_notebook, place
from migrator.records import dataclass
from migrator.text.lines import line_and_column, line_starts

Place = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """What is put in the place of a piece of the old text; lines and columns count from 1, the end is exclusive."""

    start: Place
    end: Place
    old: str
    new: str


@dataclass(frozen=True)
class Site:
    """A finding in its file. Its own place is in the file as it is now, those of `changes` in the file as it was.

    `fingerprint` stays the same while lines move: it is made of the file's name, the rule, the scope of the site and
    its number among those of the same rule in the same scope.
    """

    file: FileResult
    finding: Finding
    is_applied: bool
    # The baseline has it.
    is_accepted: bool
    fingerprint: str
    changes: tuple[Change, ...]

    @property
    def message(self) -> str:
        """What a report tells that knows no cells."""
        return message(self.file, self.finding)

    @property
    def pieces(self) -> list[Piece]:
        """The changes with their lines and columns."""
        outcome = self.file.outcome
        return pieces(outcome, self.changes) if isinstance(outcome, Outcome) else []

    @property
    def is_left(self) -> bool:
        """Whether it is something left to do: a refusal, or an edit that was not made, if it is not accepted."""
        return not (self.is_applied or self.is_accepted)


def sites(result: RunResult) -> Iterator[Site]:
    """All findings of a run, edits that were made among them, in the order of files and lines."""
    for file in result.files:
        outcome = file.outcome
        if not isinstance(outcome, Outcome):
            continue
        counts: Counter[tuple[str, str]] = Counter()
        changes: dict[Finding, list[Change]] = {}
        for change in outcome.changes:
            for finding in change.findings:
                changes.setdefault(finding, []).append(change)
        for before, now in file.found:
            key = (before.rule, before.scope)
            counts[key] += 1
            fingerprint = _fingerprint(relative(file.name), *key, str(counts[key]))
            is_applied = bool(file.written) and not before.is_refusal
            is_accepted = before in file.accepted
            yield Site(file, now, is_applied, is_accepted, fingerprint, tuple(changes.get(before, ())))


def left(result: RunResult, *, with_edits: bool = True, with_accepted: bool = False) -> list[Site]:
    """The refusals and, where they are asked for, the edits that were not made, and what the baseline has."""
    return [
        site
        for site in sites(result)
        if (site.is_left or (with_accepted and not site.is_applied)) and (with_edits or site.finding.is_refusal)
    ]


def failures(result: RunResult) -> Iterator[tuple[FileResult, Failure]]:
    for file in result.failed:
        assert isinstance(file.outcome, Failure)
        yield file, file.outcome


def serving(outcome: Outcome) -> list[Piece]:
    """The changes that belong to no finding: the import of the runtime, and lines of their own for statements."""
    return pieces(outcome, [change for change in outcome.changes if not change.findings])


def pieces(outcome: Outcome, changes: Sequence[Change]) -> list[Piece]:
    """The changes with their lines and columns in the old text."""
    starts = line_starts(outcome.old_text)
    return [
        Piece(
            line_and_column(starts, change.start),
            line_and_column(starts, change.end),
            outcome.old_text[change.start : change.end],
            change.new,
        )
        for change in changes
    ]


def cell_of(file: FileResult, finding: Finding) -> tuple[int, int] | None:
    """The cell of a notebook in which a finding stands, and its line there; None for a script."""
    if not is_notebook(file.name) or not isinstance(file.outcome, Outcome):
        return None
    return place(file.outcome.text if file.is_in_place else file.outcome.old_text, finding.line)


def message(file: FileResult, finding: Finding) -> str:
    """The message of a finding, with its cell where a line alone would not lead there."""
    cell = cell_of(file, finding)
    return finding.message if cell is None else f"cell {cell[0]}, line {cell[1]}: {finding.message}"


def where(file: FileResult, finding: Finding) -> str:
    """The place of a finding for people."""
    return f"{file.name}:{spot(file, finding)}"


def spot(file: FileResult, finding: Finding) -> str:
    """The same within the file."""
    cell = cell_of(file, finding)
    line = f"{finding.line}" if cell is None else f"cell {cell[0]}:{cell[1]}"
    return f"{line}:{finding.column}"


def _fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def relative(name: str) -> str:
    """The name as seen from this folder, with slashes; files outside of it keep their whole path."""
    if name == "<stdin>":
        return name
    path = Path(os.path.abspath(name))
    try:
        return path.relative_to(os.getcwd()).as_posix()
    except ValueError:
        return path.as_posix()


def uri(name: str) -> str:
    """The name as a URI reference, relative to this folder where the file is in it."""
    path = relative(name)
    quoted = quote(path.encode("utf-8", "surrogateescape"))
    return f"file://{quoted}" if path.startswith("/") else quoted


def source_lines(site: Site) -> list[str]:
    """The lines of the file as it is now, without their ends."""
    outcome = site.file.outcome
    assert isinstance(outcome, Outcome)
    return lines_of(outcome.text if site.file.is_in_place else outcome.old_text)


def lines_of(text: str) -> list[str]:
    """The lines without their ends; a text that ends a line ends with an empty one."""
    starts = [*line_starts(text), len(text)]
    return [text[start:end].rstrip("\r\n") for start, end in zip(starts, starts[1:])]
