"""Sparse gradients of shards that several ranks compute.

Where a batch does not split evenly, groups of ranks next to each other compute one shard (see `sizes`). Their mean
is the same as of one of them, but not what an optimizer makes of tf.IndexedSlices: Keras 3 squares each occurrence of
a row by itself, and a gradient that comes as three thirds has a third of its square. So one rank speaks for its group;
for all where nothing was cut, and every rank trains on whole batches.

A reduction is not told which batch its gradients come from: between the cut and the step may lie a pipeline that runs
ahead, or a tf.function. What ranks with one shard have in common is known from the rows themselves: the same indices in
the same order, with the same values, in all slices that are reduced together.

So it is where a script gathers a batch before the step: then all ranks train on the whole of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep.shards.sizes import number_of_shards

# Of the largest value: machines of different kinds round differently.
_ROUNDING = 1e-3
# Numbers of different shards; 1, since all ranks may train on the same batches until something is cut.
_possible = {1}
_is_cut = False
_are_gathered = False


def note_whole() -> None:
    """Indices of all ranks are put together outside of a step, which may be given them."""
    global _are_gathered
    _are_gathered = True


def note_cut() -> None:
    """Something is cut: not all ranks train on the same batches by this alone."""
    global _is_cut
    if not _is_cut:
        _is_cut = True
        _possible.clear()


def note_possible(rows: int | None, size: int) -> None:
    """Batches of so many rows will be cut for a mean; None: of any number.

    Before a step is traced, which would otherwise not look for what comes with a later batch.
    """
    note_cut()
    sizes = range(1, size) if rows is None else [rows]
    _possible.update({number_of_shards(one, size) for one in sizes} - {size})


def are_possible() -> bool:
    return bool(_numbers())


def _numbers() -> set[int]:
    return _possible | {1} if _are_gathered else _possible


def number_of_different(slices: Sequence[tuple[Any, Any]], counts: Sequence[Any], rounding: float = _ROUNDING) -> Any:
    """How many different shards the ranks have computed, int64.

    slices: values [n, ...] and indices [n] of the ranks one after the other; counts: each rank's rows of them [N];
    rounding: what values of the same rows may differ by, of the largest.
    """
    size = int(counts[0].shape[0])
    different = tf.constant(size, tf.int64)
    for shards in sorted(_numbers(), reverse=True):
        same = tf.reduce_all([_are_same(*one, count, size // shards, rounding) for one, count in zip(slices, counts)])
        different = tf.where(same, tf.constant(shards, tf.int64), different)
    return different


def of_first(rows: Any, count: Any, different: Any) -> Any:
    """The rows of the first rank of each group."""
    ranks = tf.range(tf.shape(count, out_type=tf.int64)[0])
    is_first = ranks % (tf.shape(count, out_type=tf.int64)[0] // different) == 0
    first = tf.boolean_mask(rows, tf.repeat(is_first, count))
    first.set_shape([None, *rows.shape[1:]])
    return first


def _are_same(values: Any, indices: Any, count: Any, group: int, rounding: float) -> Any:
    """Whether in each group of so many ranks all have the same rows."""
    first = tf.range(count.shape[0]) // group * group
    starts = tf.cumsum(count, exclusive=True)
    rows = tf.range(tf.shape(indices, out_type=tf.int64)[0])
    counterpart = rows + tf.repeat(tf.gather(starts, first) - starts, count)
    counterpart = tf.minimum(counterpart, tf.shape(indices, out_type=tf.int64)[0] - 1)  # where the counts differ
    distance = tf.abs(values - tf.gather(values, counterpart))
    return (
        tf.reduce_all(count == tf.gather(count, first))
        & tf.reduce_all(indices == tf.gather(indices, counterpart))
        & tf.reduce_all(distance <= tf.cast(rounding, distance.dtype) * tf.reduce_max(tf.abs(values)))
    )
