"""Which of the user's files an import statement leads to, by the paths alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Callable

from migrator.files import by_name

# What these names lead to is never a file of the user's, whatever a folder beside the script is called.
_FRAMEWORKS = frozenset({"tensorflow", "keras", "tf_keras", "numpy", "horovod", "npu_device", "lockstep"})
# Where a project keeps the packages that it installs, if not in its own folder.
SOURCES = "src"
_STATEMENT = re.compile(
    rb"^[ \t]*(?:from[ \t]+(?P<dots>\.*)[ \t]*(?P<module>[\w.]*)[ \t]+import\b[ \t]*(?P<names>\([^)]*\)|[^\n#;]*)"
    rb"|import[ \t]+(?P<plain>[^\n#;]+))",
    re.M,
)
_NAME = re.compile(rb"([\w.]+)(?:\s+as\s+\w+)?")


class Imports:
    """Look-ups among the files of which `exists` is true. Nothing is read: a file is known by its path. `added`: the
    folders that scripts add to the search path; None where only those of the files are looked through. `started`:
    those of the scripts that are run; see `started_in`."""

    def __init__(
        self, exists: Callable[[Path], bool], added: Sequence[Path] | None, started: Collection[Path] = ()
    ) -> None:
        self._exists = cache(exists)
        self._added = added
        self._started = started
        self._folders: dict[Path, list[Path]] = {}
        # Most files of a folder import the same modules.
        self._known: dict[tuple[Path, str], list[Path]] = {}

    def find(self, importer: Path, level: int, module: str) -> Path | None:
        """The file that `module`, with `level` dots before it, is for a statement in `importer`; None if it is none.

        Python looks into the folder of the script that it was started with and into PYTHONPATH; neither is known. So
        the importer's folder and those above it are tried, nearest first; the folder of a package comes last, since
        its modules are reached by the package's name, but where the scripts in it are those that are run. Then those
        that scripts add, and the folders in which projects keep the packages that they install.
        """
        parts = module.split(".") if module else []
        if level:
            folder = importer.parent
            for _ in range(level - 1):
                folder = folder.parent
            return self._file(folder, parts)
        if not parts or parts[0] in _FRAMEWORKS:
            return None
        return next((path for path in self._above(importer.parent, module) if path != importer), None)

    def _above(self, folder: Path, module: str) -> list[Path]:
        """The files that the module may be for the scripts of a folder, the likeliest first."""
        if (folder, module) not in self._known:
            if folder not in self._folders:
                above = sorted((folder, *folder.parents), key=self._is_package)
                if self._added is not None:
                    above += [*self._added, *(f / SOURCES for f in (folder, *folder.parents))]
                self._folders[folder] = above
            found = (self._file(above, module.split(".")) for above in self._folders[folder])
            self._known[folder, module] = [path for path in found if path is not None]
        return self._known[folder, module]

    def _is_package(self, folder: Path) -> bool:
        return folder not in self._started and self._exists(folder / "__init__.py")

    def _file(self, folder: Path, parts: list[str]) -> Path | None:
        base = folder.joinpath(*parts)
        candidates = [base / "__init__.py", *([base.with_name(f"{base.name}.py")] if parts else [])]
        return next((path for path in candidates if self._exists(path)), None)

    def named_in(self, importer: Path, data: bytes) -> set[Path]:
        """All files that the import statements in these bytes may lead to; text that only looks like one counts."""
        found: set[Path] = set()
        for level, module, names in statements(data):
            for name in (module, *(f"{module}.{n}" if module else n for n in names)):
                path = self.find(importer, level, name) if name or level else None
                if path is not None and path != importer:
                    found.add(path)
        return found | self._files(importer, by_name.told(data))

    def perhaps_named_in(self, importer: Path, data: bytes) -> set[Path]:
        """The files that a script may import by a name that does not stand where it does so."""
        return self._files(importer, by_name.perhaps(data))

    def _files(self, importer: Path, modules: Iterable[tuple[int, str]]) -> set[Path]:
        found = {self.find(importer, level, module) for level, module in modules if module.isascii()}
        return {path for path in found if path is not None and path != importer}


def started_in(files: Mapping[Path, bytes]) -> set[Path]:
    """The folders from which no file of another folder takes anything: what lies there is run there, with that folder
    first in the search path, be it a package or not."""
    imports = Imports(files.__contains__, None)
    taken = {(path.parent, other.parent) for path, data in files.items() for other in imports.named_in(path, data)}
    return {path.parent for path in files} - {folder for importer, folder in taken if importer != folder}


def statements(data: bytes) -> Iterator[tuple[int, str, list[str]]]:
    """The import statements in the bytes of a file: dots, module, and the names that are taken from it."""
    for match in _STATEMENT.finditer(data.replace(b"\\\n", b" ")):
        if match["plain"] is not None:
            for name in match["plain"].split(b","):
                plain = _NAME.match(name.strip())
                if plain:
                    yield 0, plain[1].decode(), []
        else:
            names = [m[1].decode() for m in _NAME.finditer(re.sub(rb"#[^\n]*", b"", match["names"]))]
            yield len(match["dots"]), match["module"].decode(), [n for n in names if n.isidentifier()]


def in_order_of_import(paths: Iterable[Path], imported: Mapping[Path, set[Path]]) -> list[Path]:
    """The paths, what is imported before what imports it."""
    found: dict[Path, None] = {}
    wanted = sorted(paths)
    among = set(wanted)
    for first in wanted:
        stack = [(first, iter(sorted(imported.get(first, set()) & among)))]
        entered = {first}
        while stack:
            path, rest = stack[-1]
            following = next((p for p in rest if p not in found and p not in entered), None)
            if following is None:
                found.setdefault(path)
                stack.pop()
            else:
                entered.add(following)
                stack.append((following, iter(sorted(imported.get(following, set()) & among))))
    return list(found)


def reachable(start: Iterable[Path], imported: Mapping[Path, set[Path]]) -> set[Path]:
    """The files themselves and all that they import, directly or not."""
    found = set(start)
    queue = list(found)
    while queue:
        for path in imported.get(queue.pop(), ()):
            if path not in found:
                found.add(path)
                queue.append(path)
    return found
