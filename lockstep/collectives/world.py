"""The one place that knows which backend this process has joined."""

from __future__ import annotations

import contextlib
import os
import sys

from lockstep.backends import Backend, join
from lockstep.backends.single import SingleProcess


def _is_launcher() -> bool:
    """Whether this is the command `lockstep`, which starts workers and is none, whatever TF_CONFIG says."""
    if os.path.basename(sys.argv[0]) == "lockstep":
        return True
    # While Python looks for the module that -m names, this stands for the script.
    arguments = _command_line() if sys.argv[0] == "-m" else []
    return "-m" in arguments and arguments[arguments.index("-m") + 1 :][:1] == ["lockstep"]


def _command_line() -> list[str]:
    if sys.version_info >= (3, 10):
        return sys.orig_argv
    with contextlib.suppress(OSError), open("/proc/self/cmdline") as file:
        return file.read().split("\0")
    return []


_backend: Backend = SingleProcess() if _is_launcher() else join()


def backend() -> Backend:
    """The backend that was joined when lockstep was imported."""
    return _backend


def check_root(root_rank: int) -> None:
    """Raises ValueError unless root_rank is the rank of a worker."""
    if not 0 <= root_rank < _backend.size:
        raise ValueError(f"root_rank must be a rank from 0 to {_backend.size - 1}, not {root_rank}")
