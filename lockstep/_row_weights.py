"""Weights of the ranks where their parts of one global batch have unequally many rows.

A mean over ranks weighs each rank alike; the mean over the global batch weighs each row alike. `fit` cuts arrays
into batches by itself, so only the training step sees how many rows each has. While `fit` trains on a share
that does not come out even, the model's `train_step` is therefore seen from outside, and what it reduces is
weighted by its rows. It costs the sum of one number a step, which is why other training goes without.
"""

from __future__ import annotations

import contextvars
import functools
import weakref
from typing import Any

import tensorflow as tf

from lockstep._reduction import all_reduce
from lockstep._world import backend

_rows_in_step: contextvars.ContextVar[Any] = contextvars.ContextVar("lockstep_rows_in_step", default=None)
_some_share_is_uneven = False


def note_uneven_share() -> None:
    """From now on, `fit` may meet batches with other numbers of rows on other ranks."""
    global _some_share_is_uneven
    _some_share_is_uneven = True


def weigh(values: Any) -> Any:
    """values times this rank's rows over the mean of the ranks' rows: the mean over the ranks is then that over
    all rows. Outside of a step that is seen through, the values themselves."""
    rows = _rows_in_step.get()
    if rows is None:
        return values
    rows = tf.cast(rows, tf.float32)
    weight = rows * float(backend().size) / all_reduce(rows, "sum")
    return tf.nest.map_structure(lambda value: _times(value, weight), values)


def _times(value: Any, weight: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        return tf.IndexedSlices(_times(value.values, weight), value.indices, value.dense_shape)
    return value * tf.cast(weight, value.dtype)


class RowCount:
    """The rows that this rank's steps have trained on, since the last reset."""

    def __init__(self) -> None:
        self._rows = tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_rows")

    def add(self, data: Any) -> Any:
        """Add the rows of one step's data; returns their number."""
        rows = tf.cast(_rows_of(data), tf.int64)
        self._rows.assign_add(rows)
        return rows

    def taken(self) -> float:
        """How many there were; starts again from none."""
        rows = int(self._rows.numpy())
        self._rows.assign(0)
        return float(rows)


_counts: weakref.WeakKeyDictionary[Any, RowCount] = weakref.WeakKeyDictionary()


def see_through(model: Any) -> RowCount | None:
    """Let `weigh` know the rows of each step of `fit`, until `look_away`; None where all parts are even."""
    if not _some_share_is_uneven:
        return None
    if model not in _counts:
        _counts[model] = RowCount()
        # A function that was traced before knows nothing of rows.
        model.train_function = None
    count = _counts[model]
    if "train_step" not in vars(model):
        step = model.train_step

        @functools.wraps(step)
        def train_step(data: Any) -> Any:
            token = _rows_in_step.set(count.add(data))
            try:
                return step(data)
            finally:
                _rows_in_step.reset(token)

        # Past Keras, which would track it as a part of the model.
        vars(model)["train_step"] = train_step
    return count


def look_away(model: Any) -> None:
    vars(model).pop("train_step", None)


def _rows_of(data: Any) -> Any:
    first = next(component for component in tf.nest.flatten(data) if component is not None)
    if isinstance(first, tf.RaggedTensor):
        return first.nrows()
    return first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
