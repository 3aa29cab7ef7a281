"""What of a program's changes belongs together: a training, the smallest part that may be written without the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from migrator.files.imports import reachable
from migrator.files.programs import Program
from migrator.findings.results import FileResult
from migrator.records import dataclass


@dataclass(frozen=True)
class Training:
    """Changed files that train the same model only together, with what came of them."""

    files: Mapping[Path, FileResult]

    @property
    def first(self) -> str:
        return min(file.name for file in self.files.values())


def trainings(program: Program, changed: Collection[Path]) -> list[set[Path]]:
    """The changed files in groups: two are of one group where one run of Python may read both.

    Each run then has the changes of its groups as a whole, or is as it was. What two runs share without a change ties
    them together in nothing.
    """
    found: list[set[Path]] = []
    for start in program.files:
        together = reachable([start], program.imported) & set(changed)
        if together:
            found = [*_apart(found, together), together.union(*(g for g in found if g & together))]
    return found


def _apart(groups: Iterable[set[Path]], from_: set[Path]) -> list[set[Path]]:
    return [group for group in groups if group.isdisjoint(from_)]
