"""Which rows of a global batch are a rank's: the one rule of all cuts, so that what is cut apart fits together again.

For a loss that is a mean, all shards must have one size, or averaging would weigh their rows unevenly. So a batch of m
rows is dealt out into gcd(m, N) equal shards: N of them where N divides m; fewer otherwise, and then several ranks
compute the same shard. For a loss that is a sum, every row must count once, and the shards may differ by a row. So they
may in `fit`, which weighs each rank's mean by its rows, and in whose metrics every row must count alike: there all
batches are dealt out into one number of shards.

Rows are dealt out one by one, as the elements of a dataset are where only those of a rank are prepared: noise that is
cut in the step then meets the samples that it meets in one process. What is gathered comes in the order of the batch,
so there a rank's rows lie together; so they do in arrays that `fit` cuts into batches by itself.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.script.no_rows import allow_no_rows
from lockstep.shards.sizes import number_of_shards

_together: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_rows_together", default=False)
_shards_in_fit: contextvars.ContextVar[int] = contextvars.ContextVar("lockstep_shards_in_fit", default=0)


_cut_last: tuple[int, str] | None = None


@contextlib.contextmanager
def rows_together(whether: bool) -> Iterator[None]:
    """While this runs, the rows of a shard lie together, whatever the loss: `fit` trains on arrays that are cut so."""
    token = _together.set(whether)
    try:
        yield
    finally:
        _together.reset(token)


@contextlib.contextmanager
def dealt_into(shards: int) -> Iterator[None]:
    """While this runs, what a step cuts for a mean is dealt out into so many shards; 0: into equal ones."""
    token = _shards_in_fit.set(shards)
    try:
        yield
    finally:
        _shards_in_fit.reset(token)


def dealt(rows: Any, loss: str, rank: int, size: int, shards_in_fit: Any = None) -> slice:
    """The rank's rows of so many, an int or an integer tensor: the first, one behind the last, and the step.

    shards_in_fit: into how many shards, 0 for equal ones, may be a tensor; None: what holds while this runs.
    """
    shards: Any = size
    if loss == "mean":
        in_fit = _shards_in_fit.get() if shards_in_fit is None else shards_in_fit
        shards = _number_for_mean(rows, size, in_fit)
    else:
        allow_no_rows()
    shard = rank * shards // size
    if loss == "gather" or _together.get():
        return slice(rows * shard // shards, rows * (shard + 1) // shards, 1)
    return slice(shard, rows, shards)


def note_cut_of(rows: int, loss: str) -> None:
    """A batch of so many rows is cut in the step, eagerly."""
    global _cut_last
    _cut_last = (rows, loss)


def shards_cut_last(own: int, loss: str, rank: int, size: int) -> int | None:
    """Into how many shards the batch was cut that was cut last in a step; None where none was, or where the rank's
    shard of it had other than `own` rows."""
    if _cut_last is None or _cut_last[1] != loss:
        return None
    rows = _cut_last[0]
    part = dealt(rows, loss, rank, size)
    return number_of_shards(rows, size) if len(range(rows)[part]) == own else None


def _number_for_mean(rows: Any, size: int, in_fit: Any) -> Any:
    if isinstance(in_fit, int) and in_fit:
        return in_fit
    equal = number_of_shards(rows, size) if isinstance(rows, int) else _number_of_shards(rows, size)
    return equal if isinstance(in_fit, int) else tf.where(in_fit > 0, tf.cast(in_fit, rows.dtype), equal)


def _number_of_shards(rows: Any, size: int) -> Any:
    by_remainder = [number_of_shards(remainder, size) for remainder in range(size)]
    return tf.gather(tf.constant(by_remainder, rows.dtype), rows % size)
