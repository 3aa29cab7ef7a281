"""Tensors of every dtype as those few that the engines of the backends take.

CollectiveReduceV2, CollectiveGatherV2 and the broadcast ops of every TensorFlow from 2.6 on, and Horovod with Gloo.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# What every engine takes; anything else travels as the dtype named here.
_CARRIERS: dict[Any, Any] = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.int16: tf.int32,
    tf.uint8: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    # Sums of halves would overflow, and lose digits, where the mean does not.
    tf.float16: tf.float32,
    tf.bfloat16: tf.float32,
}
_CARRIED = (tf.float32, tf.float64, tf.int32, tf.int64)


def to_carrier(tensor: Any, ordered: bool = False) -> Any:
    """The tensor as one of a dtype that the collectives take; ordered: such that larger stays larger."""
    dtype = tensor.dtype
    if dtype in _CARRIED:
        return tensor
    if dtype in _CARRIERS:
        return tf.cast(tensor, _CARRIERS[dtype])
    if dtype == tf.uint64:
        return _with_flipped_sign(tf.bitcast(tensor, tf.int64), ordered)
    if dtype.is_complex:
        return tf.bitcast(tensor, dtype.real_dtype)
    raise TypeError(f"lockstep cannot send {dtype.name} tensors between workers")


def from_carrier(tensor: Any, original: Any, ordered: bool = False) -> Any:
    """What came of `to_carrier` of a tensor like the original, in its dtype and shape."""
    dtype = original.dtype
    if dtype == tf.uint64:
        tensor = tf.bitcast(_with_flipped_sign(tensor, ordered), dtype)
    elif dtype.is_complex:
        tensor = tf.bitcast(tensor, dtype)
    elif dtype != tensor.dtype:
        tensor = tf.cast(tensor, dtype)
    tensor.set_shape(original.shape)
    return tensor


def _with_flipped_sign(tensor: Any, flipped: bool) -> Any:
    """int64 bits of unsigned numbers in the order of the numbers, or back again."""
    return tf.bitwise.bitwise_xor(tensor, tf.int64.min) if flipped else tensor
