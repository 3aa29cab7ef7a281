"""Collectives over Ascend's HCCL, by way of npu_device of its TensorFlow adapter.

npu_device reduces tensors of 32 bits and fewer. All else comes of that: what one rank alone puts into a sum, where
the others put zeros, arrives as it was sent, bit by bit.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep._errors import JoinError

# What HCCL reduces in the tensor's own dtype; halves are added up in single precision.
_REDUCED: dict[Any, Any] = {
    tf.float32: tf.float32,
    tf.float16: tf.float32,
    tf.bfloat16: tf.float32,
    tf.int32: tf.int32,
    tf.int16: tf.int32,
    tf.int8: tf.int32,
    tf.uint16: tf.int32,
    tf.uint8: tf.int32,
    tf.bool: tf.int32,
}
_LOCALLY = {
    "sum": tf.reduce_sum,
    "mean": tf.reduce_mean,
    "max": tf.reduce_max,
    "min": tf.reduce_min,
    "prod": tf.reduce_prod,
}


class NpuCollectives:
    """This process's end of the devices that the rank table names; it drives one of them.

    A rank that fails or hangs is noticed by HCCL, after HCCL_EXEC_TIMEOUT seconds.
    """

    def __init__(self, distribute: Any, rank: int, size: int, local_rank: int) -> None:
        self._distribute = distribute
        self.rank = rank
        self.size = size
        self.local_rank = local_rank

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        reduced: list[Any] = [None] * len(tensors)
        direct = [i for i, tensor in enumerate(tensors) if _is_direct(tensor)]
        if direct:
            carried = [tf.cast(tensors[i], _REDUCED[tensors[i].dtype]) for i in direct]
            for i, result in zip(direct, self._all_reduce(carried, operation)):
                reduced[i] = _shaped(tf.cast(result, tensors[i].dtype), tensors[i].shape)
        for i, tensor in enumerate(tensors):
            if reduced[i] is None:
                rows = self.gather(tensor[tf.newaxis])
                reduced[i] = _shaped(_LOCALLY[operation](rows, axis=0), tensor.shape)
        return reduced

    def gather(self, tensor: Any) -> Any:
        bits = _bits(tensor)
        # Each rank has one row of a matrix to itself.
        rows = tf.one_hot([self.rank], self.size, axis=0, dtype=tf.int32) * bits[tf.newaxis]
        (everyone,) = self._all_reduce([rows], "sum")
        shape = tf.concat([[self.size * tf.shape(tensor)[0]], tf.shape(tensor)[1:]], 0)
        known = [None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]]
        return _shaped(_from_bits(everyone[:, :-1], tensor.dtype, shape), known)

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        if not tensors:
            return []
        bits = [_bits(tensor) for tensor in tensors]
        sent = bits if self.rank == root_rank else [tf.zeros_like(one) for one in bits]
        received = self._all_reduce(sent, "sum")
        return [
            _shaped(_from_bits(one[:-1], tensor.dtype, tf.shape(tensor)), tensor.shape)
            for one, tensor in zip(received, tensors)
        ]

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # HCCL's limit is set before the job starts

    def close(self) -> None:
        return None

    def abandon(self) -> None:
        return None  # the device is closed with the process, which the others' next call finds out

    def _all_reduce(self, tensors: list[Any], reduction: str) -> list[Any]:
        return list(self._distribute.all_reduce(tensors, reduction=reduction))


def _is_direct(tensor: Any) -> bool:
    """Whether HCCL reduces it; of empty tensors it is not known."""
    return tensor.dtype in _REDUCED and bool(tensor.shape.num_elements())


def _bits(tensor: Any) -> Any:
    """int32[n + 1] that hold the tensor's bits, and a zero: no tensor is sent empty."""
    dtype = tensor.dtype
    if dtype in _REDUCED and dtype != tf.float32:
        tensor = tf.cast(tensor, _REDUCED[dtype])
    if tensor.dtype.is_complex:
        tensor = tf.bitcast(tensor, dtype.real_dtype)
    bits = tensor if tensor.dtype == tf.int32 else tf.bitcast(tensor, tf.int32)
    return tf.concat([tf.reshape(bits, [-1]), [0]], 0)


def _from_bits(bits: Any, dtype: Any, shape: Any) -> Any:
    """The tensor of that dtype and shape whose bits `_bits` took, without the zero."""
    carrier = _REDUCED.get(dtype, dtype.real_dtype)
    words = carrier.size // 4
    parts = [2] if dtype.is_complex else []
    inner = tf.concat([shape, parts, [words] if words > 1 else []], 0)
    bits = tf.reshape(bits, tf.cast(inner, tf.int32))
    value = bits if carrier == tf.int32 else tf.bitcast(bits, carrier)
    return tf.bitcast(value, dtype) if dtype.is_complex else tf.cast(value, dtype)


def _shaped(tensor: Any, shape: Any) -> Any:
    tensor.set_shape(shape)
    return tensor


def join() -> NpuCollectives:
    """Open the device of this process: RANK_ID of RANK_SIZE in the table that RANK_TABLE_FILE names.

    Raises JoinError when npu_device is missing, or the environment does not describe a job.
    """
    rank, size = _number("RANK_ID"), _number("RANK_SIZE")
    if not 0 <= rank < size:
        raise JoinError(f"RANK_ID={rank} is no rank of a job of RANK_SIZE={size} processes")
    try:
        import npu_device
    except ImportError as error:
        raise JoinError(
            "the backend npu needs npu_device, which Ascend's TensorFlow adapter installs beside TensorFlow 2.6. "
            f"Importing it says: {error}"
        ) from error
    if npu_device.global_npu_ctx() is None:  # else the script has opened it
        npu_device.open().as_default()
    return NpuCollectives(npu_device.distribute, rank, size, _local_rank(rank))


def _number(name: str) -> int:
    text = os.environ.get(name, "").strip()
    if not text.isdecimal():
        raise JoinError(f"the backend npu needs RANK_ID and RANK_SIZE in the environment; {name} is {text!r}")
    return int(text)


def _local_rank(rank: int) -> int:
    """This process's place among those of its server, as the rank table lists them; else its device's number."""
    path = os.environ.get("RANK_TABLE_FILE", "")
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        with open(path, encoding="utf-8") as file:
            servers = json.load(file)["server_list"]
        for server in servers:
            ranks = sorted(int(device["rank_id"]) for device in server["device"])
            if rank in ranks:
                return ranks.index(rank)
    return int(os.environ.get("ASCEND_DEVICE_ID", "0"))
