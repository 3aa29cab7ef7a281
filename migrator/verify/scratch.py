"""The folders in which the runs take place: copies and links of what the script may read, so that nothing of the
user's is touched."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

# Python's and the user's own machinery, which no script reads.
_LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache", ".tox"})
_MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
# Larger files are linked: what is that large is read, and the script is kept from writing to it.
_LARGEST_COPY = 2_000_000
# A folder with more entries than these is linked as a whole.
_MOST_ENTRIES = 20_000


@dataclass(frozen=True)
class Mirror:
    """A copy of the folder `original`."""

    original: Path
    copy: Path

    def of(self, path: Path) -> Path:
        """Where the copy of a file is that lies in the original."""
        return self.copy / path.relative_to(self.original)


def mirror(folder: Path, copy: Path) -> Mirror:
    """Make a copy of the folder: its folders and small files are copied, large files are linked to."""
    entries = 0
    copy.mkdir(parents=True)
    for root, folders, files in os.walk(folder):
        here, there = Path(root), copy / Path(root).relative_to(folder)
        folders[:] = [name for name in folders if not _is_left_out(here / name) and here / name != copy]
        entries += len(folders) + len(files)
        if entries > _MOST_ENTRIES:
            for name in (*folders, *files):
                _link(here / name, there / name)
            folders.clear()
            continue
        for name in list(folders):
            if (here / name).is_symlink():
                _link(here / name, there / name)
                folders.remove(name)
            else:
                (there / name).mkdir()
        for name in files:
            _take(here / name, there / name)
    return Mirror(folder, copy)


def _is_left_out(path: Path) -> bool:
    return path.name in _LEFT_OUT or any(os.path.lexists(path / mark) for mark in _MARKS_OF_ENVIRONMENTS)


def _take(file: Path, to: Path) -> None:
    try:
        found = file.stat()
        if not stat.S_ISREG(found.st_mode):
            return
        if found.st_size > _LARGEST_COPY and not file.name.endswith((".py", ".ipynb")):
            _link(file, to)
        else:
            shutil.copy(file, to)
            to.chmod(found.st_mode | stat.S_IWUSR)
    except OSError:
        return  # what cannot be read here, the script cannot read either


def _link(path: Path, to: Path) -> None:
    to.symlink_to(Path(os.path.abspath(path)))
