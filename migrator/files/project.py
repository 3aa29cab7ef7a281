"""The files of a run, scripts and notebooks: which ones the given paths name."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable

from pathspec import GitIgnoreSpec

from migrator.notebooks.cells import SUFFIX
from migrator.records import dataclass

# Folders whose Python files are other people's, or nobody's, as patterns of .gitignore.
EXCLUDED = (
    "__pycache__/",
    "__pypackages__/",
    "_build/",
    "build/",
    "buck-out/",
    "dist/",
    "node_modules/",
    "site-packages/",
    "venv/",
)
_MARKS_OF_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")

_TEST_NAME = re.compile(r"^(?:test_.*|.*_test|conftest)\.py$")
_TEST_CONTENT = re.compile(rb"\b(?:unittest|pytest|absltest|googletest|tf\.test|test_combinations)\b|^def test_", re.M)

Problem = Callable[[OSError], None]


@dataclass(frozen=True)
class Filter:
    """What of a folder is left out: `patterns` below `root`, and what .gitignore names unless it is not asked."""

    root: Path = Path()
    patterns: tuple[str, ...] = EXCLUDED
    respects_gitignore: bool = True


DEFAULT = Filter()


class NoSuchScript(Exception):
    """A path that names no Python file; the message says why."""


def scripts(
    path: Path, left_out: Path | None = None, problem: Problem | None = None, without: Filter = DEFAULT
) -> Iterator[Path]:
    """The Python files that the path names: itself, or all below a folder that are its own.

    Those of a folder are without hidden and installed ones, what the filter leaves out, links that lead out of it, and
    all below `left_out`. `problem` is told of each folder that cannot be read. Raises NoSuchScript for a path that
    is not there and for a folder without Python files; OSError where the path itself cannot be read.
    """
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:
        if path.is_symlink():
            raise
        raise NoSuchScript("no such file or folder") from None
    if not is_folder:
        yield path
        return
    problems: list[OSError] = []
    found = sorted(_below(path, left_out, problems.append, without))
    for error in problems:
        error.filename = str(path / os.path.relpath(error.filename, os.path.realpath(path)))
        if problem is not None:
            problem(error)
    if not found and not problems:
        raise NoSuchScript("no Python files in this folder (ignored ones must be named one by one)")
    yield from found


def _below(folder: Path, left_out: Path | None, problem: Problem, without: Filter) -> Iterator[Path]:
    top = Path(os.path.realpath(folder))
    ignored = _Ignored(top, without)
    for root, folders, files in os.walk(top, onerror=problem):
        here = Path(root)
        ignored.enter(here)
        folders[:] = [
            name
            for name in folders
            if not name.startswith(".")
            and here / name != left_out
            and not any(os.path.lexists(here / name / mark) for mark in _MARKS_OF_ENVIRONMENTS)
            and not ignored.has(here / name, is_folder=True)
        ]
        for name in files:
            path = here / name
            is_script = name.endswith((".py", SUFFIX)) and not name.startswith(".") and path != left_out
            if is_script and _is_own(path, top) and not ignored.has(path):
                yield folder / path.relative_to(top)


def _is_own(path: Path, top: Path) -> bool:
    """Whether it is a file of bytes (no pipe, no device) in the folder, to which a link may lead from within."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            if top not in Path(os.path.realpath(path)).parents:
                return False
            mode = os.stat(path).st_mode
    except OSError:
        return True  # who reads it is told
    return stat.S_ISREG(mode)


class _Ignored:
    """What the settings exclude, and the .gitignore files, from the top of the repository down to where we are."""

    def __init__(self, top: Path, without: Filter) -> None:
        self._specs: list[tuple[Path, GitIgnoreSpec]] = []
        self._respects_gitignore = without.respects_gitignore
        above = self._repository(top)
        for folder in reversed(above):
            self.enter(folder)
        if above and any(self._is_ignored(path, is_folder=True) for path in (top, *above)):
            self._specs.clear()  # what is named counts
        self._root = Path(os.path.realpath(without.root))
        self._excluded = GitIgnoreSpec.from_lines(without.patterns)
        if self._is_excluded(top, is_folder=True):
            self._root = top

    def _repository(self, top: Path) -> Sequence[Path]:
        """The folders above, nearest first, as far as the repository reaches that the folder is of."""
        if not (top / ".git").exists():
            for i, folder in enumerate(top.parents):
                if (folder / ".git").exists():
                    return top.parents[: i + 1]
        return ()

    def enter(self, folder: Path) -> None:
        """Takes account of the folder's own files."""
        if not self._respects_gitignore:
            return
        for name in (".git/info/exclude", ".gitignore"):
            try:
                lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
                self._specs.append((folder, GitIgnoreSpec.from_lines(lines)))
            except (OSError, ValueError):
                continue

    def has(self, path: Path, *, is_folder: bool = False) -> bool:
        """Whether the path is left out."""
        return self._is_excluded(path, is_folder=is_folder) or self._is_ignored(path, is_folder=is_folder)

    def _is_ignored(self, path: Path, *, is_folder: bool) -> bool:
        """What the .gitignore files say; the last word has the one that is nearest to the path."""
        for folder, spec in reversed(self._specs):
            if folder in path.parents:
                verdict = spec.check_file(path.relative_to(folder).as_posix() + "/" * is_folder).include
                if verdict is not None:
                    return verdict
        return False

    def _is_excluded(self, path: Path, *, is_folder: bool) -> bool:
        name = f"{os.path.relpath(path, self._root).replace(os.sep, '/')}{'/' * is_folder}"
        return bool(self._excluded.check_file(name).include)


def is_unit_test(path: Path, data: bytes) -> bool:
    """Whether the file tests training code, by its name and by what it uses: nobody starts it on many devices."""
    return bool(_TEST_NAME.match(path.name) and _TEST_CONTENT.search(data))
