"""Groups the files of a run into programs: files that import each other and are analysed together."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Callable

from migrator.files import by_name
from migrator.files.imports import SOURCES, Imports, in_order_of_import, reachable, started_in
from migrator.files.search_path import added_by
from migrator.findings.results import Failure
from migrator.layout import Style
from migrator.records import dataclass
from migrator.text.source import is_ignoring, mentions_framework, mentions_training

# A program that is larger is analysed by folder, and then file by file: memory must stay bounded.
_MOST_BYTES = 1_500_000
# A script that leads to more files than these on disk is one of a library: they are then left out.
_MOST_CONTEXT = 200
# Files that are found by what scripts add to the search path may add to it, too.
_MOST_ROUNDS = 3
# What says that a folder is that of a project, and how far above a script it is looked for.
_OF_PROJECTS = (".git", "pyproject.toml", "setup.py", "setup.cfg")
_HIGHEST = 6


@dataclass(frozen=True)
class Program:
    """Files that are analysed together, in the order in which Python would run them.

    `imported` tells of each file which others of the program it imports. Files in `context` are only read; those
    `unread` could not be, and are empty. `shadow` is a file that Python would import in the place of the runtime.
    `line_length` is that of the lines that are written, where the user gives one; `styles` what formatters are told;
    `site_packages` where the packages lie whose code is read.
    """

    files: Mapping[Path, bytes]
    imported: Mapping[Path, set[Path]] = field(default_factory=dict)
    context: frozenset[Path] = frozenset()
    unread: Mapping[Path, Failure] = field(default_factory=dict)
    shadow: Path | None = None
    line_length: int | None = None
    styles: Mapping[Path, Style] = field(default_factory=dict)
    site_packages: tuple[Path, ...] = ()

    def style_of(self, path: Path) -> Style:
        """How the file is to be written, as far as it is known without the file."""
        style = self.styles.get(path, Style())
        return replace(style, line_length=self.line_length) if self.line_length is not None else style

    def parts(self, marked: Collection[Path]) -> tuple[set[Path], set[Path]]:
        """The files of all runs without a marked file, and those of all runs with one; some may be in both."""
        without: set[Path] = set()
        with_: set[Path] = set()
        for run in self.runs:
            (without if run.isdisjoint(marked) else with_).update(run)
        return without, with_

    @property
    def runs(self) -> list[set[Path]]:
        """Files that no other imports, each with all that it imports."""
        imports = {other for path, others in self.imported.items() for other in others - {path}}
        starts = [path for path in self.files if path not in imports] or list(self.files)
        return [reachable([start], self.imported) for start in starts]


def programs(
    files: Mapping[Path, bytes],
    context: Mapping[Path, bytes] | None = None,
    unread: Mapping[Path, Failure] | None = None,
) -> list[Program]:
    """The programs among the files, in the order of their first file; files that train nothing stand alone.

    `context`: files that those of the run import, but which the run may not change. `unread`: files of the run that
    could not be read; those that nothing imports are of no program.
    """
    unread = unread or {}
    everything = {**dict.fromkeys(unread, b""), **(context or {}), **files}
    imports = Imports(everything.__contains__, added_by(everything), started_in(everything))
    imported = {path: imports.named_in(path, data) for path, data in everything.items()}
    for path, others in _perhaps_imported(everything, imported, imports).items():
        imported[path] = imported[path] | others
    relevant = _around_training(everything, imported)
    groups = [*_groups(relevant, imported), *([path] for path in everything if path not in relevant)]
    position = {path: i for i, path in enumerate(files)}
    found = []
    for group in groups:
        mine = [path for path in group if path in position]
        if not mine:
            continue
        data = {path: everything[path] for path in in_order_of_import(group, imported)}
        edges = {path: imported[path] & set(group) for path in group}
        failed = {path: unread[path] for path in group if path in unread}
        program = Program(data, edges, frozenset(set(group) - set(mine) - failed.keys()), failed)
        found.append((min(position[p] for p in mine), program))
    return [program for _, program in sorted(found, key=lambda pair: pair[0])]


def shadowed(program: Program, package: str) -> Program:
    """The program with the file that Python would import in the place of the package, if one lies in its folders."""
    folders = {path.parent for path in program.files}
    for folder in sorted(folders | {_import_root(folder) for folder in folders}):
        for path in (folder / package / "__init__.py", folder / f"{package}.py"):
            if os.path.isfile(path) and not _is_runtime(path):
                return replace(program, shadow=path)
    return program


def _is_runtime(path: Path) -> bool:
    """Whether the package is the runtime itself, a copy or a checkout beside the script."""
    try:
        return path.name == "__init__.py" and b"shard_and_rebatch_dataset" in path.read_bytes()
    except OSError:
        return False


def context_of(files: Mapping[Path, bytes], looked_for: set[Path] | None = None) -> dict[Path, bytes]:
    """The files on disk that those of the run import without being among them, directly or not.

    Looked for beside the importing file, from the folder in which its package lies, in those that the files add to the
    search path, and in those of their project; where that is too much, beside the file alone. `looked_for` takes the
    paths that were looked for on disk, whether they are there or not.
    """
    looked_for = looked_for if looked_for is not None else set()
    found, added = None, added_by(files)
    for _ in range(_MOST_ROUNDS):
        found = _found_on_disk(files, added, looked_for)
        more = added_by({**files, **(found or {})})
        if more == added:
            break
        added = more
    if found is None:
        found = _found_on_disk(files, None, looked_for)
    return found or {}


def _found_on_disk(
    files: Mapping[Path, bytes], added: Sequence[Path] | None, looked_for: set[Path]
) -> dict[Path, bytes] | None:
    """The same, with these folders in the search path; if there are none, beside the importing file alone. None where
    that are too many."""
    roots = {folder: _import_root(folder) for folder in {path.parent for path in files}}
    lookups: dict[Path, Imports] = {}
    started = started_in(files)
    for root in set(roots.values()):
        project = folders_of_project(root) if added is not None else []
        tops = [root, *(added or ()), *project, *(folder / SOURCES for folder in project)]
        lookups[root] = Imports(_among(files, tops, looked_for), added, started)
    found: dict[Path, bytes] = {}
    queue = list(files.items())
    while queue:
        path, data = queue.pop()
        root = roots[path.parent]
        surely, perhaps = lookups[root].named_in(path, data), lookups[root].perhaps_named_in(path, data)
        for other in (surely | perhaps) - files.keys() - found.keys():
            try:
                text = other.read_bytes()
            except OSError:
                continue
            if other not in surely and not _matters_by_name(text):
                continue
            roots.setdefault(other.parent, root)
            found[other] = text
            if len(found) > _MOST_CONTEXT:
                return None
            queue.append((other, found[other]))
    return found


def _perhaps_imported(
    files: Mapping[Path, bytes], imported: Mapping[Path, set[Path]], imports: Imports
) -> dict[Path, set[Path]]:
    """What scripts may import that do so by names which do not stand there: files that their texts name, and those
    below that nobody else imports."""
    others = set(files).difference(*imported.values()) if imported else set()
    found = {}
    for path in files:
        if by_name.is_open(files[path]):
            named = imports.perhaps_named_in(path, files[path])
            below = {other for other in others if path.parent in other.parents and other != path}
            found[path] = {other for other in named | below if _matters_by_name(files[other])}
    return found


def _matters_by_name(data: bytes) -> bool:
    """Whether it matters that a script imports the file by its name: for what it changes; no script that trains."""
    return by_name.may_set(data) and not mentions_training(data)


def _among(files: Collection[Path], folders: Iterable[Path], looked_for: set[Path]) -> Callable[[Path], bool]:
    """Whether a path is one of the files, or one on disk below one of the folders."""
    tops = tuple(f"{str(folder).rstrip(os.sep)}{os.sep}" for folder in folders)

    def exists(path: Path) -> bool:
        if path in files:
            return True
        if not str(path).startswith(tops):
            return False
        looked_for.add(path)
        return os.path.isfile(path)

    return exists


def folders_of_project(folder: Path) -> list[Path]:
    """The folder and those above it, up to that of the project; of none that is seen, the one above."""
    above = [folder, *folder.parents][:_HIGHEST]
    top = next((i for i, f in enumerate(above) if any(os.path.exists(f / name) for name in _OF_PROJECTS)), 1)
    return [f for f in above[: top + 1] if f.parent != f]


def _import_root(folder: Path) -> Path:
    """The folder from which the modules of this one are imported: above its package, if it is one."""
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def _around_training(files: Mapping[Path, bytes], imported: Mapping[Path, set[Path]]) -> dict[Path, bytes]:
    """The files that train, those that import them, and those that these and the others import, directly or not: a
    script may build in one file what it trains by another."""
    importing: dict[Path, set[Path]] = defaultdict(set)
    for path, others in imported.items():
        for other in others:
            importing[other].add(path)
    speaking = {path for path, data in files.items() if mentions_framework(data)}

    def trains(path: Path) -> bool:
        """What it trains may be made by what it imports: such a file need not name the framework."""
        if not mentions_training(files[path]):
            return is_ignoring(files[path])
        return path in speaking or not speaking.isdisjoint(reachable([path], imported))

    wanted = reachable(reachable(list(filter(trains, files)), importing), imported)
    return {path: data for path, data in files.items() if path in wanted}


def _groups(files: Mapping[Path, bytes], imported: Mapping[Path, set[Path]]) -> list[list[Path]]:
    found: list[list[Path]] = []
    for group in _connected(files, imported):
        if sum(len(files[path]) for path in group) <= _MOST_BYTES:
            found.append(group)
        else:
            found.extend(_by_folder(group, files, imported))
    return found


def _by_folder(
    group: Iterable[Path], files: Mapping[Path, bytes], imported: Mapping[Path, set[Path]]
) -> Iterable[list[Path]]:
    folders: dict[Path, list[Path]] = defaultdict(list)
    for path in group:
        folders[path.parent].append(path)
    for members in folders.values():
        for part in _connected(members, imported):
            if sum(len(files[path]) for path in part) <= _MOST_BYTES:
                yield part
            else:
                yield from ([path] for path in part)


def _connected(paths: Iterable[Path], imported: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """The paths in groups that imports connect, whichever of two imports the other."""
    among = dict.fromkeys(paths)
    neighbours: dict[Path, set[Path]] = defaultdict(set)
    for path in among:
        for other in imported[path]:
            if other in among:
                neighbours[path].add(other)
                neighbours[other].add(path)
    found, seen = [], set()
    for first in among:
        if first in seen:
            continue
        group, queue = [], [first]
        seen.add(first)
        while queue:
            path = queue.pop()
            group.append(path)
            for other in neighbours[path] - seen:
                seen.add(other)
                queue.append(other)
        found.append(sorted(group))
    return found
