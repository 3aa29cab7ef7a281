"""The diff of a file: what `patch` takes, and what a reviewer reads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from migrator.report.diff import of_file


def diff(old: str, new: str) -> list[str]:
    return [click.unstyle(line) for line in of_file("script.py", old, new)]


def test_blank_lines_of_a_long_file_stay() -> None:
    lines = [line for i in range(200) for line in (f"a{i} = {i}", "", f"b{i} = {i}")]
    changed = [line.replace("a100 = 100", "a100 = 1") for line in lines]
    changes = [line for line in diff("\n".join(lines) + "\n", "\n".join(changed) + "\n") if line[0] in "+-"]
    assert changes == ["--- a/script.py", "+++ b/script.py", "-a100 = 100", "+a100 = 1"]


@pytest.mark.skipif(shutil.which("patch") is None, reason="patch is not installed")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nB\nc\n"),
        ("a\nb", "a\nb\n"),
        ("a\n", "b\na"),
        ("a\n" * 20, "b\n" + "a\n" * 20 + "c\n"),
        ("\fa\nb\n" * 9, "\fa\nb\n" * 4 + "c\n" + "\fa\nb\n" * 5),
    ],
)
def test_patch_takes_the_diff(tmp_path: Path, old: str, new: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(old)
    text = "\n".join(diff(old, new)) + "\n"
    subprocess.run(["patch", "-p1", "-s"], cwd=tmp_path, input=text, text=True, check=True, timeout=60)
    assert file.read_text() == new
