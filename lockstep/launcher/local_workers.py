"""The workers that a launcher has started on its machine: what they print, how they end, that none stays behind."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Callable

from lockstep.launcher.child import DieWithParent
from lockstep.launcher.interruptions import POLL_SECONDS
from lockstep.launcher.screen import Screen
from lockstep.launcher.tensorflow_logs import hidden_levels
from lockstep.launcher.worker_output import WorkerOutput

# Between the first failure and the end of all: time for the others to say what they saw, then SIGTERM.
_GRACE_SECONDS = 1.0
# As long as all that have failed say that another worker did first.
_GRACE_FOR_CAUSE_SECONDS = 8.0
_TERMINATE_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """How workers ended: the exit code that stands for them, what to tell the user, and whether trying again makes
    sense. followed: they failed only because workers elsewhere did. signal: the number of the one that a launcher got.
    """

    code: int
    text: str = ""
    followed: bool = False
    may_restart: bool = True
    signal: int = 0


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    output: WorkerOutput


class LocalWorkers:
    """Workers with consecutive ranks. `end` must be called whatever happens.

    has_joined tells whether they have found each other; hides_logs, that what TensorFlow logs until then is not shown.
    """

    def __init__(self, screen: Screen, has_joined: Callable[[], bool], hides_logs: bool) -> None:
        self._workers: list[_Worker] = []
        self._failed: list[_Worker] = []
        self._failed_since = 0.0
        self._told: tuple[_Worker, str] | None = None
        self._screen = screen
        self._has_joined = has_joined
        self._hides_logs = hides_logs

    def start(self, command: Sequence[str], rank: int, environment: dict[str, str], shown: bool) -> None:
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            # A group of its own: signals go to the worker and its children, and the terminal's Ctrl-C only to us.
            start_new_session=True,
            preexec_fn=DieWithParent(os.getpid()),
        )
        hidden = functools.partial(hidden_levels, self._hides_logs, self._has_joined)
        output = WorkerOutput(rank, shown, self._screen, hidden)
        output.read(lambda: process.stdout, lambda: process.stderr)
        self._workers.append(_Worker(process, output))

    def outcome(self) -> Outcome | None:
        """How the workers ended; None while they run, or while it may still turn out which one failed first."""
        codes = [worker.process.poll() for worker in self._workers]
        newly = [worker for worker, code in zip(self._workers, codes) if code and worker not in self._failed]
        if newly and not self._failed:
            self._failed_since = time.monotonic()
        self._failed += newly
        if not self._failed:
            return Outcome(0) if all(code == 0 for code in codes) else None
        # The others fail too now that it is gone; which one was first shows in what they say.
        cause = self._cause()
        grace = _GRACE_SECONDS if cause is not None else _GRACE_FOR_CAUSE_SECONDS
        if None in codes and time.monotonic() - self._failed_since < grace:
            return None
        for worker in self._failed:
            worker.output.finish(POLL_SECONDS)
        cause = self._cause()
        first = cause or self._failed[0]
        code, text = first.process.returncode, first.output.last_words(_how(first))
        self._told = first, text
        return Outcome(code if code > 0 else 128 - code, text, followed=cause is None)

    def _cause(self) -> _Worker | None:
        return next((worker for worker in self._failed if not worker.output.only_followed()), None)

    def are_alive(self) -> bool:
        return any(worker.process.poll() is None for worker in self._workers)

    def signal(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.process.pid, number)

    def terminate(self) -> None:
        """SIGTERM, and a moment for it."""
        self.signal(signal.SIGTERM)
        # A stopped worker takes no signal but this one before it goes on.
        self.signal(signal.SIGCONT)
        deadline = time.monotonic() + _TERMINATE_SECONDS
        while time.monotonic() < deadline and self.are_alive():
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """Leave no worker behind, nor children that a worker has left; read to the end what they have written."""
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
            worker.output.finish()

    def tell(self, text: str) -> None:
        """Show the text of the verdict, and before it what workers have to say besides. What the screen has shown as
        it came is not repeated."""
        first = self._told[0] if self._told is not None and self._told[1] == text else None
        if first is not None:
            text = first.output.untold_words(_how(first))
        for worker in self._workers:
            worker.output.show_held(first.output if first is not None else None)
        if text:
            self._screen.tell(text)


def _how(worker: _Worker) -> str:
    code = worker.process.returncode
    return f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
