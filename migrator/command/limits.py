"""A bound on the processor time that one program may take."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(BaseException):
    """The time is up. No Exception, so that no handler on the way takes it for an error of its own."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raises TookTooLong within the block once it has taken that many seconds of CPU time.

    Where the system has no such timer, or off the main thread, there is no bound.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(signum: int, frame: FrameType | None) -> None:
        raise TookTooLong

    before = signal.signal(signal.SIGPROF, give_up)
    # Again each second: the first may be lost in a finalizer, whose exceptions Python drops.
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
