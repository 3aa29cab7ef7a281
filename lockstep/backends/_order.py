"""Keeps the calls of a tf.function in the order of its program.

TensorFlow runs ops that do not depend on each other in any order, which may be another one on each rank. Writes
to one variable it does keep in order, so each call stands between two of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


class ProgramOrder:
    """One per process. Eagerly there is nothing to do."""

    def __init__(self) -> None:
        self._token: Any = None

    @contextlib.contextmanager
    def call(self) -> Iterator[_Call]:
        """The scope of one call."""
        if tf.executing_eagerly():
            yield _Call([])
            return
        with tf.device("CPU"):
            call = _Call([self._written([])])
            yield call
            self._written(call.last)

    def _written(self, after: list[Any]) -> Any:
        if self._token is None:
            with tf.init_scope(), tf.device("CPU"):
                self._token = tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_order")
        with tf.control_dependencies(after):
            return self._token.assign_add(0, read_value=False)


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
