"""Starts the workers of one machine, passes on what they print, and ends all of them when one fails."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import IO, Any

_POLL_SECONDS = 0.05
# Between the first failure and the end of all: time for the others to say what they saw, then SIGTERM.
_GRACE_SECONDS = 1.0
_TERMINATE_SECONDS = 2.0
_KEPT_ERROR_LINES = 200
_PR_SET_PDEATHSIG = 1
# What a worker prints last when it failed only because another one did (lockstep._exit).
_FOLLOWED_MARK = b"a collective call with the other workers failed"


@dataclass
class _Worker:
    rank: int
    process: subprocess.Popen[bytes]
    readers: list[threading.Thread] = field(default_factory=list)
    errors: collections.deque[bytes] = field(default_factory=lambda: collections.deque(maxlen=_KEPT_ERROR_LINES))

    def only_followed(self) -> bool:
        return any(_FOLLOWED_MARK in line for line in self.errors)


def launch(command: Sequence[str], workers: int, all_output: bool) -> int:
    """Run `command` as so many workers; returns the exit code: 0, or that of the worker that failed first."""
    started: list[_Worker] = []
    interrupted: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        _signal(started, number)

    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), interrupt):
        lock = threading.Lock()
        try:
            for rank, environment in enumerate(_environments(workers)):
                if interrupted:
                    break
                started.append(_start(command, rank, environment))
                _read(started[-1], all_output or rank == 0, lock)
            first = _wait(started, interrupted)
        finally:
            _end(started)
    if interrupted:
        return 128 + interrupted[0]
    if first is None:
        return 0
    code = first.process.returncode
    _show_failure(first, code)
    return code if code > 0 else 128 - code


def _environments(workers: int) -> list[dict[str, str]]:
    """Each worker's environment. What the user has set stays, except for the cluster itself."""
    addresses = [f"127.0.0.1:{port}" for port in _free_ports(workers)]
    threads = str(max(1, _cores() // workers))
    environments = []
    for rank in range(workers):
        environment = dict(os.environ)
        for inherited in ("TF_CONFIG", "LOCKSTEP_JOINED_PID"):
            environment.pop(inherited, None)
        if workers > 1:
            environment["TF_CONFIG"] = json.dumps(
                {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
            )
            environment.setdefault("TF_NUM_INTRAOP_THREADS", threads)
            # One thread could not run anything while another op of the step waits.
            environment.setdefault("TF_NUM_INTEROP_THREADS", str(max(2, int(threads))))
            environment.setdefault("OMP_NUM_THREADS", threads)
            # Strings hash alike everywhere: `list(set(words))` has one order, and a vocabulary one numbering.
            environment.setdefault("PYTHONHASHSEED", "0")
        environment["LOCKSTEP_LOCAL_RANK"] = str(rank)
        environment["PYTHONUNBUFFERED"] = "1"
        environments.append(environment)
    return environments


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def _start(command: Sequence[str], rank: int, environment: dict[str, str]) -> _Worker:
    process = subprocess.Popen(
        list(command),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A group of its own: signals go to the worker and its children, and the terminal's Ctrl-C only to us.
        start_new_session=True,
        preexec_fn=_DieWithParent(os.getpid()),
    )
    return _Worker(rank, process)


class _DieWithParent:
    """Asks Linux to kill the worker when the launcher is gone, however it went."""

    def __init__(self, parent: int) -> None:
        self._parent = parent
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None

    def __call__(self) -> None:
        if self._libc is not None:
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._parent:  # gone before the request was made
            os._exit(1)


def _read(worker: _Worker, shown: bool, lock: threading.Lock) -> None:
    streams = ((worker.process.stdout, sys.stdout, False), (worker.process.stderr, sys.stderr, True))
    for source, target, kept in streams:
        assert source is not None
        reader = threading.Thread(
            target=_copy_lines,
            args=(source, target if shown else None, worker.errors if kept else None, worker.rank, lock),
            daemon=True,
        )
        reader.start()
        worker.readers.append(reader)


def _copy_lines(
    source: IO[bytes],
    target: Any | None,
    kept: collections.deque[bytes] | None,
    rank: int,
    lock: threading.Lock,
) -> None:
    prefix = f"[{rank}] ".encode()
    for line in source:
        if kept is not None:
            kept.append(line)
        if target is not None:
            # A progress bar draws over its own line: each of its states needs the prefix again.
            text = prefix + line.rstrip(b"\r\n").replace(b"\r", b"\r" + prefix) + b"\n"
            with lock, contextlib.suppress(BrokenPipeError):
                target.buffer.write(text)
                target.buffer.flush()


def _wait(workers: Sequence[_Worker], interrupted: Sequence[int]) -> _Worker | None:
    """Wait until all are done or one has failed; returns the one that failed of its own accord, if any."""
    while True:
        codes = [worker.process.poll() for worker in workers]
        failed = [worker for worker, code in zip(workers, codes) if code]
        if failed:
            break
        if interrupted or all(code == 0 for code in codes):
            return None
        time.sleep(_POLL_SECONDS)
    # The others fail too now that it is gone; which one was first shows in what they say.
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline and any(worker.process.poll() is None for worker in workers):
        time.sleep(_POLL_SECONDS)
    first_seen = failed[0]
    failed += [worker for worker in workers if worker.process.poll() and worker not in failed]
    for worker in failed:
        for reader in worker.readers:
            reader.join(_POLL_SECONDS)
    return next((worker for worker in failed if not worker.only_followed()), first_seen)


def _signal(workers: Sequence[_Worker], number: int) -> None:
    for worker in workers:
        if worker.process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker.process.pid, number)


def _end(workers: Sequence[_Worker]) -> None:
    """Leave no worker behind: SIGTERM, a moment, SIGKILL; also to children that a worker has left."""
    _signal(workers, signal.SIGTERM)
    deadline = time.monotonic() + _TERMINATE_SECONDS
    while time.monotonic() < deadline and any(worker.process.poll() is None for worker in workers):
        time.sleep(_POLL_SECONDS)
    for worker in workers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
        worker.process.wait()
        for reader in worker.readers:
            reader.join(1.0)


def _show_failure(worker: _Worker, code: int) -> None:
    how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
    prefix = f"[{worker.rank}] ".encode()
    text = b"".join(prefix + line.rstrip(b"\r\n") + b"\n" for line in _last_traceback(list(worker.errors)))
    message = f"lockstep: worker {worker.rank} failed first ({how}), so all were ended. Its last words on stderr:\n"
    sys.stdout.flush()
    sys.stderr.buffer.write(message.encode() + text)
    sys.stderr.flush()


def _last_traceback(lines: list[bytes]) -> list[bytes]:
    starts = [i for i, line in enumerate(lines) if line.startswith(b"Traceback (most recent call last)")]
    return lines[starts[-1] :] if starts else lines[-40:]


@contextlib.contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Any) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
