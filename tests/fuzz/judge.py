"""What must hold of every input: an outcome or a failure with its reason, in bounds, and a second run agrees."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path

from migrator.engine import migrate_program
from migrator.limits import TookTooLong, at_most
from migrator.programs import Program
from migrator.registry import choose
from migrator.results import Defect, Failure, Outcome

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
            if isinstance(first, Failure) or not first.is_changed:
                return Verdict(_python_left(data, first))
            if not _is_python(first.data):
                return Verdict("it gives what is not Python")
            second = _outcome(first.data)
            if isinstance(second, Failure):
                return Verdict(f"its own output fails: {second}")
            if second.is_changed:
                return Verdict("its own output is changed again")
            return Verdict(is_changed=True)
    except TookTooLong:
        return Verdict("it takes too long")
    except MemoryError:
        return Verdict("it takes too much memory")
    except Exception as error:
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        place = f"{Path(at.tb_frame.f_code.co_filename).name}:{at.tb_lineno}" if at is not None else ""
        return Verdict(f"{type(error).__name__} at {place}: {error}")


def _outcome(data: bytes) -> Outcome | Failure:
    return migrate_program(Program({_PATH: data}), choose())[_PATH]


def _python_left(data: bytes, outcome: Outcome | Failure) -> str:
    if isinstance(outcome, Outcome) and outcome.data != data:
        return "it is changed, and not said to be"
    return ""


def _is_python(data: bytes) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(data)
        except (SyntaxError, ValueError, RecursionError):
            return False
    return True
