"""Signals that ask the launcher to end the job."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import Callable

from lockstep.launcher.child import handling
from lockstep.launcher.screen import Screen

POLL_SECONDS = 0.05
_ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruptions:
    """What has come so far; the first one is passed on to the workers."""

    def __init__(self) -> None:
        self._came: list[int] = []

    def note(self, number: int, frame: FrameType | None = None) -> None:
        self._came.append(number)

    def first(self) -> int:
        """The number of the first signal; 0 as long as none has come."""
        return self._came[0] if self._came else 0

    def is_impatient(self) -> bool:
        """Whether a Ctrl-C has come after the first signal. Others come twice by themselves, as when a terminal is
        closed."""
        return signal.SIGINT in self._came[1:]


@contextlib.contextmanager
def noted() -> Iterator[Interruptions]:
    """Signals are noted inside, instead of ending the launcher."""
    interruptions = Interruptions()
    with handling(_ASKING, interruptions.note):
        yield interruptions


def wait_for_end(are_alive: Callable[[], bool], seconds: float, screen: Screen, came: Interruptions) -> None:
    """Wait until the workers, which have been told, have ended by themselves, so many seconds at most."""
    deadline = time.monotonic() + seconds
    if are_alive():
        screen.tell(f"lockstep: interrupted. The workers have {seconds:g} s to end; Ctrl-C ends them at once.")
    while are_alive() and time.monotonic() < deadline and not came.is_impatient():
        time.sleep(POLL_SECONDS)
