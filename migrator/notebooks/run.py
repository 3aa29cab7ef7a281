"""The notebooks of a run: the scripts that are analysed in their place, and what is written of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from migrator.findings.results import Failure, Outcome
from migrator.notebooks.cells import is_notebook, place
from migrator.notebooks.file import Notebook, OtherLanguage


class Notebooks:
    """`data`: what the files hold, by their paths."""

    def __init__(self) -> None:
        self.data: dict[Path, bytes] = {}
        self._read: dict[Path, Notebook] = {}

    def script(self, path: Path, data: bytes, *, is_named: bool) -> bytes:
        """The script of a notebook; nothing for one of another language in a folder. Raises Failure.

        Whether a notebook speaks of training is no matter: it may run files that do.
        """
        self.data[path] = data
        try:
            self._read[path] = Notebook.read(data)
        except OtherLanguage:
            if is_named:
                raise
            return b""
        return self._read[path].script.encode("utf-8")

    def within_cells(self, outcomes: Mapping[Path, Outcome | Failure]) -> dict[Path, Outcome | Failure]:
        """The same, with the places of failures in their cells; no change to a program that would reach beyond one."""
        found = dict(outcomes)
        for path, outcome in outcomes.items():
            if path not in self._read:
                continue
            if isinstance(outcome, Failure) and outcome.line is not None:
                cell, line = place(self._read[path].script, outcome.line)
                found[path] = Failure(f"cell {cell}, line {line}: {outcome.message}")
            elif isinstance(outcome, Outcome) and outcome.is_changed:
                try:
                    self._read[path].rewritten(outcome.text)
                except Failure as failure:
                    is_kept = {p: not (isinstance(o, Outcome) and o.is_changed) for p, o in outcomes.items()}
                    return {p: o if is_kept[p] else failure for p, o in outcomes.items()}
        return found

    def written(self, path: Path, destination: Path, script: bytes) -> bytes:
        """What the destination is to hold: the notebook with the cells of the script, or a script. Raises Failure."""
        if not is_notebook(destination):
            notebook = self._read.get(path) or Notebook.read(self.data[path])
            return notebook.launchable(script.decode("utf-8") or notebook.script)
        return self._read[path].rewritten(script.decode("utf-8")) if script else self.data[path]
