"""Parts of one batch that have several rows for each sample: labels laid out in one row, candidates, crops.

The rows of a sample lie together there, and are dealt out together, so that a rank has those of the same samples in all
parts. What has no whole number of rows for each is dealt out by itself, as a batch that merely comes along.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import tensorflow as tf


def number_of_samples(lengths: Collection[Any]) -> Any:
    """Of how many samples a batch is whose parts have so many rows, ints or integer tensors: as the shortest has that
    has any."""
    if all(isinstance(length, int) for length in lengths):
        return min(filter(None, lengths), default=1)
    several = tf.stack([tf.cast(length, tf.int64) for length in lengths])
    return tf.maximum(tf.reduce_min(tf.where(several > 0, several, several.dtype.max)), 1)


def blocks_in(rows: Any, samples: Any) -> tuple[Any, Any]:
    """How many blocks are dealt out of so many rows, and how many rows each has."""
    if isinstance(rows, int) and isinstance(samples, int):
        return (samples, rows // samples) if rows and rows % samples == 0 else (rows, 1)
    rows = tf.constant(rows) if isinstance(rows, int) else rows
    samples = tf.cast(samples, rows.dtype)
    come_in_blocks = (rows > 0) & (rows % samples == 0)
    return tf.where(come_in_blocks, samples, rows), tf.where(come_in_blocks, rows // samples, tf.ones_like(rows))


def indices_of(part: slice, block: Any) -> Any:
    """The indices of the rows in these blocks of so many."""
    if all(isinstance(number, int) for number in (part.start, part.stop, part.step, block)):
        blocks = np.arange(part.start, part.stop, part.step)
        return (blocks[:, None] * block + np.arange(block)).reshape(-1)
    blocks = tf.range(part.start, tf.maximum(part.start, part.stop), part.step)  # which may be none
    return tf.reshape(blocks[:, None] * block + tf.range(block), [-1])
