"""What a worker prints: shown with its rank as it comes, and its last words kept for when it fails.

A traceback is held back for a moment, and so is what TensorFlow logs of errors: when the job ends by it, the failure is
told once, after all else.
"""

from __future__ import annotations

import collections
import re
import selectors
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

from lockstep.launcher.screen import Screen, Writer
from lockstep.launcher.tensorflow_logs import is_log
from lockstep.peers import news

_KEPT_LINES = 200
_KEPT_OF_LINE = 65_536
_CHUNK = 65_536
# Text without an end of line, as of progress bars, waits so long for more.
_UNFINISHED_SECONDS = 0.2
# A process that a traceback ends says so, or is gone, within this time.
_HELD_SECONDS = 1.0
_LINES = re.compile(rb"[^\n]*\n|[^\n]+")
_TRACEBACK = b"Traceback (most recent call last)"
_LINKS = (b"The above exception was the direct cause", b"During handling of the above exception")
_REASON = b"lockstep: rank "
_FOLLOWED = news.FOLLOWED.encode()

# Opens a stream, without a buffer of Python's.
Source = Callable[[], Any]


class WorkerOutput:
    """The two streams of one worker.

    shown tells whether the screen is to show them. hidden names the levels of TensorFlow's log, as in "IWE", that it is
    not to show; it is asked for each line.
    """

    def __init__(self, rank: int, shown: bool, screen: Screen, hidden: Callable[[], str]) -> None:
        self.rank = rank
        self.ended = float("inf")  # time.monotonic() when its stderr was closed
        self._shown = shown
        self._screen = screen
        self._hidden = hidden
        self._errors: collections.deque[bytes] = collections.deque(maxlen=_KEPT_LINES)
        self._held: list[bytes] = []
        self._held_until = 0.0
        self._readers: list[threading.Thread] = []

    def read(self, stdout: Source, stderr: Source) -> None:
        """Begin to read both streams, in threads of their own."""
        for read, source in ((self._read_stdout, stdout), (self._read_stderr, stderr)):
            reader = threading.Thread(target=read, args=(source,), daemon=True)
            reader.start()
            self._readers.append(reader)

    def finish(self, seconds: float = 1.0) -> None:
        """Wait until both streams have been read to their end, at most so long for each."""
        for reader in self._readers:
            reader.join(seconds)

    def only_followed(self) -> bool:
        """Whether the worker says that it failed because another one did."""
        return any(_FOLLOWED in line for line in self._errors)

    def says_why(self) -> bool:
        """Whether the worker has printed a traceback, or lockstep a reason to end the job."""
        return any(_TRACEBACK in line or line.startswith(_REASON) for line in self._errors)

    def last_words(self, how: str) -> str:
        """That this worker failed first, and its last traceback or else its last lines on stderr."""
        words = _rendered(self.rank, self._last_lines())
        end = f"Its last words on stderr:\n{words}" if words else "It wrote nothing to stderr."
        return f"{self._head(how)} {end}"

    def untold_words(self, how: str) -> str:
        """The same without what the screen has shown as it came."""
        was_shown = self._shown and bool(self._errors) and not self._held
        return f"{self._head(how)} What it wrote to stderr is above." if was_shown else self.last_words(how)

    def _head(self, how: str) -> str:
        return f"lockstep: worker {self.rank} failed first ({how}), so all were ended."

    def show_held(self, told: WorkerOutput | None = None) -> None:
        """Show what is held back still, unless it follows from a failure elsewhere or from an interrupt, or is what
        `told` has said too."""
        held, self._held = self._held, []
        if not self._shown or not held or self is told or self.only_followed() or _is_by_interrupt(held):
            return
        if told is None or _alike(held) != _alike(told._last_lines()):
            self._screen.tell(_rendered(self.rank, held))

    def _last_lines(self) -> list[bytes]:
        lines = list(self._errors)
        reasons = [i for i, line in enumerate(lines) if line.startswith(_REASON)]
        return _last_traceback(lines) or (lines[reasons[-1] :] if reasons else lines[-40:])

    def _read_stdout(self, source: Source) -> None:
        writer = Writer(self.rank, is_stderr=False)
        for text in _pieces(source, lambda: False):
            self._show(writer, text)
        self._screen.finish(writer)

    def _read_stderr(self, source: Source) -> None:
        writer = Writer(self.rank, is_stderr=True)
        line, is_hidden = b"", False
        for text in _pieces(source, lambda: bool(self._held)):
            for part in _LINES.findall(text):
                hidden = self._hidden()
                is_hidden = is_hidden if line else is_log(part, hidden)
                line = (line + part)[-_KEPT_OF_LINE:]
                if self._held or _TRACEBACK in part or (hidden and not is_hidden and is_log(part, "WE")):
                    self._hold(part)
                elif not is_hidden:
                    self._show(writer, part)
                if line.endswith(b"\n"):
                    self._errors.append(line)
                    line = b""
            if self._held and time.monotonic() > self._held_until:
                held, self._held = self._held, []
                self._show(writer, b"".join(held))
        if line:
            self._errors.append(line)
        self._screen.finish(writer)
        self.ended = time.monotonic()

    def _hold(self, part: bytes) -> None:
        if not self._held:
            self._held_until = time.monotonic() + _HELD_SECONDS
        if part.startswith(_REASON):  # the process ends by it
            self._held_until = float("inf")
        self._held.append(part)

    def _show(self, writer: Writer, text: bytes) -> None:
        if self._shown:
            self._screen.show(writer, text)


def _pieces(source: Source, is_awaited: Callable[[], bool]) -> Iterator[bytes]:
    """The text of a stream: whole lines at once, the beginning of one when its rest does not come soon.

    Empty pieces come in between while one is awaited.
    """
    kept, due = b"", 0.0
    with source() as stream, selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while True:
            if selector.select(_UNFINISHED_SECONDS if kept or is_awaited() else None):
                chunk = stream.read(_CHUNK)
                if not chunk:
                    break
                due = due if kept else time.monotonic() + _UNFINISHED_SECONDS
                lines, end, kept = (kept + chunk).rpartition(b"\n")
                if end:
                    due = time.monotonic() + _UNFINISHED_SECONDS
                    yield lines + end
            if time.monotonic() >= due:
                yield kept
                kept = b""
    yield kept


def _rendered(rank: int, lines: list[bytes]) -> str:
    return Writer(rank, is_stderr=True).rendered(b"".join(lines)).decode(errors="replace")


def _last_traceback(lines: list[bytes]) -> list[bytes]:
    """The last traceback, with those that led to it, and what follows of it; empty if there is none."""
    starts = [i for i, line in enumerate(lines) if _TRACEBACK in line]
    while len(starts) > 1 and any(link in line for line in lines[starts[-1] - 3 : starts[-1]] for link in _LINKS):
        starts.pop()
    return [line for line in lines[starts[-1] :] if not is_log(line, "IWE")] if starts else []


def _alike(lines: list[bytes]) -> list[bytes]:
    """The last traceback without what depends on the rank."""
    return [line for line in _last_traceback(lines) if line.strip() and not line.startswith(_REASON)]


def _is_by_interrupt(lines: list[bytes]) -> bool:
    return _alike(lines)[-1:] == [b"KeyboardInterrupt\n"]
