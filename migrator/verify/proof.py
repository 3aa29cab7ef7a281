"""One verification from its start to its verdicts: scratch copies, migration, runs, comparison."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable

from migrator.verify.comparison import PRINTED, Comparison, Rounding, compare
from migrator.verify.plan import Plan
from migrator.verify.programs import Migration, migrate_in_place, place_of, startable, with_imported
from migrator.verify.record import ENDED, FAILED, Record
from migrator.verify.revision import Revision
from migrator.verify.runs import Job, Runner, runner
from migrator.verify.scratch import Mirror, mirror
from migrator.verify.verdict import SAME, Verdict, beyond_rounding, is_unclear, judge, not_training, unwidened, widened

_FLOAT32_EPSILON, _FLOAT64_EPSILON = 2.0**-23, 2.0**-52


class Unverifiable(Exception):
    """There is nothing to compare: the message says why, `output` what the processes printed."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class NotMigrated(Unverifiable):
    """The migration refuses something, and leaves all as it is."""


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    files: tuple[Path, ...]  # the first is the one that is started
    arguments: tuple[str, ...] = ()
    module: str | None = None  # started by this name, as python -m does
    original: Path | Revision | None = None  # what `files` are the port of; None: they are migrated
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
    wide: Comparison | None = None  # of the repetition in float64, where there was one


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
    not_wide: str = ""  # why the runs could not be repeated in float64

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
    with _scratch() as folder, runner(folder, settings.timeout, progress, settings.is_warm) as runs:
        return _Verification(settings, folder, runs, progress, OfOriginal()).prove()


@dataclass
class OfOriginal:
    """What the runs of an original left, for the proofs of further ports of it: empty until the first is made."""

    records: list[Record] = field(default_factory=list)  # of it, of its repetition, and of the one that was moved
    seconds: dict[str, float] = field(default_factory=dict)


def prove_again(settings: Settings, known: OfOriginal, runs: Runner) -> Proof:
    """As prove does, for one of many ports: what the runs of the same original left, under the same settings, is not
    made anew, and TensorFlow is not imported again."""
    runs.allow(settings.timeout)
    with _scratch() as folder:
        return _Verification(settings, folder, runs, lambda _: None, known).prove()


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="migrate-verify-") as folder:
        yield Path(os.path.realpath(folder))


class _Verification:
    def __init__(
        self, settings: Settings, folder: Path, runs: Runner, progress: Callable[[str], None], known: OfOriginal
    ) -> None:
        self._known = known
        self._settings = settings
        self._folder = folder
        self._runs = runs
        self._progress = progress
        self._here = Path.cwd()
        self._files = with_imported(settings.files)
        self._script = settings.files[0].absolute()
        of = settings.original or self._script
        self._original = of.script if isinstance(of, Revision) else of.absolute()
        self._trains_whole = False
        self._root = _root(self._here, self._script.parent, [*self._files, self._original])

    def prove(self) -> Proof:
        settings = self._settings
        self._progress("the script is being migrated")
        migration = self._migrate(self._mirror("migrated"))
        if not migration.is_complete:
            raise NotMigrated("not migrated, so there is nothing to compare:\n" + _refused(migration))
        self._trains_whole = migration.trains_whole
        known = self._known
        if not known.records:
            original = self._job("original", "original", patience_seconds=settings.patience)
            self._runs.run([original])
            known.records, known.seconds = [self._record_of(original)], {original.title: original.seconds}
        record = known.records[0]
        idle = not_training(record)
        if not record.steps:
            nothing = Rounding(record, record, record, _FLOAT32_EPSILON)
            return Proof(self._script.name, settings, migration, record, nothing, [], idle)
        recorded = max((i + 1 for i, step in enumerate(record.steps) if step.arrays), default=0)
        # What is printed is told from two runs that go as far.
        whole = {"most_updates": len(record.steps), "has_to_end": record.end == ENDED}
        repeated = []
        if len(known.records) == 1:
            again = self._job("original again", "again", **whole)
            moved = self._job("original, gradients moved by one ulp", "moved", is_perturbed=True, **whole)
            repeated = [again, moved]
        alone = self._job("migrated, 1 process", "alone", most_updates=recorded)
        several = [self._job(_title(size), f"on-{size}", size, **whole) for size in settings.sizes]
        self._runs.run([*repeated, alone, *several])
        known.records += [self._record_of(job) for job in repeated]
        known.seconds.update((job.title, job.seconds) for job in repeated)
        _, of_again, of_moved = known.records
        rounding = Rounding(record, of_again, of_moved, _FLOAT32_EPSILON)
        proof = Proof(self._script.name, settings, migration, record, rounding, not_training=idle)
        proof.seconds = {**known.seconds, **{job.title: job.seconds for job in (alone, *several)}}
        head = replace(record, steps=record.steps[:recorded])
        for job in (alone, *several):
            proof.compared.append(self._compared(job, head if job is alone else record, rounding))
        unclear = [one for one in proof.compared if is_unclear(one.verdict)]
        if unclear:
            of_lines = any(one.verdict.difference and one.verdict.difference.what == PRINTED for one in unclear)
            self._widen(proof, unclear, whole if of_lines else {"most_updates": recorded})
        return proof

    def _compared(self, job: Job, original: Record, rounding: Rounding) -> Compared:
        if len(job.records) < job.weight:
            raise Unverifiable(f"{job.title}: {job.weight - len(job.records)} left no record", job.output())
        for record in job.records:
            self._shorten(record, job.working_directory)
        comparison = compare(original, job.records, rounding, self._trains_whole and job.weight > 1)
        verdict = judge(original, comparison, job.records, rounding, self._settings.steps)
        return Compared(job.title, job.weight, comparison, verdict, job.records, job.seconds)

    def _widen(self, proof: Proof, unclear: Sequence[Compared], length: dict[str, Any]) -> None:
        """Repeat in float64 the runs that part by more than rounding explains at once: what rounding has done is gone
        then, what is wrong is not. length: how many steps they make."""
        options: dict[str, Any] = {**length, "is_wide": True}
        original = self._job("original, float64", "wide", **options)
        moved = self._job("original, float64, moved", "wide-moved", is_perturbed=True, **options)
        jobs = [
            self._job(f"{one.title}, float64", f"wide-{one.size}", one.size if one.size > 1 else None, **options)
            for one in unclear
        ]
        self._runs.run([original, moved, *jobs])
        for job in (original, moved, *jobs):
            proof.seconds[job.title] = job.seconds
            if len(job.records) < job.weight or job.records[0].end == FAILED:
                proof.not_wide = f"{job.title}: {job.records[0].error if job.records else 'no record'}"
                for one in unclear:
                    one.verdict = unwidened(one.verdict)
                return
            for record in job.records:
                self._shorten(record, job.working_directory)
        record = original.records[0]
        rounding = Rounding(record, record, moved.records[0], _FLOAT64_EPSILON, proof.rounding)
        for one, job in zip(unclear, jobs):
            one.wide = compare(record, job.records, rounding, self._trains_whole and one.size > 1)
            second = judge(record, one.wide, job.records, rounding, self._settings.steps)
            one.verdict = widened(one.verdict, one.comparison, second, one.wide)
            if one.verdict.kind == SAME:
                one.verdict = beyond_rounding(proof.original, one.comparison, one.records) or one.verdict

    def _record_of(self, job: Job) -> Record:
        """The record of the original. Raises Unverifiable where it failed."""
        if not job.records or job.records[0].end == FAILED:
            raise Unverifiable("the original fails by itself", job.output())
        self._shorten(job.records[0], job.working_directory)
        return job.records[0]

    def _shorten(self, record: Record, copy: Path) -> None:
        """Lines by the names that the user knows: from the folder in which the command was given."""

        def short(place: str) -> str:
            file, _, line = place.rpartition(":")
            return os.path.relpath(place_of(file, line), copy) if file else ""

        for step in record.steps:
            step.line = short(step.line)
        for optimizer in record.optimizers:
            optimizer.line = short(optimizer.line)
        record.failed_at = short(record.failed_at)
        record.orders = [[seed, short(place)] for seed, place in record.orders]
        record.shuffles = [[seed, short(place), size] for seed, place, size in record.shuffles]
        record.printed = [[step, short(place), text] for step, place, text in record.printed]
        record.files = [[path, short(place)] for path, place in record.files]

    def _migrate(self, copy: Mirror) -> Migration:
        if self._settings.original is not None:
            return Migration()
        return migrate_in_place([copy.of(path) for path in self._files], copy.copy)

    def _mirror(self, name: str) -> Mirror:
        return mirror(self._root, self._folder / name / "files")

    def _job(self, title: str, folder: str, workers: int | None = None, **options: Any) -> Job:
        """A run in a scratch copy of its own; of the migrated script where the title says so."""
        settings, is_migrated = self._settings, title.startswith("migrated")
        copy = self._mirror(folder)
        module = settings.module
        if is_migrated:
            self._migrate(copy)
        elif isinstance(settings.original, Revision):
            settings.original.check_out(copy)
        elif settings.original is not None:
            module = None
        plan = Plan(
            is_module=module is not None,
            script=module or str(startable(copy.of(self._script if is_migrated else self._original))),
            arguments=list(settings.arguments),
            folder=str(copy.copy.parent / "record"),
            root=str(copy.copy),
            user_root=str(copy.original),
            seed=settings.seed,
            steps=settings.steps,
            as_is=settings.as_is,
            local_batch_norm=settings.local_batch_norm,
            **options,
        )
        return Job(title, plan, copy.of(self._here), workers, settings.backend)


def _title(size: int) -> str:
    return f"migrated, {size} workers"


def _root(here: Path, home: Path, files: Sequence[Path]) -> Path:
    """The folder that holds the current one and all files, of which copies are made.

    Raises Unverifiable where that is one that the script has no part in: nobody wants copies of all that is in it.
    """
    root = Path(os.path.commonpath([here, *(path.parent for path in files)]))
    if root not in (here, home) and _is_of_many(root):
        raise Unverifiable(
            f"the current folder and {home} have only {root} in common, all of which would be copied: run this in "
            f"{home}, or in a folder above it"
        )
    return root


def _is_of_many(folder: Path) -> bool:
    """Whether it holds all there is, the homes of users or what is temporary, or all that is one user's."""
    return folder == Path.home() or folder.parent in (folder, Path(folder.anchor))


def _refused(migration: Migration) -> str:
    lines = [f"{name}:{f.line}:{f.column}: {f.rule}: {f.message}" for name, f in migration.refusals]
    lines += [f"{name}: {failure}" for name, failure in migration.failures]
    return "\n".join(lines)
