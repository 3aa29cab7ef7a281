"""What the launcher shows: text of many workers on one stdout and one stderr, each line with the rank that wrote it."""

from __future__ import annotations

import os
import re
import select
import sys
import threading
from typing import Any

# The launcher has a job to end, and signals to hear, also when a terminal is stopped or a pager waits.
_TELL_SECONDS = 2.0
_LINE_ENDS = re.compile(rb"(\r\n|\n|\r)")


class Writer:
    """One stream of one worker. Its text may come in pieces of any kind; `Screen.show` takes them."""

    def __init__(self, rank: int, is_stderr: bool) -> None:
        self.is_stderr = is_stderr
        self._prefix = f"[{rank}] ".encode()
        self._in_line = False
        self._has_returned = False

    def rendered(self, text: bytes) -> bytes:
        """The text with the rank at each start of a line; also after a carriage return, by which a progress bar draws
        over its own line. The last such return is kept back until something follows it."""
        shown = bytearray()
        for piece in _LINE_ENDS.split(text):
            if piece.endswith(b"\n"):
                if not self._in_line:
                    shown += self._prefix
                shown += b"\n"
                self._in_line = self._has_returned = False
            elif piece == b"\r":
                self._has_returned = True
            elif piece:
                if self._has_returned and self._in_line:
                    shown += b"\r"
                if self._has_returned or not self._in_line:
                    shown += self._prefix
                shown += piece
                self._in_line, self._has_returned = True, False
        return bytes(shown)

    def is_in_line(self) -> bool:
        """Whether what was rendered last ends in the middle of a line."""
        return self._in_line

    def break_line(self) -> None:
        """Somebody else has ended the line."""
        self._in_line = self._has_returned = False


class Screen:
    """The launcher's own stdout and stderr, which all readers of workers' output share.

    Nothing is kept in Python's buffers: what could not be written must not come up again when the launcher ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptors = [_descriptor(sys.stdout), _descriptor(sys.stderr)]
        self._is_one = _is_same_file(*self._descriptors)
        self._unfinished: list[Writer | None] = [None, None]
        self._trouble: str | None = None

    def trouble(self) -> str | None:
        """Why stdout or stderr took no more; None as long as they do. What comes then is dropped."""
        return self._trouble

    def show(self, writer: Writer, text: bytes) -> None:
        """Write a piece of what a worker has written. An unfinished line of another writer is ended first."""
        with self._lock:
            shown = self._line_break(writer.is_stderr, writer) + writer.rendered(text)
            self._unfinished[self._place(writer.is_stderr)] = writer if writer.is_in_line() else None
            self._write(shown, writer.is_stderr)

    def finish(self, writer: Writer) -> None:
        """End the writer's unfinished line."""
        with self._lock:
            if self._unfinished[self._place(writer.is_stderr)] is writer:
                self._write(self._line_break(writer.is_stderr, None), writer.is_stderr)

    def tell(self, text: str) -> None:
        """Write lines of the launcher's own to stderr; without waiting for long, where nobody reads what is written."""
        writing = threading.Thread(target=self._tell, args=(text.rstrip("\n").encode() + b"\n",), daemon=True)
        writing.start()
        writing.join(_TELL_SECONDS)

    def _tell(self, text: bytes) -> None:
        with self._lock:
            self._write(self._line_break(True, None) + text, True)

    def _place(self, is_stderr: bool) -> int:
        return int(is_stderr and not self._is_one)

    def _line_break(self, is_stderr: bool, writer: Writer | None) -> bytes:
        unfinished = self._unfinished[self._place(is_stderr)]
        if unfinished is None or unfinished is writer:
            return b""
        unfinished.break_line()
        self._unfinished[self._place(is_stderr)] = None
        return b"\n"

    def _write(self, text: bytes, is_stderr: bool) -> None:
        descriptor = self._descriptors[is_stderr]
        if descriptor is None:
            return
        rest = memoryview(text)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:  # whoever shares it has made it so
                select.select([], [descriptor], [])
            except OSError as error:
                self._descriptors[is_stderr] = None
                self._trouble = self._trouble or f"{'stderr' if is_stderr else 'stdout'} ({error.strerror})"
                return


def _descriptor(stream: Any) -> int | None:
    """None for a stream that was closed before the launcher began."""
    if stream is None:
        return None
    stream.flush()
    return int(stream.fileno())


def _is_same_file(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and os.path.sameopenfile(one, other)
