"""What the recorder keeps of what a script prints."""

from __future__ import annotations

import io
import logging
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.verify.plan import Plan
from migrator.verify.recorder import printing
from migrator.verify.recorder.journal import Journal

SCRIPT = """import logging, sys, helper
print("a", 1, end=" ")
print("b")
sys.stdout.write("bar 1\\rbar 2\\n\\n")
print("to errors", file=sys.stderr)
logging.getLogger("own").warning("loss %.1f", 0.5)
logging.getLogger("own").debug("not shown")
helper.tell()
print(__file__)
print("the end", end="")
"""


def recorded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Of the script, run here."""
    (folder / "train.py").write_text(SCRIPT)
    (folder / "helper.py").write_text("def tell():\n    print('of a helper')\n")
    journal = Journal(Plan("train.py", [], str(folder / "record"), str(folder)), 0)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(logging.Logger, "handle", logging.Logger.handle)
    printing.watch_streams(journal)
    printing.watch_logging(journal)
    runpy.run_path(str(folder / "train.py"), run_name="__main__")
    journal.close()
    return journal


def test_lines_are_kept_with_the_lines_of_the_script_that_print_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = recorded(tmp_path, monkeypatch)
    assert [(step, Path(line).name, text) for step, line, text in journal.record.printed] == [
        (0, "train.py:3", "a 1 b"),
        (0, "train.py:4", "bar 2"),
        (0, "train.py:5", "to errors"),
        (0, "train.py:6", "loss 0.5"),
        (0, "helper.py:2", "of a helper"),
        (0, "train.py:9", "train.py"),
        (0, "", "the end"),
    ]


def test_the_script_prints_as_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(tmp_path, monkeypatch)
    printed = sys.stdout.getvalue()  # type: ignore[attr-defined]
    assert printed.startswith("a 1 b\nbar 1\rbar 2\n\nof a helper\n")
    assert sys.stderr.getvalue() == "to errors\n"  # type: ignore[attr-defined]


def test_python_can_tell_the_error_that_ends_the_script() -> None:
    from_nowhere = "import sys\nfrom migrator.verify.plan import Plan\nfrom migrator.verify.recorder import printing\n"
    from_nowhere += "from migrator.verify.recorder.journal import Journal\n"
    from_nowhere += (
        "printing.watch_streams(Journal(Plan('a.py', [], 'record', '.'), 0))\nraise ValueError('out of luck')"
    )
    ran = subprocess.run([sys.executable, "-c", from_nowhere], capture_output=True, text=True)
    assert ran.returncode == 1
    assert ran.stderr.endswith("ValueError: out of luck\n")
