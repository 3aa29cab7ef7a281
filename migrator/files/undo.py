"""A record of the files of a program while they are replaced, by which the next run takes half of it back.

Half a program would train another model, and a run over it may not tell what was done already.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from migrator.files.holding import abandoned, own_file
from migrator.records import dataclass

_SUFFIX = ".undo"
_NAME = re.compile(r"\.migrate-[a-z0-9_]{8}\.undo")


@dataclass(frozen=True)
class Replacement:
    """A file beside the target that has all but its name, and a name beside it for the old one meanwhile."""

    target: Path
    staged: str
    kept: str

    def keep(self) -> None:
        """Has the old file come back by its other name without a byte of space."""
        try:
            os.link(self.target, self.kept)
        except OSError:  # a file system without hard links
            shutil.copy2(self.target, self.kept)
            os.utime(self.kept)

    def take_back(self) -> None:
        """Once the target has been replaced."""
        os.replace(self.kept, self.target)


class Record:
    """Stands in the folder of the first file from before the first is replaced until all are."""

    def __init__(self, replacements: Sequence[Replacement]) -> None:
        folder = replacements[0].target.parent
        entries = [
            # Relative to the record: another machine may know the folder by another path.
            {
                "target": os.path.relpath(r.target, folder),
                "kept": os.path.relpath(r.kept, folder),
                "new": hashlib.sha256(Path(r.staged).read_bytes()).hexdigest(),
            }
            for r in replacements
        ]
        self._handle, self._name = own_file(folder, _SUFFIX)
        try:
            os.write(self._handle, json.dumps(entries).encode())
            os.fsync(self._handle)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        os.unlink(self._name)
        os.close(self._handle)


def take_back(folders: Iterable[Path]) -> list[Path]:
    """Takes back what runs that were killed had done by half in these folders; gives the files that are as before.

    Those that somebody has changed since stay as they are. Raises OSError.
    """
    found: list[Path] = []
    for folder in sorted(set(folders)):
        try:
            names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]
        except OSError:
            continue
        for name in names:
            found += _taken_back(folder, folder / name)
    return found


def _taken_back(folder: Path, record: Path) -> list[Path]:
    found: list[Path] = []
    with abandoned(str(record)) as data:
        if data is None:
            return []
        try:
            entries = json.loads(data)
        except ValueError:
            entries = []  # it was killed before the first replacement
        for entry in entries:
            target, kept = folder / entry["target"], folder / entry["kept"]
            with suppress(FileNotFoundError):
                if hashlib.sha256(target.read_bytes()).hexdigest() == entry["new"]:
                    Replacement(target, "", str(kept)).take_back()
                    found.append(target)
            with suppress(FileNotFoundError):
                kept.unlink()
        os.unlink(record)
    return found
