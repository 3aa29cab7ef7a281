"""One call of the command: reads the files, migrates them program by program, writes and reports what came of each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import click

from migrator.engine import migrate_program
from migrator.programs import Program, context_of, programs
from migrator.project import NoSuchScript, is_unit_test, scripts, write_atomically
from migrator.registry import all_rules
from migrator.report import diff, text
from migrator.results import Defect, Failure, Outcome
from migrator.source import is_about_training
from migrator.targets import target_named

NOTHING_LEFT, SOMETHING_LEFT, ERROR = 0, 1, 2
# Fewer programs are migrated sooner than further processes would have started.
_FEWEST_FOR_PROCESSES = 12


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    rules: tuple[str, ...]
    target: str
    writes: bool
    shows_diff: bool
    lists_edits: bool
    output: str | None
    quiet: bool
    jobs: int | None


Result = Union[Outcome, Failure]


@dataclass(frozen=True)
class _File:
    """A file of the run: as the user named it, and where its migrated form goes."""

    name: str
    script: Path
    destination: Path
    is_named: bool


class Run:
    """Counts what became of the files; a bad one never stops the others."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.output = Path(options.output) if options.output is not None else None
        self.output_is_folder = options.output is not None and (
            options.output.endswith(os.sep) or Path(options.output).is_dir()
        )
        self.changed = self.refused = self.unchanged = self.failed = self.passed_over = 0

    def migrate(self, paths: Iterable[Path]) -> int:
        """Processes the files and folders; the exit code."""
        named = list(paths)
        files: dict[Path, _File] = {}
        for path in named:
            if str(path) == "-":
                self._stdin()
            else:
                self._collect(path, files, is_single=len(named) == 1)
        data = self._read(files)
        for outcomes in self._outcomes(programs(data, context_of(data))):
            for path, outcome in sorted(outcomes.items()):
                self._finish(files[path], outcome)
        return self._exit_code()

    def _exit_code(self) -> int:
        writes = self.options.writes
        counts = (self.changed, self.refused, self.unchanged, self.passed_over, self.failed)
        summary = text.summary(*counts, dry=not writes)
        if summary and not self.options.quiet:
            click.echo(summary, err=True)
        if self.failed:
            return ERROR
        return SOMETHING_LEFT if self.refused or (self.changed and not writes) else NOTHING_LEFT

    # -- reading -------------------------------------------------------------------------------------------------

    def _collect(self, path: Path, files: dict[Path, _File], *, is_single: bool) -> None:
        try:
            for script in scripts(path):
                destination = self._destination(script, path, is_single=is_single and not path.is_dir())
                file = _File(str(script), script, destination, is_named=not path.is_dir())
                files.setdefault(Path(os.path.abspath(script)), file)
        except NoSuchScript as error:
            self._fail(str(error))

    def _destination(self, script: Path, root: Path, *, is_single: bool) -> Path:
        if self.output is None:
            return script
        if is_single and not self.output_is_folder:
            return self.output
        return self.output / (script.relative_to(root) if root.is_dir() else script.name)

    def _read(self, files: Mapping[Path, _File]) -> dict[Path, bytes]:
        found: dict[Path, bytes] = {}
        owners: dict[Path, Path] = {}
        for path, file in files.items():
            other = owners.setdefault(file.destination, file.script)
            if other != file.script:
                taken = f"{file.name}: not written, since {other} goes to {file.destination} already"
                self._fail(f"{taken}: migrate them one by one")
                continue
            try:
                data = file.script.read_bytes()
            except OSError as error:
                self._fail(f"{file.name}: cannot be read: {error.strerror}")
                continue
            if not file.is_named and is_unit_test(path, data):
                self._pass_over(file, data)
            else:
                found[path] = data
        return found

    def _pass_over(self, file: _File, data: bytes) -> None:
        """Unit tests in a folder run on one device, whatever they call: they are left as they are."""
        if file.destination == file.script or self._write(file.destination, data, like=file.script):
            self.passed_over += 1

    # -- migrating -----------------------------------------------------------------------------------------------

    def _outcomes(self, found: list[Program]) -> Iterator[dict[Path, Result]]:
        """What came of each program, in their order; on several processes where there are enough of them."""
        heavy = sum(any(map(is_about_training, program.files.values())) for program in found)
        jobs = min(self.options.jobs or _cores(), heavy)
        if jobs < 2 or heavy < _FEWEST_FOR_PROCESSES:
            yield from (_migrated(program, self.options) for program in found)
            return
        with ProcessPoolExecutor(jobs) as pool:
            options = [self.options] * len(found)
            yield from pool.map(_migrated, found, options, chunksize=1 + len(found) // (jobs * 8))

    def _stdin(self) -> None:
        path = Path("<stdin>")
        (outcome,) = _migrated(Program({path: sys.stdin.buffer.read()}), self.options).values()
        if isinstance(outcome, Outcome):
            if self.options.writes and self.output is not None:
                destination = self.output / "stdin.py" if self.output_is_folder else self.output
                if not self._write(destination, outcome.data, like=destination):
                    return
            elif self.options.writes:
                sys.stdout.buffer.write(outcome.data)
        self._report("<stdin>", outcome)

    # -- writing -------------------------------------------------------------------------------------------------

    def _finish(self, file: _File, outcome: Result) -> None:
        if isinstance(outcome, Outcome) and self.options.writes:
            wanted = outcome.is_changed or file.destination != file.script
            if wanted and not self._write(file.destination, outcome.data, like=file.script):
                return
        self._report(file.name, outcome)

    def _write(self, path: Path, data: bytes, like: Path) -> bool:
        try:
            write_atomically(path, data, like=like)
        except OSError as error:
            self._fail(f"{path}: cannot be written: {error.strerror}")
            return False
        return True

    def _report(self, name: str, outcome: Result) -> None:
        if not isinstance(outcome, Outcome):
            self._fail(_failure(name, outcome))
            return
        if outcome.refusals:
            self.refused += 1
        elif not outcome.is_changed:
            self.unchanged += 1
        if outcome.is_changed:
            self.changed += 1
        if self.options.shows_diff and outcome.is_changed:
            for line in diff.unified(name, outcome.old_text, outcome.text):
                click.echo(line)
        for line in text.findings(name, outcome, with_edits=self.options.lists_edits):
            click.echo(line, err=name == "<stdin>" and self.options.writes)

    def _fail(self, message: str) -> None:
        self.failed += 1
        click.echo(text.error(message), err=True)


def _migrated(program: Program, options: Options) -> dict[Path, Result]:
    try:
        rules = [all_rules()[name] for name in options.rules]
        return dict(migrate_program(program, rules, target_named(options.target)))
    except Exception as error:
        # One program's defect must not stop the others; the message asks for a report.
        defect = Defect(f"{type(error).__name__}: {error}")
        return {path: defect for path in program.files if path not in program.context}


def _failure(name: str, failure: Failure) -> str:
    if isinstance(failure, Defect):
        return f"{name}: not migrated, by a defect of this tool ({failure}); please report it with the script"
    return f"{name}: {failure}" if failure.line is None else f"{name}:{failure}"


def _cores() -> int:
    """The cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
