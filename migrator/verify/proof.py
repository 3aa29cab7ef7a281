"""One verification from its start to its verdicts: scratch copies, migration, runs, comparison."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from migrator.verify.comparison import Comparison, Rounding, compare
from migrator.verify.plan import Plan
from migrator.verify.programs import Migration, migrate_in_place, with_imported
from migrator.verify.record import ENDED, FAILED, Record
from migrator.verify.runs import Job, Runner, runner
from migrator.verify.scratch import Mirror, mirror
from migrator.verify.verdict import Verdict, judge, not_training

_FLOAT32_EPSILON = 2.0**-23


class Unverifiable(Exception):
    """There is nothing to compare: the message says why, `output` what the processes printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    files: tuple[Path, ...]  # the first is the one that is started
    arguments: tuple[str, ...] = ()
    original: Path | None = None  # what `files` are the port of; None: they are migrated
    sizes: tuple[int, ...] = (2,)
    steps: int = 20
    backend: str = "tensorflow"
    seed: int = 20
    as_is: bool = False
    local_batch_norm: bool = False
    timeout: float = 900.0
    patience: float = 10.0
    is_warm: bool = True


@dataclass
class Compared:
    """A run of the migrated script on so many processes, and what came of comparing it."""

    title: str
    size: int
    comparison: Comparison
    verdict: Verdict
    records: list[Record]
    seconds: float


@dataclass
class Proof:
    script: str
    settings: Settings
    migration: Migration
    original: Record
    rounding: Rounding
    compared: list[Compared] = field(default_factory=list)
    not_training: Verdict | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the whole: the first that is not SAME."""
        if self.not_training is not None:
            return self.not_training
        return next((c.verdict for c in self.compared if c.verdict.kind != "SAME"), self.compared[-1].verdict)


def prove(settings: Settings, progress: Callable[[str], None]) -> Proof:
    """Run all that is to be compared, in scratch folders that are gone afterwards.

    Raises Unverifiable where the original fails by itself or cannot be migrated, runs.TimedOut.
    """
    with ExitStack() as stack:
        folder = Path(os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="migrate-verify-"))))
        runs = stack.enter_context(runner(folder, settings.timeout, progress, settings.is_warm))
        return _Verification(settings, folder, runs, progress).prove()


class _Verification:
    def __init__(self, settings: Settings, folder: Path, runs: Runner, progress: Callable[[str], None]) -> None:
        self._settings = settings
        self._folder = folder
        self._runs = runs
        self._progress = progress
        self._here = Path.cwd()
        self._files = with_imported(settings.files)
        self._script = settings.files[0].absolute()
        self._original = (settings.original or self._script).absolute()
        self._root = _root(self._here, [*self._files, self._original])

    def prove(self) -> Proof:
        settings = self._settings
        migrated = self._mirror("migrated")
        self._progress("the script is being migrated")
        migration = self._migrate(migrated)
        if not migration.is_complete:
            raise Unverifiable("not migrated, so there is nothing to compare:\n" + _refused(migration))
        original = self._job("original", self._mirror("original"), patience_seconds=settings.patience)
        self._runs.run([original])
        record = self._record_of(original)
        if not record.steps:
            verdict = not_training(record)
            return Proof(
                self._script.name, settings, migration, record, Rounding(record, [], _FLOAT32_EPSILON), [], verdict
            )
        recorded = max((i + 1 for i, step in enumerate(record.steps) if step.arrays), default=0)
        again = self._job("original again", self._mirror("again"), most_updates=recorded)
        moved = self._job(
            "original, gradients moved by one ulp", self._mirror("moved"), most_updates=recorded, is_perturbed=True
        )
        alone = self._job("migrated, 1 process", migrated, most_updates=recorded)
        several = []
        for size in settings.sizes:
            copy = self._mirror(f"on-{size}")
            self._migrate(copy)
            several.append(
                self._job(
                    f"migrated, {size} workers",
                    copy,
                    size,
                    most_updates=len(record.steps),
                    has_to_end=record.end == ENDED,
                )
            )
        self._runs.run([again, moved, alone, *several])
        repetitions = [self._record_of(again), self._record_of(moved)]
        rounding = Rounding(record, repetitions, _FLOAT32_EPSILON)
        proof = Proof(self._script.name, settings, migration, record, rounding, not_training=not_training(record))
        proof.seconds = {job.title: job.seconds for job in (original, again, moved, alone, *several)}
        head = replace(record, steps=record.steps[:recorded])
        for job in (alone, *several):
            proof.compared.append(self._compared(job, head if job is alone else record, rounding))
        return proof

    def _compared(self, job: Job, original: Record, rounding: Rounding) -> Compared:
        if len(job.records) < job.weight:
            raise Unverifiable(f"{job.title}: {job.weight - len(job.records)} left no record", job.output())
        for record in job.records:
            self._shorten(record, job.working_directory)
        comparison = compare(original, job.records, rounding)
        verdict = judge(original, comparison, job.records, rounding, self._settings.steps)
        return Compared(job.title, job.weight, comparison, verdict, job.records, job.seconds)

    def _record_of(self, job: Job) -> Record:
        """The record of the original. Raises Unverifiable where it failed."""
        if not job.records or job.records[0].end == FAILED:
            raise Unverifiable("the original fails by itself", job.output())
        self._shorten(job.records[0], job.working_directory)
        return job.records[0]

    def _shorten(self, record: Record, copy: Path) -> None:
        """Lines by the names that the user knows: from the folder in which the command was given."""
        for step in record.steps:
            file, _, line = step.line.rpartition(":")
            if file:
                step.line = f"{os.path.relpath(file, copy)}:{line}"

    def _migrate(self, copy: Mirror) -> Migration:
        if self._settings.original is not None:
            return Migration()
        return migrate_in_place([copy.of(path) for path in self._files], copy.copy)

    def _mirror(self, name: str) -> Mirror:
        return mirror(self._root, self._folder / name / "files")

    def _job(self, title: str, copy: Mirror, workers: int | None = None, **options: Any) -> Job:
        settings = self._settings
        plan = Plan(
            script=str(copy.of(self._original if title.startswith("original") else self._script)),
            arguments=list(settings.arguments),
            folder=str(copy.copy.parent / "record"),
            root=str(copy.copy),
            seed=settings.seed,
            steps=settings.steps,
            as_is=settings.as_is,
            local_batch_norm=settings.local_batch_norm,
            **options,
        )
        return Job(title, plan, copy.of(self._here), workers, settings.backend)


def _root(here: Path, files: Sequence[Path]) -> Path:
    """The folder that holds the current one and all files."""
    return Path(os.path.commonpath([here, *(path.parent for path in files)]))


def _refused(migration: Migration) -> str:
    lines = [f"{name}:{f.line}:{f.column}: {f.rule}: {f.message}" for name, f in migration.refusals]
    lines += [f"{name}: {failure}" for name, failure in migration.failures]
    return "\n".join(lines)
