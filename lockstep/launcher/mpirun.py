"""Starts the workers of one machine through the mpiexec of an MPI, which alone can connect them.

Which MPI that is, and how it would show what its ranks print, makes no difference: each rank opens two pipes that
the launcher has made for it, before it becomes the script (`lockstep.cluster.mpi_rank`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Callable

from lockstep._errors import JoinError
from lockstep.cluster import mpi_rank
from lockstep.launcher.child import DieWithParent, settings
from lockstep.launcher.interruptions import POLL_SECONDS, Interruptions, noted, wait_for_end
from lockstep.launcher.joined import Joining, watched
from lockstep.launcher.launch import Job
from lockstep.launcher.screen import Screen
from lockstep.launcher.tensorflow_logs import are_hidden, hidden_levels
from lockstep.launcher.worker_output import WorkerOutput

_TERMINATE_SECONDS = 5.0
# From the end of a rank to that of its job, which is mpiexec's to bring about.
_LAGGING_SECONDS = 15.0


def launch(job: Job) -> int:
    """Run the job's command as so many ranks of one MPI job; returns the exit code: 0, that of the rank that ended
    first, or the one of mpiexec.

    Raises JoinError when there is no mpiexec.
    """
    mpiexec = _mpiexec()
    screen = Screen()
    with noted() as came:
        for restarts in range(job.max_restarts + 1):
            if restarts:
                screen.tell(f"lockstep: all workers start anew, restart {restarts}")
            with watched(job.workers, job.allow_unjoined, job.command) as joining:
                code = _attempt(mpiexec, job, restarts, screen, joining, came)
                if not code:
                    return 1 if joining.tell_missed(screen) else 0
            if came.first():
                return 128 + came.first()
            if screen.trouble():
                screen.tell(f"lockstep: cannot write to {screen.trouble()}, so all were ended")
                return 1
    return code if code >= 0 else 128 - code


def _attempt(
    mpiexec: Sequence[str], job: Job, restarts: int, screen: Screen, joining: Joining, came: Interruptions
) -> int:
    """Start the ranks once and wait for their end."""
    hidden = functools.partial(hidden_levels, are_hidden(job.tf_logs), joining.has_joined)
    with _outputs(job, screen, hidden) as (folder, outputs), tempfile.TemporaryFile() as complaints:
        environment = {**settings(job.workers, job.tf_logs), **joining.setting, mpi_rank.PIPES: folder}
        process = subprocess.Popen(
            [*mpiexec, "-n", str(job.workers), sys.executable, mpi_rank.__file__, *job.command],
            env={**environment, "LOCKSTEP_BACKEND": "mpi", "LOCKSTEP_RESTARTS": str(restarts)},
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=DieWithParent(os.getpid()),
        )
        try:
            while process.poll() is None and not came.first() and not screen.trouble():
                if mpi_rank.seconds_since_exit(folder) > _LAGGING_SECONDS:
                    break  # mpiexec has missed it, and would wait for the other ranks
                joining.tell_late(screen)
                time.sleep(POLL_SECONDS)
            if process.poll() is None and came.first():
                mpi_rank.interrupt(folder, came.first())
                wait_for_end(lambda: process.poll() is None and mpi_rank.are_running(folder), job.grace, screen, came)
        finally:
            _end(process)
        for output in outputs:
            output.finish()
        states = [mpi_rank.state(folder, str(rank)) for rank in range(job.workers)]
        told = mpi_rank.exit_code(folder)
        complaints.seek(0)
        said = complaints.read().decode(errors="replace")
    late = [str(rank) for rank, state in enumerate(states) if not state] if mpi_rank.COMING in states else []
    code = process.returncode if told is None else told
    if late and code:
        code = 1  # mpiexec tells that of a rank which waited, or of one that it killed for that
    if code and not came.first() and not screen.trouble():
        if late:  # for them the others waited in the start of MPI, which itself does not say
            screen.tell(
                f"lockstep: the others waited for rank {', '.join(late)}, which did not come to `import lockstep`. "
                "LOCKSTEP_JOIN_SECONDS sets the limit."
            )
        _tell_first_failure(outputs, code, said, screen)
    else:
        for output in outputs:
            output.show_held()
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
def _outputs(job: Job, screen: Screen, hidden: Callable[[], str]) -> Iterator[tuple[str, list[WorkerOutput]]]:
    """A folder with two named pipes for each rank, and what reads them."""
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        outputs = []
        for rank in range(job.workers):
            pipes = [Path(folder, f"{stream}.{rank}") for stream in ("stdout", "stderr")]
            for pipe in pipes:
                os.mkfifo(pipe)
            output = WorkerOutput(rank, job.all_output or rank == 0, screen, hidden)
            # Opening one waits for the other end, which is why the readers do it.
            output.read(*(functools.partial(pipe.open, "rb", buffering=0) for pipe in pipes))
            outputs.append(output)
        try:
            yield folder, outputs
        finally:
            for pipe in Path(folder).iterdir():  # a rank that never started leaves its readers waiting
                with contextlib.suppress(OSError):
                    os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no rank behind."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERMINATE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tell_first_failure(outputs: Sequence[WorkerOutput], code: int, complaints: str, screen: Screen) -> None:
    """What the rank that failed first has said, else what mpiexec has."""
    failed = [output for output in outputs if output.says_why()]
    causes = [output for output in failed if not output.only_followed()] or failed
    first = min(causes, key=lambda output: output.ended) if causes else None
    if first is not None:
        complaints = first.untold_words(f"exit code {code}")
    else:
        complaints += f"lockstep: the job ended with exit code {code}"
    for output in outputs:
        output.show_held(first)
    screen.tell(complaints)
