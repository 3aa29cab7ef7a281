"""Sparse gradients of rows that are looked up for no sample in particular: the positions of a sequence, say.

One process looks them up once for the whole batch, so each occurrence has one gradient, added up over all samples. On
several ranks each has its part of that sum; left side by side they would be N occurrences to an optimizer.

Whether indices come from the batch is told by the graph that makes them; outside of a function nothing tells.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_SHAPES = ("Shape", "ShapeN", "Size", "Rank")
# Of these only what is cut or reshaped matters: the ranks' rows are compared before they are added up.
_FIRST_INPUT_ONLY = ("StridedSlice", "Slice", "Reshape", "BroadcastTo", "Tile")


def are_of_no_batch(indices: Any) -> bool:
    """Whether indices are proven to be made of constants and shapes alone."""
    if not hasattr(indices, "op"):
        return False
    seen: set[str] = set()
    waiting = [indices.op]
    while waiting:
        operation = waiting.pop()
        if operation.name in seen or operation.type in _SHAPES:
            continue
        seen.add(operation.name)
        if operation.type in ("Placeholder", "PlaceholderWithDefault") or _does_more_than_compute(operation):
            return False
        inputs = list(operation.inputs)[:1] if operation.type in _FIRST_INPUT_ONLY else operation.inputs
        waiting += [tensor.op for tensor in inputs]
    return True


def _does_more_than_compute(operation: Any) -> bool:
    """Whether it reads a variable or an iterator, draws, or calls a function, which is not looked into."""
    definition = operation.op_def
    return definition.is_stateful or any(attribute.type in ("func", "list(func)") for attribute in definition.attr)


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
    summed.set_shape(values.shape)
    return summed, indices[:rows]
