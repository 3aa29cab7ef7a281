"""Joining many small tensors into few large ones, since every collective has a price of its own.

About 4 MB was the fastest of what was measured: one collective per tensor pays latency each time, one for
everything cannot start before the last gradient is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

BUCKET_BYTES = 4 << 20


def buckets(tensors: Sequence[Any]) -> Iterator[list[int]]:
    """Indices of tensors that travel together: one dtype, at most 4 MB unless one alone is larger.

    From last to first, because the gradients of a network's last layers are ready first. A tensor whose
    size is unknown travels alone.
    """
    bucket: list[int] = []
    size = 0
    for i in reversed(range(len(tensors))):
        elements = tensors[i].shape.num_elements()
        if elements is None:
            yield [i]
            continue
        nbytes = elements * tensors[i].dtype.size
        if bucket and (size + nbytes > BUCKET_BYTES or tensors[i].dtype != tensors[bucket[0]].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(i)
        size += nbytes
    if bucket:
        yield bucket


def pack(tensors: Sequence[Any]) -> Any:
    """The tensors' elements as one vector, which is never empty: TensorFlow's collectives crash on nothing."""
    flat = [tf.reshape(tensor, [-1]) for tensor in tensors]
    if not _surely_has_elements(tensors):
        flat.append(tf.zeros([1], tensors[0].dtype))
    return flat[0] if len(flat) == 1 else tf.concat(flat, 0)


def unpack(flat: Any, like: Sequence[Any]) -> list[Any]:
    """The vector that `pack` made of tensors shaped `like`, taken apart again."""
    if not _surely_has_elements(like):
        flat = flat[:-1]
    if len(like) == 1:
        return [tf.reshape(flat, tf.shape(like[0]))]
    parts = tf.split(flat, [tensor.shape.num_elements() for tensor in like])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, like)]


def _surely_has_elements(tensors: Sequence[Any]) -> bool:
    return any(tensor.shape.num_elements() for tensor in tensors)
