"""What a launcher gives the workers that it starts: their settings, and that they end with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from lockstep.cluster import torchrun
from lockstep.cluster.environment import JOINED_FILE
from lockstep.launcher import place
from lockstep.launcher.machine import cores
from lockstep.launcher.tensorflow_logs import LEVEL

_PR_SET_PDEATHSIG = 1


def settings(workers: int, tf_logs: bool) -> dict[str, str]:
    """The environment of each of so many workers on this machine. What the user has set stays, except for the
    cluster itself. tf_logs: TensorFlow logs all it has to say."""
    environment = dict(os.environ)
    for inherited in ("TF_CONFIG", "LOCKSTEP_JOINED_PID", JOINED_FILE, *torchrun.VARIABLES, *place.VARIABLES):
        environment.pop(inherited, None)
    if tf_logs:
        environment[LEVEL] = "0"
    else:
        environment.setdefault(LEVEL, "1")
    environment["PYTHONUNBUFFERED"] = "1"
    if workers > 1:
        threads = str(max(1, cores() // workers))
        environment.setdefault("TF_NUM_INTRAOP_THREADS", threads)
        # One thread could not run anything while another op of the step waits.
        environment.setdefault("TF_NUM_INTEROP_THREADS", str(max(2, int(threads))))
        environment.setdefault("OMP_NUM_THREADS", threads)
        # Strings hash alike everywhere: `list(set(words))` has one order, and a vocabulary one numbering.
        environment.setdefault("PYTHONHASHSEED", "0")
    return environment


class DieWithParent:
    """Asks Linux, from within the worker, to kill it when the launcher is gone, however it went."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None

    def __call__(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._parent:  # gone before the request was made
            os._exit(1)


@contextlib.contextmanager
def handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    """Signals of these numbers go to handler, inside."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
