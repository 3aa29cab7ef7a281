"""Scripts on disk that import a file of the run: what the file defines is called there."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from migrator.files.imports import Imports
from migrator.files.programs import folders_of_project

_MOST_FILES = 300
_LARGEST_FILE = 1_000_000


def importers_of(path: Path, given: Collection[Path]) -> list[Path]:
    """The scripts that import the file, and are none of those given: of its folder first, then of those above it, up
    to that of its project."""
    imports = Imports(lambda other: other == path, None)
    found = []
    for other in _beside(path, given):
        try:
            data = other.read_bytes() if os.path.getsize(other) <= _LARGEST_FILE else b""
        except OSError:
            continue
        if path.stem.encode() in data and path in imports.named_in(other, data):
            found.append(other)
    return found


def _beside(path: Path, given: Collection[Path]) -> Iterator[Path]:
    left = _MOST_FILES
    for folder in folders_of_project(path.parent):
        try:
            several = sorted(p for p in folder.iterdir() if p.suffix == ".py" and p.is_file() and p not in given)
        except OSError:
            continue
        yield from several[:left]
        left -= len(several[:left])
