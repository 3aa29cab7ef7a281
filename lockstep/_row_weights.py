"""Weights of the ranks where their parts of one global batch have unequally many rows.

A mean over ranks weighs each rank alike; the mean over the global batch weighs each row alike. `fit` cuts arrays
into batches by itself, so only the training step sees how many rows each has. While `fit` trains on a share
that does not come out even, the model's `train_step` is therefore seen from outside, and what it reduces is
weighted by its rows. It costs the sum of one number a step, which is why other training goes without.

Where the batch size does not divide, several ranks have one and the same share. `fit` shuffles it on each in an order
of its own, so the first of them counts, and the others' rows weigh nothing.
"""

from __future__ import annotations

import contextvars
import functools
import weakref
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep import _keras, _step_rows
from lockstep._cuts import is_cut_to_be_gathered
from lockstep._reduction import all_reduce
from lockstep._world import backend

_ALL = 1 << 62
_share_in_fit: contextvars.ContextVar[_Share | None] = contextvars.ContextVar("lockstep_share_in_fit", default=None)


class _Share:
    """What `fit` may train on, arrays for example: how many of its rows count in an epoch."""

    def __init__(self, leaves: list[Any], counting: int) -> None:
        self.counting = counting
        self._length = _length(leaves[0]) if leaves else -1
        self._parts = [weakref.ref(leaf) for leaf in leaves if not isinstance(leaf, (list, tuple))]

    def is_given(self, x: Any) -> bool:
        """Whether `fit` was given arrays of this share."""
        given = _with_bases(x)
        return any(part() is leaf for part in self._parts for leaf in given)

    def is_as_long(self, x: Any) -> bool:
        leaves = _with_bases(x)
        return bool(leaves) and _length(leaves[0]) == self._length


_uneven: list[_Share] = []


def note_uneven_share(leaves: list[Any], counting: int) -> None:
    """`fit` may be given these arrays of this rank; of their rows, so many count."""
    _uneven.append(_Share(leaves, counting))


def watch_fit() -> None:
    """Let `fit` of every Keras say what it trains on.

    Before the script comes to `model.fit(...)`: what the arguments cut would be too late.
    """
    for keras in {id(keras): keras for keras in _keras.all_loaded()}.values():
        _extend_fit(keras.Model)


@functools.cache
def _extend_fit(cls: Any) -> None:
    fit = cls.fit

    @functools.wraps(fit)
    def fit_on_share(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        token = _share_in_fit.set(_share_of(x))
        try:
            return fit(self, x, *args, **kwargs)
        finally:
            _share_in_fit.reset(token)

    cls.fit = fit_on_share


def _share_of(x: Any) -> _Share | None:
    """The uneven share that `fit` trains on."""
    if is_cut_to_be_gathered(x):
        return _Share([], _ALL)
    latest_first = _uneven[::-1]
    # The arrays themselves, or what was made of them.
    by_identity = (share for share in latest_first if share.is_given(x))
    by_length = (share for share in latest_first if share.is_as_long(x))
    return next(by_identity, next(by_length, None))


def _with_bases(x: Any) -> list[Any]:
    """The arrays in nested lists, tuples and dicts, and those that they are views of."""
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in _with_bases(value)]
    if isinstance(x, (list, tuple)):
        return [leaf for value in x for leaf in _with_bases(value)]
    if not getattr(x, "shape", None):
        return []
    return [x, *_with_bases(x.base)] if isinstance(x, np.ndarray) and x.base is not None else [x]


def _length(array: Any) -> int:
    shape = getattr(array, "shape", None)
    return int(shape[0]) if shape else len(array)


def weigh(values: Any) -> Any:
    """values times this rank's rows over the mean of the ranks' rows: the mean over the ranks is then that over
    all rows. Outside of a step that is seen through, the values themselves."""
    rows = _step_rows.current()
    return values if rows is None else tf.nest.map_structure(lambda value: _times(value, rows.weight), values)


def _times(value: Any, weight: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        # What does not count is not there at all: an optimizer may do something for each row.
        rows = tf.where(weight > 0, tf.shape(value.indices)[0], 0)
        return tf.IndexedSlices(_times(value.values[:rows], weight), value.indices[:rows], value.dense_shape)
    # What does not count may be anything, also no number.
    return tf.where(weight > 0, value * tf.cast(weight, value.dtype), tf.zeros_like(value))


class RowCount:
    """The rows of an epoch that this rank's steps have trained on."""

    def __init__(self) -> None:
        self._seen, self._counted, self._counting = (
            tf.Variable(0, dtype=tf.int64, trainable=False, name=f"lockstep_rows_{name}")
            for name in ("seen", "counted", "counting")
        )

    def start(self, counting: int) -> None:
        """Of the rows of each epoch, the first so many count."""
        self._counting.assign(counting)

    def add(self, data: Any) -> Any:
        """Add the rows of one step's data; returns how many of them count."""
        rows = tf.cast(_rows_of(data), tf.int64)
        counted = tf.clip_by_value(self._counting - self._seen, 0, rows)
        self._seen.assign_add(rows)
        self._counted.assign_add(counted)
        return counted

    def taken(self) -> float:
        """How many counted; starts again from none."""
        rows = int(self._counted.numpy())
        self._counted.assign(0)
        self._seen.assign(0)
        return float(rows)


_counts: weakref.WeakKeyDictionary[Any, RowCount] = weakref.WeakKeyDictionary()


def see_through(model: Any) -> RowCount | None:
    """Let `weigh` know the rows of each step of `fit`, until `look_away`; None where all parts are even."""
    share = _share_in_fit.get()
    if share is None:
        if model in _counts:  # its step may have been traced with weights
            _counts[model].start(_ALL)
        return None
    if model not in _counts:
        _counts[model] = RowCount()
        # A function that was traced before knows nothing of rows.
        model.train_function = None
    count = _counts[model]
    count.start(share.counting)
    if "train_step" not in vars(model):
        step = model.train_step

        @functools.wraps(step)
        def train_step(data: Any) -> Any:
            rows = count.add(data)
            share = tf.cast(rows, tf.float32) * float(backend().size)
            weight = share / all_reduce(tf.cast(rows, tf.float32), "sum")
            with _step_rows.step(_step_rows.StepRows(rows, weight)):
                return step(data)

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
