"""Which files a path names, and how a result takes a file's place."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from migrator.files.project import NoSuchScript, scripts
from migrator.files.writing import NotWritten, Write, write_all


def write_atomically(path: Path, data: bytes, like: Path) -> None:
    write_all([Write(path, data, like)])


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_folder_gives_its_python_files_below_in_order(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "a.py", "models/z.py", "models/deep/y.py", "notes.txt", "a.pyc", "data.npy", "run.sh")
    found = [path.relative_to(tmp_path).as_posix() for path in scripts(tmp_path)]
    assert sorted(found) == ["a.py", "b.py", "models/deep/y.py", "models/z.py"]
    assert found == [path.relative_to(tmp_path).as_posix() for path in scripts(tmp_path)]


@pytest.mark.parametrize(
    "folder",
    [".git", ".venv", ".tox", "__pycache__", "venv", "build", "dist", "node_modules", "lib/python3/site-packages"],
)
def test_hidden_and_installed_folders_are_not_entered(tmp_path: Path, folder: str) -> None:
    make(tmp_path, "train.py", f"{folder}/other.py", f"src/{folder}/other.py")
    assert list(scripts(tmp_path)) == [tmp_path / "train.py"]


def test_such_a_folder_is_entered_when_it_is_named(tmp_path: Path) -> None:
    make(tmp_path, "venv/train.py")
    assert list(scripts(tmp_path / "venv")) == [tmp_path / "venv" / "train.py"]


def test_file_is_taken_whatever_its_name(tmp_path: Path) -> None:
    make(tmp_path, "train")
    assert list(scripts(tmp_path / "train")) == [tmp_path / "train"]


@pytest.mark.parametrize("name", ["missing.py", "missing/", "empty"])
def test_path_without_scripts_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    make(tmp_path, "empty/README.md")
    with pytest.raises(NoSuchScript, match=r"no such file|no Python files"):
        list(scripts(tmp_path / name))


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_write_keeps_the_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new", like=path)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_copy_has_the_mode_of_the_original(tmp_path: Path) -> None:
    original, copy = tmp_path / "train.py", tmp_path / "out" / "deep" / "train.py"
    original.write_bytes(b"old")
    original.chmod(0o755)
    write_atomically(copy, b"new", like=original)
    assert copy.read_bytes() == b"new"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o755
    assert original.read_bytes() == b"old"


def test_symbolic_link_stays_one(tmp_path: Path) -> None:
    target, link = tmp_path / "shared" / "train.py", tmp_path / "train.py"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(os.path.join("shared", "train.py"))
    write_atomically(link, b"new", like=link)
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_write_replaces_the_file_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        write_atomically(path, b"new and longer", like=path)
        assert reader.read() == b"old"


def test_failed_write_leaves_everything_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(NotWritten, match="full"):
        write_atomically(path, b"new", like=path)
    assert [p.name for p in tmp_path.iterdir()] == ["train.py"]
    assert path.read_bytes() == b"old"
