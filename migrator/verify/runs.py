"""Processes of one verification: started warm where that is possible, side by side where cores allow, ended in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Callable

from migrator.verify import warm
from migrator.verify.plan import Plan
from migrator.verify.record import Record

_PACKAGES = Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.1
# Of a cluster that this process may be running in, and of settings that would be another run's.
_NOT_INHERITED = (
    "TF_CONFIG",
    "HOROVOD_",
    "LOCKSTEP_",
    "OMPI_",
    "PMI_",
    "PMIX_",
    "SLURM_",
    "RANK_",
    "TF_USE_LEGACY_KERAS",
)
# The last lines of what a process has printed.
_LINES_TOLD = 40


class TimedOut(Exception):
    """Not all runs had ended in time; the message says which."""


@dataclass
class Job:
    """One run: a plan, the folder that it starts in, and as how many workers (None: one plain process)."""

    title: str
    plan: Plan
    working_directory: Path
    workers: int | None = None
    backend: str = "tensorflow"
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    seconds: float = 0.0
    records: list[Record] = field(default_factory=list)
    code: int = 0

    @property
    def weight(self) -> int:
        return self.workers or 1

    @property
    def log(self) -> Path:
        return Path(self.plan.folder) / "output.txt"

    def output(self) -> str:
        """What its processes have printed, at the end."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-_LINES_TOLD:])


Progress = Callable[[str], None]


class Runner:
    """Runs jobs until the deadline, on so many cores; `progress` is told what runs now."""

    def __init__(self, folder: Path, seconds: float, progress: Progress, is_warm: bool) -> None:
        self._folder = folder
        self.allow(seconds)
        self._progress = progress
        self._socket: Path | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._server_log: IO[bytes] | None = None
        if is_warm and warm.is_possible():
            self._socket = folder / "warm"
            self._server_log = (folder / "warm.txt").open("wb")
            self._server = subprocess.Popen(
                [sys.executable, "-m", "migrator.verify.warm", "--serve", str(self._socket)],
                cwd=folder,
                env=_environment(20),
                stdin=subprocess.PIPE,
                stdout=self._server_log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def allow(self, seconds: float) -> None:
        """Set the deadline anew, from now."""
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs and read their records. Raises TimedOut."""
        waiting = list(jobs)
        running: list[Job] = []
        self._await_server()
        try:
            while waiting or running:
                free = _cores() - sum(job.weight for job in running)
                while waiting and (waiting[0].weight <= free or not running):
                    job = waiting.pop(0)
                    self._start(job)
                    running.append(job)
                    free -= job.weight
                self._progress(", ".join(f"{j.title} ({time.monotonic() - j.started:.0f} s)" for j in running))
                for job in [job for job in running if job.process and job.process.poll() is not None]:
                    running.remove(job)
                    _finish(job)
                self._check_time(running)
                time.sleep(_POLL_SECONDS)
        finally:
            for job in running:
                _end(job)

    def _check_time(self, running: Sequence[Job]) -> None:
        if time.monotonic() > self._deadline:
            names = ", ".join(job.title for job in running) or "the import of TensorFlow"
            raise TimedOut(f"still running after {self._seconds:g} s: {names}; allow more with --timeout")

    def _start(self, job: Job) -> None:
        folder = Path(job.plan.folder)
        folder.mkdir(parents=True)
        job.plan.write(folder / "plan.json")
        module = ["migrator.verify.recorder"]
        if self._socket is not None:
            module = ["migrator.verify.warm", str(self._socket)]
        command = [sys.executable, "-m", *module, str(folder / "plan.json")]
        if job.workers is not None:
            launcher = [sys.executable, "-m", "lockstep", "run", "-n", str(job.workers), "--backend", job.backend]
            command = [*launcher, "--allow-unjoined", "-m", *command[2:]]
        with job.log.open("wb") as log:
            job.process = subprocess.Popen(
                command,
                cwd=job.working_directory,
                env=_environment(job.plan.seed),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        job.started = time.monotonic()

    def _await_server(self) -> None:
        while self._server is not None and self._socket is not None and not self._socket.exists():
            self._progress("TensorFlow is being imported")
            if self._server.poll() is not None:
                self._socket = self._server = None  # each process imports it by itself, and says what is wrong
                return
            self._check_time([])
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """End the server of warm starts."""
        if self._server is not None and self._server.stdin is not None:
            self._server.stdin.close()  # its signal to end
            try:
                self._server.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._server.kill()
        if self._server_log is not None:
            self._server_log.close()


@contextmanager
def runner(folder: Path, seconds: float, progress: Progress, is_warm: bool) -> Iterator[Runner]:
    found = Runner(folder, seconds, progress, is_warm)
    try:
        yield found
    finally:
        found.close()


def _finish(job: Job) -> None:
    assert job.process is not None
    job.seconds = time.monotonic() - job.started
    job.code = job.process.returncode
    folder = Path(job.plan.folder)
    paths = [folder / f"rank-{rank}.npz" for rank in range(job.weight)]
    job.records = [Record.load(path) for path in paths if path.exists()]


def _end(job: Job) -> None:
    """End a process with all that it started."""
    if job.process is None or job.process.poll() is not None:
        return
    job.process.send_signal(signal.SIGTERM)  # a launcher takes its workers along
    try:
        job.process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()


def _environment(seed: int) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)}
    path = os.pathsep.join([str(_PACKAGES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **inherited,
        "PYTHONPATH": path,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "LOCKSTEP_SEED": str(seed),
        "LOCKSTEP_CHECK": "0",  # what comes apart is compared, and told in more detail, here
        # All runs compute on the same device and with as many threads, in the same order.
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "2",
        "OMP_NUM_THREADS": "1",
    }


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
