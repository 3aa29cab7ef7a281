"""The migrated form of what is to be verified: the files are migrated where they lie, in a scratch copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from migrator.command.environment import site_packages
from migrator.command.run import Options, Run
from migrator.files.programs import context_of
from migrator.findings.results import Failure, FileResult, Finding, Outcome
from migrator.notebooks.cells import is_notebook, place
from migrator.notebooks.file import Notebook
from migrator.registry import all_rules

_SUFFIX = ".py"


@dataclass(frozen=True)
class Change:
    """What the migration did to a file, by its path in the user's folder."""

    file: str
    old: str
    new: str
    findings: tuple[Finding, ...]  # with their places in the old text
    findings_after: tuple[Finding, ...]


@dataclass
class Migration:
    changes: list[Change] = field(default_factory=list)
    # (file, refusal) of what was not migrated.
    refusals: list[tuple[str, Finding]] = field(default_factory=list)
    failures: list[tuple[str, Failure]] = field(default_factory=list)
    # Whether every worker trains on all data, as the report tells.
    trains_whole: bool = False

    @property
    def is_complete(self) -> bool:
        return not self.refusals and not self.failures


def with_imported(files: Sequence[Path]) -> list[Path]:
    """The files and those that they import, directly or not: what makes up the program."""
    sources = {path.absolute(): _source(path) for path in files}
    return [*sources, *sorted(context_of(sources))]


def _source(path: Path) -> bytes:
    data = path.read_bytes()
    return Notebook.read(data).script.encode() if is_notebook(path) else data


def startable(path: Path) -> Path:
    """What Python runs of a file in a scratch copy: of a notebook the script of its cells, which is put beside it.
    Raises Failure where it gives none."""
    if not is_notebook(path):
        return path
    notebook, script = Notebook.read(path.read_bytes()), path.with_name(path.name + _SUFFIX)
    script.write_bytes(notebook.launchable(notebook.script))
    return script


def place_of(file: str, line: str) -> str:
    """The line as the user knows it: of the script of a notebook by its cell, "train.ipynb:cell 4:2"."""
    notebook = file[: -len(_SUFFIX)]
    if not (is_notebook(notebook) and file.endswith(_SUFFIX)):
        return f"{file}:{line}"
    cell, within = place(Path(file).read_text(encoding="utf-8"), int(line))
    return f"{notebook}:cell {cell}:{within}"


def migrate_in_place(files: Sequence[Path], folder: Path, time_limit: float = 120.0) -> Migration:
    """Migrate the files, which lie in the scratch folder; names are told by their paths in it."""
    rules, packages = tuple(all_rules()), site_packages("")
    options = Options(rules, "lockstep", True, None, jobs=1, time_limit=time_limit, site_packages=packages)
    migration = Migration()
    for result in Run(options).migrate(files).files:
        _add(migration, result, str(Path(result.name).relative_to(folder)))
    return migration


def _add(migration: Migration, result: FileResult, name: str) -> None:
    outcome = result.outcome
    if isinstance(outcome, Failure):
        migration.failures.append((name, outcome))
    elif isinstance(outcome, Outcome):
        migration.refusals += [(name, refusal) for refusal in outcome.refusals]
        migration.trains_whole |= outcome.trains_whole
        if outcome.is_changed:
            findings = tuple(f for f in outcome.findings if not f.is_refusal)
            migration.changes.append(Change(name, outcome.old_text, outcome.text, findings, outcome.findings_after))
