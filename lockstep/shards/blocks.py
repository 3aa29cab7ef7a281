"""Parts of one batch that have several rows for each sample: labels laid out in one row, candidates, crops.

The rows of a sample lie together there, and are dealt out together, so that a rank has those of the same samples in all
parts. What has no whole number of rows for each is dealt out by itself, as a batch that merely comes along.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf

_UNCLEAR = (
    "lockstep: a batch has a part of {} rows beside others of {} and of {}, and it cannot be told of which of these it "
    "has several rows for each; cut the parts that belong together by a call of lockstep.shard_batch of their own"
)


def blocks_in(rows: Any, lengths: Collection[Any]) -> tuple[Any, Any]:
    """How many blocks are dealt out of so many rows, beside parts of `lengths` rows, ints or integer tensors; and how
    many rows each has. Raises ValueError, or in a graph InvalidArgumentError, where that cannot be told."""
    if len(lengths) < 2:
        return rows, 1
    if isinstance(rows, int) and all(isinstance(length, int) for length in lengths):
        dividing = sorted({length for length in lengths if length and rows and rows % length == 0})
        odd = [length for length in dividing if length % dividing[0]]
        if odd:
            raise ValueError(_UNCLEAR.format(rows, dividing[0], odd[0]))
        return (dividing[0], rows // dividing[0]) if dividing else (rows, 1)
    rows = tf.constant(rows) if isinstance(rows, int) else rows
    several = tf.maximum(tf.stack([tf.cast(length, rows.dtype) for length in lengths]), 1)
    divides = rows % several == 0
    blocks = tf.reduce_min(tf.where(divides, several, tf.maximum(rows, 1)))
    text = _UNCLEAR.format("some", "several", "others")
    is_clear = tf.debugging.Assert(tf.reduce_all(tf.where(divides, several, blocks) % blocks == 0), [text])
    with tf.control_dependencies([is_clear] if is_clear is not None else []):
        return tf.where(rows > 0, blocks, 0), rows // blocks


def indices_of(part: slice, block: Any) -> Any:
    """The indices of the rows in these blocks of so many."""
    if all(isinstance(number, int) for number in (part.start, part.stop, part.step, block)):
        blocks = np.arange(part.start, part.stop, part.step)
        return (blocks[:, None] * block + np.arange(block)).reshape(-1)
    blocks = tf.range(part.start, tf.maximum(part.stop, part.start), part.step)  # which may be none
    return tf.reshape(blocks[:, None] * block + tf.range(block), [-1])
