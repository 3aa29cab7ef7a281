"""The one place that knows which backend this process has joined."""

from __future__ import annotations

import os
import sys

from lockstep.backends import Backend, join
from lockstep.backends.single import SingleProcess


def _is_launcher() -> bool:
    """Whether this is the command `lockstep`, which starts workers and is none, whatever TF_CONFIG says."""
    arguments = getattr(sys, "orig_argv", sys.argv)
    return os.path.basename(sys.argv[0]) == "lockstep" or arguments[1:3] == ["-m", "lockstep"]


_backend: Backend = SingleProcess() if _is_launcher() else join()


def backend() -> Backend:
    """The backend that was joined when lockstep was imported."""
    return _backend
