"""Sparse gradients of rows that all workers look up alike: the positions of a sequence, say, or the classes of all
labels, behind a gather.

One process looks them up once for the whole batch, so each occurrence has one gradient. On several ranks each has its
part of that, as of what is dense: that of its samples, or, where it has computed the whole loss, a whole one. Left side
by side they would be N occurrences to an optimizer. What a rank looks up for its own samples is to be left so.

Where the indices come from (see `origins`) tells which these are, or the script does, and no comparison: workers may
happen to have the same samples. Of what all have alike the rows are compared all the same before they are added up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.shards import eager_origins, origins

_READING = ("IteratorGetNext", "IteratorGetNextSync", "OptionalGetValue")


def split(slices: Any) -> list[tuple[Any, bool]]:
    """The tf.IndexedSlices that these were put together of, and whether all workers look up the same in them."""
    pieces = [
        (sum(number for number, _ in group), are_alike)
        for are_alike, group in itertools.groupby(_pieces(slices.indices), lambda piece: piece[1])
    ]
    if len(pieces) == 1:
        return [(slices, pieces[0][1])]
    found, start = [], 0
    for number, are_alike in pieces:
        chosen = slices.indices[start : start + number]
        indices = origins.alike(chosen) if are_alike else origins.own(chosen)
        found.append((tf.IndexedSlices(slices.values[start : start + number], indices, slices.dense_shape), are_alike))
        start += number
    return found


def joined(parts: Sequence[Any]) -> Any:
    """tf.IndexedSlices one behind the other."""
    if len(parts) == 1:
        return parts[0]
    values, indices = ([getattr(one, name) for one in parts] for name in ("values", "indices"))
    return tf.IndexedSlices(tf.concat(values, 0), tf.concat(indices, 0), parts[0].dense_shape)


def _pieces(indices: Any) -> list[tuple[Any, bool]]:
    """How many indices one behind the other come from where, and whether all workers have them alike."""
    if tf.executing_eagerly():
        return [(number, origin == eager_origins.ALIKE) for number, origin in eager_origins.origins_of(indices)]
    parts = origins.parts_of(indices)
    alike = [not origins.is_own(part) and not _has_rows_of_batch(part) for part in parts]
    if len(set(alike)) == 1:
        return [(0, alike[0])]
    if any(part.calls for part in parts):
        raise eager_origins.mixed_in_function()
    return [(tf.size(part.tensor), one) for part, one in zip(parts, alike)]


def _has_rows_of_batch(part: origins.Part) -> bool:
    """Whether constants stand for the rows of a worker's batch, which had a size when the function was traced:
    `tf.ones_like(words[:, :1])`, `tf.fill([rows, 1], START)`. All rows are one then, and what all samples have in
    common, as the types of tokens, has no axis for them. Migrated scripts say so of what this does not see."""
    sizes = _given_sizes(part.tensor.graph)
    if len(part.shape) < 2 or part.shape[0] not in sizes or (part.shape[0] == 1 and sizes != {1}):
        return False
    known = _known(part.tensor)
    return known is not None and bool(np.all(known == known[:1]))


def _known(tensor: Any) -> Any:
    """The value of constants. Keras 3 looks up `tf.where(indices < 0, indices + size, indices)`."""
    while tensor.op.type in ("SelectV2", *eager_origins.SAME_ELEMENTS):
        tensor = tensor.op.inputs[2 if tensor.op.type == "SelectV2" else 0]
    return tf.get_static_value(tensor)


def _given_sizes(graph: Any) -> set[int]:
    """The first sizes of what a function is called with, and of what it reads from an iterator."""
    captured = {inner.name for _, inner in getattr(graph, "captures", ())}
    given = [one for one in getattr(graph, "inputs", ()) if one.name not in captured]
    given += [one for op in graph.get_operations() if op.type in _READING for one in op.outputs]
    return {one.shape[0] for one in given if one.dtype != tf.resource and one.shape.rank} - {None}


def added_up(values: Any, indices: Any, count: Any) -> tuple[Any, Any]:
    """Values [n, ...] and indices [n] of the ranks one after the other, so many of each rank [N]: the sums over the
    ranks, row by row, where all ranks have the same indices in the same order. Ranks without rows do not matter."""
    longest = tf.reduce_max(count)
    number = tf.shape(indices, out_type=tf.int64)[0]
    starts = tf.cumsum(count, exclusive=True)
    place = tf.range(number) - tf.repeat(starts, count)
    start = tf.gather(starts, tf.argmax(count))
    counterpart = tf.minimum(start + place, number - 1)
    same = tf.reduce_all((count == longest) | (count == 0)) & tf.reduce_all(indices == tf.gather(indices, counterpart))
    rows = tf.where(same, longest, number)
    summed = tf.math.unsorted_segment_sum(values, tf.where(same, place, tf.range(number)), rows)
    summed = tf.ensure_shape(summed, [None, *values.shape[1:]])
    return summed, indices[:rows]
