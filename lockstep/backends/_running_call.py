"""Knows which collective call runs right now, in eager code and inside traced functions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.backends.registers import Register, end_call, last_call
from lockstep.peers import call_names
from lockstep.peers.whereabouts import Place
from lockstep.script import lines


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

    def __init__(self) -> None:
        host = tf.config.list_logical_devices("CPU")[0].name
        self._number = Register("lockstep_running_call", tf.int64, host)
        self._finished = Register("lockstep_finished_calls", tf.int64, host)
        # Of each number: the call's name, and the line of the script that it was traced from.
        self._traced: list[tuple[str, str]] = [("", "")]
        self._numbers: dict[tuple[str, str], int] = {}
        self._eager: str | None = None
        self._eager_thread = 0
        self._eager_begun = 0
        self._eager_finished = 0
        self._eager_lock = threading.RLock()

    @contextlib.contextmanager
    def call(self, description: str, device: str) -> Iterator[_Run]:
        name = call_names.current() or description
        if tf.executing_eagerly():
            with self._eager_lock:
                self._eager_begun += 1
                self._eager_thread = threading.get_ident()
                self._eager = name
                try:
                    yield _Run(device, [])
                    self._eager_finished += 1
                finally:
                    self._eager = None
            return
        with tf.control_dependencies(last_call()):
            started = self._number.assign(self._number_of((name, lines.while_tracing())))
        run = _Run(device, [started])
        yield run
        with tf.control_dependencies(run.results):
            end_call([self._finished.add(1), self._number.assign(0)])

    def _number_of(self, traced: tuple[str, str]) -> int:
        if traced not in self._numbers:
            self._numbers[traced] = len(self._traced)
            self._traced.append(traced)
        return self._numbers[traced]

    def place(self) -> Place:
        """Where this process is, seen from another thread."""
        eager, eager_begun, thread = self._eager, self._eager_begun, self._eager_thread
        number, traced_finished = self._number.now(), self._finished.now()
        finished = self._eager_finished + traced_finished
        if eager is not None:
            return Place(eager, eager_begun + traced_finished, finished, lines.of_thread(thread))
        begun = eager_begun + traced_finished
        if not number:
            return Place(None, begun, finished, lines.of_main_thread())
        call, line = self._traced[number]
        return Place(call, begun + 1, finished, lines.traced_and_run(line, lines.of_main_thread()))
