"""The files of a run: which ones the given paths name, and how results are written back."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

# Folders whose Python files are other people's, or nobody's.
_SKIPPED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "env"})


_TEST_NAME = re.compile(r"^(?:test_.*|.*_test|conftest)\.py$")
_TEST_CONTENT = re.compile(rb"\b(?:unittest|pytest|absltest|googletest|tf\.test|test_combinations)\b|^def test_", re.M)


class NoSuchScript(Exception):
    """A path that names no Python file; the message says which and what to do."""


def scripts(path: Path) -> Iterator[Path]:
    """The Python files that the path names: itself, or all below a folder except in hidden and installed ones.

    Raises NoSuchScript for a path that is not there and for a folder without Python files.
    """
    if path.is_dir():
        found = sorted(_below(path))
        if not found:
            raise NoSuchScript(f"{path}: no Python files in this folder")
        yield from found
    elif path.exists():
        yield path
    else:
        raise NoSuchScript(f"{path}: no such file or folder")


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED_FOLDERS)
        for name in files:
            if name.endswith(".py"):
                yield Path(root, name)


def is_unit_test(path: Path, data: bytes) -> bool:
    """Whether the file tests training code, by its name and by what it uses: nobody starts it on many devices."""
    return bool(_TEST_NAME.match(path.name) and _TEST_CONTENT.search(data))


def write_atomically(path: Path, data: bytes, like: Path) -> None:
    """Replaces the file in one step, with the mode of `like`: a reader sees the old content or the new, whole.

    A symbolic link stays one: the file that it points to is replaced. Raises OSError, with nothing changed.
    """
    target = path.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = stat.S_IMODE(os.stat(like).st_mode) if like.exists() else None
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
