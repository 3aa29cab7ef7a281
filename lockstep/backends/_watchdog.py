"""Knows which collective call runs right now, and ends one that waits too long for a peer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from lockstep._cluster import Cluster


class _Run:
    """One call while it is being executed or traced."""

    def __init__(self, device: str, after: list[Any]) -> None:
        self._device = device
        self._after = after
        self.results: list[Any] = []

    @contextlib.contextmanager
    def collectives(self) -> Iterator[None]:
        """The scope of a collective op: on the worker's device, after the call's beginning."""
        with tf.device(self._device), tf.control_dependencies(self._after):
            yield

    def finished(self, result: Any) -> None:
        """Tell what the call has to wait for before it is over."""
        self.results.append(result)


class RunningCall:
    """The call that this process is in. Eager calls are noted in Python, calls of a traced function in
    variables that the function itself writes.

    The variables are what orders the calls of a function too: TensorFlow runs writes to one variable in
    program order, and the collectives stand between two of them. Without that order ranks could run the
    collectives of one function in different orders (and TensorFlow 2.6 crashes).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._host = tf.config.list_logical_devices("CPU")[0].name
        with tf.device(self._host):
            self._number = tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_running_call")
            self._finished = tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_finished_calls")
        self._descriptions: list[str] = ["no call"]
        self._numbers: dict[str, int] = {}
        self._eager: str | None = None
        self._eager_count = 0
        self._eager_lock = threading.RLock()

    @contextlib.contextmanager
    def call(self, description: str, device: str) -> Iterator[_Run]:
        if tf.executing_eagerly():
            with self._eager_lock:
                self._eager_count += 1
                self._eager = description
                try:
                    yield _Run(device, [])
                finally:
                    self._eager = None
            return
        with tf.device(self._host):
            started = self._number.assign(self._number_of(description), read_value=False)
        run = _Run(device, [started])
        yield run
        with tf.device(self._host), tf.control_dependencies(run.results):
            self._finished.assign_add(1, read_value=False)
            self._number.assign(0, read_value=False)

    def _number_of(self, description: str) -> int:
        if description not in self._numbers:
            self._numbers[description] = len(self._descriptions)
            self._descriptions.append(description)
        return self._numbers[description]

    def progress(self) -> tuple[str | None, tuple[int, ...]]:
        """The running call's description, None between calls, and numbers that change with every call."""
        if self._eager is not None:
            return self._eager, (self._eager_count,)
        number, finished = int(self._number.numpy()), int(self._finished.numpy())
        return (self._descriptions[number] if number else None), (number, finished)


class Watchdog:
    """A daemon thread that aborts all collectives once a call has lasted longer than it may.

    Collectives themselves cannot time out: TensorFlow keeps a thread for each call that could.
    """

    def __init__(self, running: RunningCall, cluster: Cluster, stall_seconds: float) -> None:
        self._running = running
        self._cluster = cluster
        self._stall_seconds = stall_seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lockstep-watchdog", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Inside, a call may last this long at most."""
        previous, self._stall_seconds = self._stall_seconds, min(seconds, self._stall_seconds)
        try:
            yield
        finally:
            self._stall_seconds = previous

    def stop(self) -> None:
        """End the thread: it must not be inside TensorFlow when the interpreter goes down."""
        self._stopped.set()
        self._thread.join(timeout=2.0)

    def _watch(self) -> None:
        last: Any = None
        since = time.monotonic()
        while not self._stopped.wait(min(1.0, self._stall_seconds / 8)):
            progress = self._running.progress()
            if progress != last:
                last, since = progress, time.monotonic()
            elif progress[0] is not None and time.monotonic() - since > self._stall_seconds:
                self._abort(progress[0])
                return

    def _abort(self, description: str) -> None:
        context.context().abort_collective_ops(
            tf.errors.DEADLINE_EXCEEDED,
            f"lockstep: rank {self._cluster.rank} of {self._cluster.size} waited longer than "
            f"{self._stall_seconds:g} s for its peers in {description}. A worker hangs, stopped early or "
            "makes other calls than this one. LOCKSTEP_STALL_SECONDS sets the limit.",
        )
