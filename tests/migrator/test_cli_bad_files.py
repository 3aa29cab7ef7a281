"""A bad file is one clear line, exit code 2, and the others go on."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from command import (
    ERROR,
    MIGRATED,
    NOTHING_LEFT,
    TRAINING,
    migrate,
)

BAD = {
    "syntax.py": (b"import tensorflow\nmodel.fit(\nx = = 1\n", r"syntax\.py:\d+:\d+: not valid Python"),
    "python2.py": (b'import keras\nmodel.fit(x)\nprint "done"\n', r"python2\.py:3:\d+: this is Python 2"),
    "latin.py": (b"import keras\nmodel.fit(x)  # \xe9\n", r"latin\.py: line 2 is not UTF-8"),
    "cookie.py": (b"# coding: klingon\nimport keras\nmodel.fit(x)\n", r"cookie\.py: unknown encoding"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_line_and_does_not_stop_the_others(tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    (tmp_path / name).write_bytes(data)
    for good in ("a.py", "z.py"):
        (tmp_path / good).write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    error, *_, summary, _ = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert re.search(message, error)
    assert summary == "2 files migrated, 1 file failed"
    assert (tmp_path / name).read_bytes() == data
    assert (tmp_path / "a.py").read_text() == (tmp_path / "z.py").read_text() == MIGRATED


def test_missing_path_is_one_line_and_does_not_stop_the_others(script: Path, tmp_path: Path) -> None:
    result = migrate(tmp_path / "missing.py", script)
    assert result.exit_code == ERROR
    assert result.stderr.splitlines()[0] == f"error: {tmp_path / 'missing.py'}: no such file or folder"
    assert script.read_text() == MIGRATED


def test_folder_without_python_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    assert f"{tmp_path}: no Python files in this folder" in result.stderr


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "train.py").write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    assert re.match(r"error: .*dangling\.py: cannot be read: .+\n", result.stderr)
    assert (tmp_path / "train.py").read_text() == MIGRATED


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_is_one_line(script: Path) -> None:
    script.chmod(0)
    result = migrate(script)
    assert result.exit_code == ERROR
    assert "cannot be read: Permission denied" in result.stderr


def test_bad_standard_input_is_an_error() -> None:
    result = migrate("-", stdin=BAD["syntax.py"][0])
    assert (result.exit_code, result.stdout) == (ERROR, "")
    assert "<stdin>:" in result.stderr


def test_broken_file_that_does_not_train_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text('print "hello"\n')
    assert migrate(tmp_path / "old.py").exit_code == NOTHING_LEFT
