"""The parsed files of a program, and which of them an import means."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field
from pathlib import Path

import libcst as cst

from migrator.facts.program.syntax import dotted
from migrator.files.imports import Imports, started_in
from migrator.files.search_path import added_by
from migrator.layout import LONGEST_LINE, Style
from migrator.records import dataclass


@dataclass(frozen=True)
class Script:
    """One parsed file; `text` is what the module was parsed from.

    Where statements of the file were given lines of their own, `written` is the file as it is, `moved` tells how
    far `text` is ahead of it from an offset on, and `parting` what of `written`, from where to where, became which
    line ends. `style`: what the lines and strings look like that are written.
    """

    path: Path
    module: cst.Module
    text: str
    written: str = ""
    moved: tuple[tuple[int, int], ...] = ()
    parting: tuple[tuple[int, int, str], ...] = ()
    style: Style = field(default_factory=lambda: Style(LONGEST_LINE, '"'))
    left_out: str = ""

    def written_offset(self, offset: int) -> int:
        """Where in the file as it is written a character of `text` stands."""
        return offset - next((shift for start, shift in reversed(self.moved) if start <= offset), 0)


class Modules:
    """Look-ups between the files of one program."""

    def __init__(self, scripts: Sequence[Script]) -> None:
        self._module_at = {script.path: script.module for script in scripts}
        self._path_of = {script.module: script.path for script in scripts}
        texts = {script.path: script.text.encode() for script in scripts}
        self._added, self._started = added_by(texts), started_in(texts)
        self._imports = Imports(self._module_at.__contains__, self._added, self._started)
        self._named: dict[tuple[cst.Module, str], cst.Module | None] = {}

    def named(self, importer: cst.Module, name: str) -> cst.Module | None:
        """The file that the dotted name, with its leading dots, means in an import of this file."""
        if len(self._module_at) == 1:
            return None
        if (importer, name) not in self._named:
            plain = name.lstrip(".")
            path = self._imports.find(self._path_of[importer], len(name) - len(plain), plain)
            self._named[importer, name] = self._module_at[path] if path is not None else None
        return self._named[importer, name]

    def path_named(self, importer: cst.Module, name: str, among: Collection[Path]) -> Path | None:
        """The path that the dotted name means in an import of this file, where others than the parsed files count."""
        plain = name.lstrip(".")
        imports = Imports(among.__contains__, self._added, self._started)
        return imports.find(self._path_of[importer], len(name) - len(plain), plain)

    def submodule(self, package: cst.Module, name: str) -> cst.Module | None:
        """`package.name` where that is a file of its own."""
        path = self._path_of[package]
        return self.named(package, f".{name}") if path.name == "__init__.py" else None


def module_name(node: cst.ImportFrom) -> str:
    """The module of a `from` import with its leading dots."""
    return "." * len(node.relative) + (dotted(node.module) if node.module is not None else "")
