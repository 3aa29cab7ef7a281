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

from lockstep._errors import LostWorkerError
from lockstep.collectives.agreement import exchange
from lockstep.collectives.world import backend
from lockstep.peers import news
from lockstep.peers.call_names import named
from lockstep.peers.whereabouts import END_OF_SCRIPT
from lockstep.script import lines

# The chief may still evaluate and save for minutes; it does not need the others for that.
_WAIT_SECONDS = 30.0
# How long a failed process may take for its own cleaning up.
_FAILED_SECONDS = 5.0
# The chief hosts the service that the others talk to until their process is gone.
_LINGER_SECONDS = 0.5
# The reason may become known a little after the failure.
_NEWS_SECONDS = 4.0
_LONGEST_QUOTE = 400
_TENSORFLOW_LOSSES = ("UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError")
# What Horovod says in errors of other classes, whatever it was that ended the job.
_OF_HOROVOD = ("Horovod has been shut down", "Horovod has not been initialized", "/gloo/transport/")
_failed = False


def install() -> None:
    """Take part in how this process ends."""
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> Any:
        global _failed
        _failed = True
        previous(kind, error, trace)
        _report(error, lines.of_traceback(trace))
        # Threads of the script that nobody ends would keep the process, and with it the peers, waiting.
        timer = threading.Timer(_FAILED_SECONDS, _end_failed)
        timer.daemon = True
        timer.start()

    sys.excepthook = excepthook
    # Registered before anything of the script's own, hence run after it.
    atexit.register(_leave, os.getpid())


def _report(error: BaseException, line: str) -> None:
    here = f"rank {backend().rank} of {backend().size}"
    at = f" at {line}" if line else ""
    if is_loss_of_peer(error):
        told = news.wait_for_news(_NEWS_SECONDS)
        text = f"{here} ended{at} because {news.FOLLOWED}: {told.text if told else 'the first that ended says why'}"
    else:
        text = f"{here} ended by {type(error).__name__}{at}"
        told = news.wait_for_news(_NEWS_SECONDS) if _is_of_horovod(error) else None
        if told is not None:
            text += f": {told.text}"
        news.tell_failure(f"{text}: {str(error)[:_LONGEST_QUOTE]}")
    print(f"lockstep: {text}", file=sys.stderr, flush=True)


def is_loss_of_peer(error: BaseException) -> bool:
    """Whether an error tells that another worker is gone, rather than what went wrong first."""
    if isinstance(error, LostWorkerError):
        return True
    if type(error).__name__ not in _TENSORFLOW_LOSSES and not _is_of_horovod(error):
        return False
    told = news.wait_for_news(_NEWS_SECONDS)
    return told is None or told.peer_lost


def _is_of_horovod(error: BaseException) -> bool:
    return any(text in str(error) for text in _OF_HOROVOD)


def _leave(process: int) -> None:
    if os.getpid() != process:  # a fork
        return
    if _failed:
        logging.shutdown()
        backend().abandon()
        _end_failed()
    # The work is done; a peer that failed, or that has waited long enough, is none of this rank's business.
    with contextlib.suppress(Exception), backend().patience(_WAIT_SECONDS), named(END_OF_SCRIPT):
        exchange(b"leaving")
    backend().close()
    if backend().rank == 0:
        time.sleep(_LINGER_SECONDS)


def _end_failed() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    # The interpreter's own way out would wait for servers that wait for the peers.
    os._exit(1)
