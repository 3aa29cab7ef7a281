"""Leaving together, and leaving loudly.

A rank that ends while another is still inside its last collective breaks it, so ranks wait for each other
at exit. A rank that fails does not wait, but ends at once, so that its peers notice.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from types import TracebackType
from typing import Any

from lockstep._agreement import exchange
from lockstep._world import backend

# The chief hosts the service that the others talk to until their process is gone.
_LINGER_SECONDS = 0.5
_failed = False


def install() -> None:
    """Take part in how this process ends."""
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        global _failed
        _failed = True
        previous(kind, error, trace)
        _report(error)

    sys.excepthook = excepthook
    # Registered before anything of the script's own, hence run after it.
    atexit.register(_leave)


def _report(error: BaseException) -> None:
    here = f"lockstep: rank {backend().rank} of {backend().size}"
    if is_loss_of_peer(error):
        text = f"{here} ended because a collective call with the other workers failed; the first worker that ended says why"
    else:
        text = f"{here} ended by {type(error).__name__}"
    print(text, file=sys.stderr, flush=True)


def is_loss_of_peer(error: BaseException) -> bool:
    """Whether an error tells that another worker is gone, rather than what went wrong first."""
    name = type(error).__name__
    return name in (
        "LostWorkerError",
        "UnavailableError",
        "AbortedError",
        "CancelledError",
        "DeadlineExceededError",
    )


def _leave() -> None:
    if _failed:
        backend().abandon()
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        # The interpreter's own way out would wait for threads and servers that wait for the peers.
        os._exit(1)
    try:
        exchange(b"leaving")
    except Exception as error:  # the work is done; a peer that failed reports that itself
        print(f"lockstep: rank {backend().rank} left alone: {error}", file=sys.stderr, flush=True)
    backend().abandon()
    if backend().rank == 0:
        time.sleep(_LINGER_SECONDS)
