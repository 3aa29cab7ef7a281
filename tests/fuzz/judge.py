"""What must hold of every input: an outcome or a failure with its reason, in bounds, and a second run agrees."""

from __future__ import annotations

import ast
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

from migrator.command.limits import TookTooLong, at_most
from migrator.engine import migrate_program
from migrator.files.programs import Program
from migrator.findings.results import Defect, Failure, Outcome
from migrator.registry import choose
from migrator.text.lines import line_and_column, line_starts

_PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(_PROJECT / "tests" / "migrator"), str(_PROJECT / "benchmarks")]

from corpus import uses_before_import  # noqa: E402
from second_run import check_accepted, check_changes  # noqa: E402

SECONDS = 20.0
_PATH = Path("script.py")


@dataclass(frozen=True)
class Verdict:
    """`problem`: what is wrong, empty where nothing is; `is_changed`: whether the script was migrated."""

    problem: str = ""
    is_changed: bool = False


def judged(data: bytes, seconds: float = SECONDS) -> Verdict:
    """Migrates the script, and what came of it once more."""
    try:
        with at_most(seconds):
            first = _outcome(data)
            if isinstance(first, Defect):
                return Verdict(f"defect: {type(first).__name__}: {first}")
            if isinstance(first, Failure):
                return Verdict()
            check_changes(_PATH, first)
            if not first.is_changed:
                return Verdict("it is changed, and not said to be" if first.data != data else "")
            if not _is_python(first.data):
                return Verdict("it gives what is not Python")
            if uses_before_import(first.data) and not uses_before_import(data):
                return Verdict("it uses the runtime before it imports it")
            lost = lost_lines(first)
            if lost:
                return Verdict(f"line {min(lost)} is changed, of which no finding tells")
            check_accepted({_PATH: first}, {_PATH: _outcome(first.data)})
            return Verdict(is_changed=True)
    except TookTooLong:
        return Verdict("it takes too long")
    except MemoryError:
        return Verdict("it takes too much memory")
    except AssertionError as error:
        return Verdict(str(error))
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
        return Verdict(f"{type(error).__name__} at {place}: {error}")


def lost_lines(outcome: Outcome) -> set[int]:
    """The lines of the old text that do not stay as they are, but for their indentation, though they belong to no
    statement that a finding is about."""
    statements = [node for node in ast.walk(ast.parse(outcome.old_text)) if isinstance(node, ast.stmt)]
    told: set[int] = set()
    for finding in outcome.findings:
        around = [s for s in statements if s.lineno <= finding.line <= (s.end_lineno or s.lineno)]
        innermost = max(around, key=lambda s: s.lineno, default=None)
        told.update(range(finding.line, finding.end_line + 1))
        if innermost is not None:
            told.update(range(innermost.lineno, (innermost.end_lineno or innermost.lineno) + 1))
    starts = line_starts(outcome.old_text)
    changed: set[int] = set()
    for change in outcome.changes:
        # A semicolon goes where a statement gets a line of its own.
        if outcome.old_text[change.start : change.end].strip("; \t\r\n\f"):
            first, last = (line_and_column(starts, at)[0] for at in (change.start, change.end - 1))
            changed.update(range(first, last + 1))
    return changed - told


def _outcome(data: bytes) -> Outcome | Failure:
    return migrate_program(Program({_PATH: data}), choose())[_PATH]


def _is_python(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError):
            return False
    return True
