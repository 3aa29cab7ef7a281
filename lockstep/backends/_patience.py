"""Ends the job when a blocking call has waited too long for the other ranks, since nothing else can."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Callable

from lockstep.backends._call import Call


class Patience:
    """A daemon thread that calls `give_up` once a call has lasted longer than it may.

    give_up gets the call and the limit in seconds.
    """

    def __init__(self, seconds: float, give_up: Callable[[Call, float], None]) -> None:
        self._seconds = seconds
        self._give_up = give_up
        self._waiting: tuple[Call, float] | None = None
        self._endless = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lockstep-patience", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def waiting_in(self, call: Call) -> Iterator[None]:
        """The scope of a call that may block."""
        self._waiting = (call, time.monotonic())
        try:
            yield
        finally:
            self._waiting = None

    @contextlib.contextmanager
    def endless(self) -> Iterator[None]:
        """Inside, calls may last as long as they want."""
        self._endless = True
        try:
            yield
        finally:
            self._endless = False

    def stop(self) -> None:
        """End the thread; no call is watched any more."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout=2.0)

    def _watch(self) -> None:
        while not self._stopped.wait(min(1.0, self._seconds / 8)):
            waiting = self._waiting
            if waiting is not None and not self._endless and time.monotonic() - waiting[1] > self._seconds:
                self._give_up(waiting[0], self._seconds)
                return
