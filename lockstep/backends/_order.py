"""Keeps the calls of a tf.function in the order of its program.

TensorFlow runs ops that do not depend on each other in any order, which may be another one on each rank. Writes
to one variable it does keep in order, so each call stands between two of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.backends.registers import Register, end_call, last_call


class ProgramOrder:
    """One per process. Eagerly there is nothing to do."""

    def __init__(self) -> None:
        self._token: Register | None = None

    @contextlib.contextmanager
    def call(self) -> Iterator[_Call]:
        """The scope of one call."""
        if tf.executing_eagerly():
            yield _Call([])
            return
        with tf.device("CPU"):
            call = _Call([self._written(last_call())])
            yield call
            end_call([self._written(call.last)])

    def _written(self, after: list[Any]) -> Any:
        if self._token is None:
            self._token = Register("lockstep_order", tf.int64, "CPU")
        with tf.control_dependencies(after):
            return self._token.add(0)


class _Call:
    """last: what the next op of this call has to come after."""

    def __init__(self, after: list[Any]) -> None:
        self.last = after

    def run(self, make: Any) -> Any:
        """make(), a tensor or a list of them, after everything that ran in this call so far."""
        with tf.control_dependencies(self.last):
            result = make()
        if not tf.executing_eagerly():
            self.last = result if isinstance(result, list) else [result]
        return result
