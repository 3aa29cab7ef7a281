"""What mpiexec starts for each rank of `lockstep run --backend mpi`: it starts the script, and tells how that ends.

mpiexec itself ends all ranks as soon as one is gone, without a word about which one, and some take a rank that
leaves with 0 in the middle of the job for success. So this process ends a moment after the script, once the others
could say what they saw, with the script's exit code.

Run by its path, not as a module: importing the package would join the job, which only the script may. Its folder is
the first on its path then, so none of the modules beside it may be called as one of Python's own.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import signal
import sys
import time
from types import FrameType

PIPES = "LOCKSTEP_PIPES"
# What the script has come to, in a file beside the pipes.
COMING, JOINED, LEFT = "coming", "joined", "left"
_CODE, _INTERRUPTED = "exit-code", "interrupted"
_RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_PR_SET_PDEATHSIG = 1
# For the others to notice. They in turn wait longer than this before they end the job themselves.
_GRACE_SECONDS = 1.0
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    folder, rank = os.environ[PIPES], _rank()
    _die_with_parent()
    for number, stream in ((1, "stdout"), (2, "stderr")):
        pipe = os.open(os.path.join(folder, f"{stream}.{rank}"), os.O_WRONLY)
        os.dup2(pipe, number)
        os.close(pipe)
    itself = os.getpid()
    script = os.fork()
    if script == 0:
        _die_with_parent()
        if os.getppid() != itself:
            os._exit(1)
        os.execv(sys.argv[1], sys.argv[1:])
    passed_on = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        passed_on.append(number)
        os.kill(script, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    _note_process(folder, rank, itself)
    status = os.waitpid(script, 0)[1]
    if os.path.exists(os.path.join(folder, _INTERRUPTED)):
        for number in _PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        _note_process(folder, rank, 0)
        # The other scripts have time to end too, which mpiexec would not give them; it ends this process then.
        while True:
            signal.pause()
    killed_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if killed_by in passed_on:  # mpiexec ends all ranks
        sys.exit(128 + killed_by)
    sys.exit(_outlive(rank, killed_by, os.WEXITSTATUS(status)))


def _outlive(rank: str, killed_by: int, code: int) -> int:
    """Say what the script could not, and give the others time; returns the exit code."""
    its_state = state(os.environ[PIPES], rank)
    left_early = its_state == JOINED
    if killed_by == 0 and not left_early:
        if code and its_state != LEFT:
            note_exit_code(code)
        return code
    # When it is mpiexec that ends all ranks, this process does not get further than here.
    time.sleep(_GRACE_SECONDS / 5)
    how = f"was killed by {signal.Signals(killed_by).name}" if killed_by else f"left early, with exit code {code}"
    print(f"lockstep: rank {rank} {how}", file=sys.stderr, flush=True)
    code = 128 + killed_by if killed_by else code or 1
    note_exit_code(code)
    time.sleep(_GRACE_SECONDS)
    return code


def interrupt(folder: str, number: int) -> None:
    """On the launcher's side: send a signal to the scripts, each of which has time then to end by itself."""
    with open(os.path.join(folder, _INTERRUPTED), "w"):
        pass
    for process in _processes(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def are_running(folder: str) -> bool:
    """After `interrupt`: whether any script has not ended yet."""
    return bool(_processes(folder))


def _processes(folder: str) -> list[int]:
    """The processes of this module whose scripts run."""
    found = []
    for path in glob.glob(os.path.join(folder, "process.*[0-9]")):
        with contextlib.suppress(OSError, ValueError), open(path) as file:
            found.append(int(file.read()))
    return [process for process in found if process]


def _note_process(folder: str, rank: str, process: int) -> None:
    path = os.path.join(folder, f"process.{rank}")
    with open(f"{path}.new", "w") as file:
        file.write(str(process))
    os.replace(f"{path}.new", path)


def note_exit_code(code: int) -> None:
    """Tell the launcher, if there is one, the job's exit code; the first that is told counts."""
    if PIPES in os.environ:
        with contextlib.suppress(OSError), open(os.path.join(os.environ[PIPES], _CODE), "x") as file:
            file.write(str(code))


def exit_code(folder: str) -> int | None:
    """What was noted; None if nothing was. That of mpiexec may be several ranks' in one."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, _CODE)) as file:
        return int(file.read())
    return None


def seconds_since_exit(folder: str) -> float:
    """How long ago the exit code was noted, with which the job should have ended; 0 if none was."""
    with contextlib.suppress(OSError):
        return time.time() - os.path.getmtime(os.path.join(folder, _CODE))
    return 0.0


def note(its_state: str) -> None:
    """Tell the launcher, if there is one, what this rank has come to."""
    if PIPES in os.environ:
        with contextlib.suppress(OSError), open(_state_file(os.environ[PIPES], _rank()), "w") as file:
            file.write(its_state)


def state(folder: str, rank: str) -> str:
    """What a rank has noted last; "" before it has begun to join."""
    with contextlib.suppress(OSError), open(_state_file(folder, rank)) as file:
        return file.read()
    return ""


def _state_file(folder: str, rank: str) -> str:
    return os.path.join(folder, f"state.{rank}")


def _rank() -> str:
    return next(os.environ[name] for name in _RANK_NAMES if name in os.environ)


def _die_with_parent() -> None:
    """Mpiexec's end, however it comes, ends this process, and this process's end the script."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
