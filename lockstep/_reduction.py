"""all_reduce: nested values in, the same structure out, equal on all ranks."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from lockstep._agreement import agree, agree_once, describe
from lockstep._variables import storage
from lockstep._world import backend

REDUCTIONS = ("mean", "sum", "max", "min")
_ADVICE = (
    "Every worker must reduce the same values in the same order: look for a branch that only some of them "
    "take, or a model that differs."
)


def check_reduction(reduction: str) -> None:
    """Raises ValueError unless `reduction` is one that there is."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def all_reduce(values: Any, reduction: str) -> Any:
    leaves = tf.nest.flatten(values)
    pairs = [_to_tensor(leaf, reduction) for leaf in leaves]
    tensors = [tensor for tensor, _ in pairs]
    # A traced call runs again and again and is compared when it is traced first; an eager one each time, since
    # it could meet another rank's first call of something else, and both would wait.
    compare = agree if tf.executing_eagerly() else agree_once
    compare(f"all_reduce(reduction={reduction!r})", describe(tensors), _ADVICE)
    reduced = list(tensors)
    dense = [i for i, t in enumerate(tensors) if t is not None and not isinstance(t, tf.IndexedSlices)]
    slices = [i for i, t in enumerate(tensors) if isinstance(t, tf.IndexedSlices)]
    if dense:
        for i, tensor in zip(dense, _reduce_dense([tensors[i] for i in dense], reduction)):
            reduced[i] = tensor
    if slices:
        for i, tensor in zip(slices, _reduce_slices([tensors[i] for i in slices], reduction)):
            reduced[i] = tensor
    restored = [restore(tensor) for tensor, (_, restore) in zip(reduced, pairs)]
    return tf.nest.pack_sequence_as(values, restored)


def _to_tensor(leaf: Any, reduction: str) -> tuple[Any, Callable[[Any], Any]]:
    """The leaf as something that can be reduced, and how to make the result the leaf's kind again."""
    if leaf is None:
        return None, _unchanged
    if isinstance(leaf, tf.IndexedSlices):
        if reduction not in ("mean", "sum"):
            raise TypeError(f"lockstep.all_reduce: IndexedSlices have no {reduction} over workers")
        return leaf, _unchanged
    # Inside a function a Python number would stay what it was at tracing time; it can only become a tensor.
    eager = tf.executing_eagerly()
    if isinstance(leaf, numbers.Number) and not isinstance(leaf, (bool, np.generic)):
        as_float = reduction == "mean" or not isinstance(leaf, numbers.Integral)
        tensor = tf.constant(leaf, tf.float64 if as_float else tf.int64)
        return tensor, _to_python if eager else _unchanged
    if isinstance(leaf, (np.generic, np.ndarray)):
        tensor = tf.constant(leaf)
        if reduction == "mean" and tensor.dtype.is_integer:
            tensor = tf.cast(tensor, tf.float64)
        return tensor, (_to_scalar if isinstance(leaf, np.generic) else _to_array) if eager else _unchanged
    variable = storage(leaf)
    tensor = variable if variable is not None else leaf
    if not tf.is_tensor(tensor) or isinstance(tensor, (tf.RaggedTensor, tf.SparseTensor)):
        raise TypeError(
            "lockstep.all_reduce takes tensors, variables, IndexedSlices, numpy arrays, numbers and None, "
            f"alone or in lists, tuples and dicts, not {type(leaf).__name__}"
        )
    tensor = tf.convert_to_tensor(tensor)
    if reduction == "mean" and not (tensor.dtype.is_floating or tensor.dtype.is_complex):
        raise TypeError(
            f"lockstep.all_reduce: the mean of {tensor.dtype.name} tensors would not be {tensor.dtype.name}; "
            'cast them to a float dtype, or use reduction="sum"'
        )
    if reduction in ("max", "min") and tensor.dtype.is_complex:
        raise TypeError(f"lockstep.all_reduce: complex numbers have no {reduction}")
    return tensor, _unchanged


def _unchanged(tensor: Any) -> Any:
    return tensor


def _to_python(tensor: Any) -> Any:
    return tensor.numpy().item()


def _to_scalar(tensor: Any) -> Any:
    return tensor.numpy()[()]


def _to_array(tensor: Any) -> Any:
    return tensor.numpy()


def _reduce_dense(tensors: Sequence[Any], reduction: str) -> list[Any]:
    totals = backend().reduce(tensors, "sum" if reduction == "mean" else reduction)
    if reduction != "mean":
        return totals
    return [total / tf.cast(backend().size, total.dtype) for total in totals]


def _reduce_slices(slices: Sequence[Any], reduction: str) -> list[Any]:
    """All ranks' rows one after the other. Rows of one index are not merged: Keras optimizers that treat
    each occurrence by itself must see what they would see in one process."""
    size = backend().size
    counts = backend().gather(tf.stack([tf.shape(s.indices, out_type=tf.int64)[0] for s in slices])[None])
    gathered = []
    for number, one in enumerate(slices):
        rows = counts[:, number]
        longest = tf.reduce_max(rows)
        valid = tf.reshape(tf.sequence_mask(rows, longest), [-1])
        values = tf.boolean_mask(backend().gather(_padded(one.values, longest)), valid)
        indices = tf.boolean_mask(backend().gather(_padded(one.indices, longest)), valid)
        if reduction == "mean":
            values = values / tf.cast(size, values.dtype)
        gathered.append(tf.IndexedSlices(values, indices, one.dense_shape))
    return gathered


def _padded(rows: Any, length: Any) -> Any:
    missing = length - tf.shape(rows, out_type=tf.int64)[0]
    below = tf.zeros(tf.concat([missing[None], tf.shape(rows, out_type=tf.int64)[1:]], 0), rows.dtype)
    return tf.concat([rows, below], 0)
