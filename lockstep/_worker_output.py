"""What a worker prints: shown line by line with its rank, and its last words kept for when it fails."""

from __future__ import annotations

import collections
import contextlib
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

from lockstep import _news

_KEPT_LINES = 200
_TRACEBACK = b"Traceback (most recent call last)"
_REASON = b"lockstep: rank "
_FOLLOWED = _news.FOLLOWED.encode()


class WorkerOutput:
    """The two streams of one worker. The lock is shared by all workers, so that their lines stay whole."""

    def __init__(self, rank: int, shown: bool, lock: threading.Lock) -> None:
        self.rank = rank
        self.ended = float("inf")  # time.monotonic() when its stderr was closed
        self._shown = shown
        self._lock = lock
        self._errors: collections.deque[bytes] = collections.deque(maxlen=_KEPT_LINES)
        self._readers: list[threading.Thread] = []

    def read(self, stdout: Iterable[bytes], stderr: Iterable[bytes]) -> None:
        """Begin to read both streams, each an iterable of lines, in threads of their own."""
        for target in (self._copy_stdout, self._copy_stderr):
            source = stdout if target == self._copy_stdout else stderr
            reader = threading.Thread(target=target, args=(source,), daemon=True)
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
        return any(line.startswith((_TRACEBACK, _REASON)) for line in self._errors)

    def last_words(self, how: str) -> str:
        """That this worker failed first, and its last traceback or else its last lines on stderr."""
        lines = list(self._errors)
        starts = [i for i, line in enumerate(lines) if line.startswith(_TRACEBACK)]
        starts = starts or [i for i, line in enumerate(lines) if line.startswith(_REASON)]
        last = lines[starts[-1] :] if starts else lines[-40:]
        head = f"lockstep: worker {self.rank} failed first ({how}), so all were ended. Its last words on stderr:\n"
        return head + b"".join(self._prefixed(line) for line in last).decode(errors="replace")

    def show_failure(self, how: str) -> None:
        """Print the `last_words`."""
        sys.stdout.flush()
        sys.stderr.buffer.write(self.last_words(how).encode())
        sys.stderr.flush()

    def _copy_stdout(self, source: Iterable[bytes]) -> None:
        for line in source:
            self._show(line, sys.stdout)

    def _copy_stderr(self, source: Iterable[bytes]) -> None:
        for line in source:
            self._errors.append(line)
            self._show(line, sys.stderr)
        self.ended = time.monotonic()

    def _show(self, line: bytes, target: Any) -> None:
        if self._shown:
            with self._lock, contextlib.suppress(BrokenPipeError):
                target.buffer.write(self._prefixed(line))
                target.buffer.flush()

    def _prefixed(self, line: bytes) -> bytes:
        prefix = f"[{self.rank}] ".encode()
        # A progress bar draws over its own line: each of its states needs the prefix again.
        return prefix + line.rstrip(b"\r\n").replace(b"\r", b"\r" + prefix) + b"\n"
