"""Leaving together, and leaving loudly.

A rank that ends while another is still inside its last collective breaks it, so ranks wait for each other
at exit. A rank that fails does not wait, but ends at once, so that its peers notice.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import time
from types import TracebackType
from typing import Any

from lockstep._agreement import exchange
from lockstep._errors import LostWorkerError
from lockstep._world import backend

# The chief may still evaluate and save for minutes; it does not need the others for that.
_WAIT_SECONDS = 30.0
# How long a failed process may take for its own cleaning up.
_FAILED_SECONDS = 5.0
# The chief hosts the service that the others talk to until their process is gone.
_LINGER_SECONDS = 0.5
# By this the launcher knows that another worker failed first.
LAUNCHER_MARK = "a collective call with the other workers failed"
_TENSORFLOW_LOSSES = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")
_failed = False


def install() -> None:
    """Take part in how this process ends."""
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        global _failed
        _failed = True
        previous(kind, error, trace)
        _report(error)
        # Threads of the script that nobody ends would keep the process, and with it the peers, waiting.
        timer = threading.Timer(_FAILED_SECONDS, _end_failed)
        timer.daemon = True
        timer.start()

    sys.excepthook = excepthook
    # Registered before anything of the script's own, hence run after it.
    atexit.register(_leave, os.getpid())


def _report(error: BaseException) -> None:
    here = f"lockstep: rank {backend().rank} of {backend().size}"
    if is_loss_of_peer(error):
        text = f"{here} ended because {LAUNCHER_MARK}; the first worker that ended says why"
    else:
        text = f"{here} ended by {type(error).__name__}"
    print(text, file=sys.stderr, flush=True)


def is_loss_of_peer(error: BaseException) -> bool:
    """Whether an error tells that another worker is gone, rather than what went wrong first."""
    return isinstance(error, LostWorkerError) or type(error).__name__ in _TENSORFLOW_LOSSES


def _leave(process: int) -> None:
    if os.getpid() != process:  # a fork
        return
    if _failed:
        backend().abandon()
        logging.shutdown()
        _end_failed()
    # The work is done; a peer that failed, or that has waited long enough, is none of this rank's business.
    with contextlib.suppress(Exception), backend().patience(_WAIT_SECONDS):
        exchange(b"leaving")
    backend().abandon()
    if backend().rank == 0:
        time.sleep(_LINGER_SECONDS)


def _end_failed() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's own way out would wait for servers that wait for the peers.
    os._exit(1)
