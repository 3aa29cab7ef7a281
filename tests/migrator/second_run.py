"""What every migration of the tests must stand: the tool, asked about its own output, finds nothing that it left."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from migrator.engine import Failure, Outcome
from migrator.files.programs import Program

Migration = Callable[..., "dict[Path, Outcome | Failure]"]


def checked(migrate_program: Migration) -> Migration:
    """The function, which migrates what comes out of it once more, and compares; each text once, however indented."""
    done: set[object] = set()

    def migrate_and_check(program: Program, *arguments: Any, **options: Any) -> dict[Path, Outcome | Failure]:
        once = migrate_program(program, *arguments, **options)
        for path, outcome in once.items():
            check_changes(path, outcome)
        written = {path: o.data for path, o in once.items() if isinstance(o, Outcome) and o.is_changed}
        key = (repr(arguments), *sorted((path, *data.split()) for path, data in written.items()))
        if written and key not in done:
            done.add(key)
            # Files that are only read stay as they were, so that what needs them is refused as before.
            twice = migrate_program(replace(program, files={**program.files, **written}), *arguments, **options)
            check_accepted(once, twice)
        return once

    return migrate_and_check


def check_changes(path: Path, outcome: Outcome | Failure) -> None:
    """Raises AssertionError where the changes do not make the new text of the old, or a finding has no place."""
    if not isinstance(outcome, Outcome):
        return
    text, end = [], 0
    for change in outcome.changes:
        assert end <= change.start <= change.end, f"{path}: changes overlap"
        text += [outcome.old_text[end : change.start], change.new]
        end = change.end
    text.append(outcome.old_text[end:])
    assert "".join(text) == outcome.text, f"{path}: the changes do not make the new text"
    causes = {finding for change in outcome.changes for finding in change.findings}
    assert causes == {f for f in outcome.findings if not f.is_refusal}, f"{path}: edits that change nothing, or unnamed"
    for finding in (*outcome.findings, *outcome.findings_after):
        assert (finding.line, finding.column) < (finding.end_line, finding.end_column), f"{path}: {finding}"


def check_accepted(once: dict[Path, Outcome | Failure], twice: dict[Path, Outcome | Failure]) -> None:
    """Raises AssertionError where a second run changes something, or refuses what the first did not."""
    for path, first in once.items():
        second = twice[path]
        if isinstance(first, Outcome):
            assert isinstance(second, Outcome), f"{path}: the second run fails: {second}"
            assert second.data == first.data, f"{path}: the second run changes what the first has written"
            more = refused(second) - refused(first)
            assert not more, f"{path}: the second run refuses what the first has written: {more}"


def refused(outcome: Outcome) -> set[tuple[str, str]]:
    """The rules that refuse something, with their reasons; lines are others after an edit."""
    return {(f.rule, re.sub(r"line \d+", "line", f.message)) for f in outcome.refusals}
