"""Starts the workers of one machine through the mpiexec of an MPI, which alone can connect them.

Which MPI that is, and how it would show what its ranks print, makes no difference: each rank opens two pipes that
the launcher has made for it, before it becomes the script (`lockstep._mpi_rank`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from lockstep import _mpi_rank
from lockstep._child import DieWithParent, handling, settings
from lockstep._errors import JoinError
from lockstep._launch import Job
from lockstep._worker_output import WorkerOutput

_TERMINATE_SECONDS = 5.0


def launch(job: Job) -> int:
    """Run the job's command as so many ranks of one MPI job; returns the exit code: 0, that of the rank that ended
    first, or the one of mpiexec.

    Raises JoinError when there is no mpiexec.
    """
    mpiexec = _mpiexec()
    interrupted: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        for process in started:
            process.terminate()

    with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), interrupt):
        for restarts in range(job.max_restarts + 1):
            if restarts:
                print(f"lockstep: all workers start anew, restart {restarts}", file=sys.stderr, flush=True)
            code = _attempt(mpiexec, job, restarts, started, interrupted)
            if not code or interrupted:
                break
    return 128 + interrupted[0] if interrupted else code if code >= 0 else 128 - code


def _attempt(
    mpiexec: Sequence[str], job: Job, restarts: int, started: list[subprocess.Popen[bytes]], interrupted: Sequence[int]
) -> int:
    """Start the ranks once and wait for their end; the process of mpiexec is appended to `started`."""
    with _outputs(job.workers, job.all_output) as (folder, outputs):
        environment = {**settings(job.workers), "LOCKSTEP_BACKEND": "mpi", "LOCKSTEP_RESTARTS": str(restarts)}
        process = subprocess.Popen(
            [*mpiexec, "-n", str(job.workers), sys.executable, _mpi_rank.__file__, *job.command],
            env={**environment, _mpi_rank.PIPES: folder},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=DieWithParent(os.getpid()),
        )
        started.append(process)
        if interrupted:
            process.terminate()
        try:
            complaints, _ = process.communicate()
        finally:
            _end(process)
        for output in outputs:
            output.finish()
        states = [_mpi_rank.state(folder, str(rank)) for rank in range(job.workers)]
        told = _mpi_rank.exit_code(folder)
    code = process.returncode if told is None else told
    if code and not interrupted:
        sys.stdout.flush()
        _tell_late_ranks(states)
        _show_first_failure(outputs, code, complaints)
    return code


def command() -> str | None:
    """The mpiexec of the environment of this Python, else that of PATH; None where there is none."""
    beside = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    return shutil.which("mpiexec", path=beside) or shutil.which("mpirun", path=beside)


def _mpiexec() -> list[str]:
    """The command that starts ranks."""
    found = command()
    if found is None:
        raise JoinError("--backend mpi: there is no mpiexec. `pip install mpi4py mpich` brings one.")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout
    if "open mpi" not in version.lower() and "open-mpi" not in version.lower():
        return [found]
    # It would bind each rank to one core, and count cores before it starts more ranks than there are.
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [found, *as_root, "--oversubscribe", "--bind-to", "none"]


@contextlib.contextmanager
def _outputs(workers: int, all_output: bool) -> Iterator[tuple[str, list[WorkerOutput]]]:
    """A folder with two named pipes for each rank, and what reads them."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        lock = threading.Lock()
        outputs = []
        for rank in range(workers):
            pipes = [Path(folder, f"{stream}.{rank}") for stream in ("stdout", "stderr")]
            for pipe in pipes:
                os.mkfifo(pipe)
            output = WorkerOutput(rank, shown=all_output or rank == 0, lock=lock)
            output.read(*(_Pipe(pipe) for pipe in pipes))
            outputs.append(output)
        try:
            yield folder, outputs
        finally:
            for pipe in Path(folder).iterdir():  # a rank that never started leaves its readers waiting
                with contextlib.suppress(OSError):
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


class _Pipe:
    """The lines of a named pipe; it is opened when they are asked for, since that waits for the other end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        with contextlib.suppress(FileNotFoundError), self._path.open("rb") as lines:
            yield from lines


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no rank behind."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tell_late_ranks(states: Sequence[str]) -> None:
    """Name those for whom the others waited in the start of MPI, which itself does not say."""
    late = [str(rank) for rank, state in enumerate(states) if not state]
    if late and _mpi_rank.COMING in states:
        print(
            f"lockstep: the others waited for rank {', '.join(late)}, which did not come to `import lockstep`. "
            "LOCKSTEP_JOIN_SECONDS sets the limit.",
            file=sys.stderr,
        )


def _show_first_failure(outputs: Sequence[WorkerOutput], code: int, complaints: bytes) -> None:
    """What the rank that failed first has said, else what mpiexec has."""
    failed = [output for output in outputs if output.says_why()]
    first = [output for output in failed if not output.only_followed()] or failed
    if first:
        min(first, key=lambda output: output.ended).show_failure(f"exit code {code}")
    else:
        sys.stderr.buffer.write(complaints)
        print(f"lockstep: the job ended with exit code {code}", file=sys.stderr)
