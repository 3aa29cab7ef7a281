"""The workers that a launcher has started on its machine: what they print, how they end, that none stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from lockstep._child import DieWithParent
from lockstep._worker_output import WorkerOutput

POLL_SECONDS = 0.05
# Between the first failure and the end of all: time for the others to say what they saw, then SIGTERM.
_GRACE_SECONDS = 1.0
# As long as all that have failed say that another worker did first.
_GRACE_FOR_CAUSE_SECONDS = 8.0
_TERMINATE_SECONDS = 2.0


@dataclass(frozen=True)
class Outcome:
    """How workers ended: the exit code that stands for them, what to tell the user, and whether trying again makes
    sense. followed: they failed only because workers elsewhere did."""

    code: int
    text: str = ""
    followed: bool = False
    may_restart: bool = True


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    output: WorkerOutput


class LocalWorkers:
    """Workers with consecutive ranks. `end` must be called whatever happens."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._failed: list[_Worker] = []
        self._failed_since = 0.0
        self._printing = threading.Lock()

    def start(self, command: Sequence[str], rank: int, environment: dict[str, str], shown: bool) -> None:
        process = subprocess.Popen(
            list(command),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A group of its own: signals go to the worker and its children, and the terminal's Ctrl-C only to us.
            start_new_session=True,
            preexec_fn=DieWithParent(os.getpid()),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        output = WorkerOutput(rank, shown, self._printing)
        output.read(process.stdout, process.stderr)
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
        code = first.process.returncode
        how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        return Outcome(code if code > 0 else 128 - code, first.output.last_words(how), followed=cause is None)

    def _cause(self) -> _Worker | None:
        return next((worker for worker in self._failed if not worker.output.only_followed()), None)

    def signal(self, number: int) -> None:
        for worker in self._workers:
            if worker.process.poll() is None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.process.pid, number)

    def end(self) -> None:
        """Leave no worker behind: SIGTERM, a moment, SIGKILL; also to children that a worker has left."""
        self.signal(signal.SIGTERM)
        # A stopped worker takes no signal but this one before it goes on.
        self.signal(signal.SIGCONT)
        deadline = time.monotonic() + _TERMINATE_SECONDS
        while time.monotonic() < deadline and any(worker.process.poll() is None for worker in self._workers):
            time.sleep(POLL_SECONDS)
        for worker in self._workers:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.process.pid, signal.SIGKILL)
            worker.process.wait()
            worker.output.finish()
