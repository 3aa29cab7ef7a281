"""What users hand to the collectives, as tensors, and the results as the kind of thing that was handed over."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.script.variables import storage

# A graph has no numbers of Python's: what is sent as exactly as they are meets tensors of these types in it.
_IN_GRAPHS = {tf.float64: tf.float32, tf.int64: tf.int32, tf.complex128: tf.complex64}


@dataclass(frozen=True)
class Leaf:
    """One value of a nested structure.

    tensor is a tf.Tensor, a tf.IndexedSlices, or None for None; kind says what it was: "none", "slices",
    "tensor" (also variables), "array" (numpy), "table" (pandas), "scalar" (numpy) or "number" (Python). table: what of
    pandas it was, whose labels the result gets.
    """

    tensor: Any
    kind: str
    table: Any = None

    def restore(self, tensor: Any) -> Any:
        """A result of the same shape, as the kind of value that was given; a tensor inside a function, where Python
        numbers get the type that TensorFlow gives them."""
        if not tf.executing_eagerly() and self.kind == "number":
            return tf.cast(tensor, _IN_GRAPHS.get(tensor.dtype, tensor.dtype))
        if not tf.executing_eagerly() or self.kind in ("none", "slices", "tensor"):
            return tensor
        array = tensor.numpy()
        if self.kind == "table":
            labels = {"columns": self.table.columns} if array.ndim > 1 else {"name": self.table.name}
            return type(self.table)(array, index=self.table.index, **labels)
        return array if self.kind == "array" else array[()] if self.kind == "scalar" else array.item()

    def restore_rows(self, tensor: Any) -> Any:
        """A result with a first axis of its own: numpy for what came from numpy or Python, else a tensor."""
        if not tf.executing_eagerly() or self.kind in ("none", "slices", "tensor"):
            return tensor
        return tensor.numpy()

    @property
    def is_dense(self) -> bool:
        """Whether there is one tensor to send, neither None nor slices."""
        return self.kind not in ("none", "slices")


def to_leaf(value: Any, function: str, as_float: bool = False) -> Leaf:
    """value, given to lockstep.<function>, as a leaf.

    Python integers become int64, floats float64. as_float: integers of Python and numpy become float64.
    Raises TypeError for what is no number, bool, array, tensor, variable, IndexedSlices or None.
    """
    if value is None:
        return Leaf(None, "none")
    if isinstance(value, tf.IndexedSlices):
        return Leaf(value, "slices")
    if isinstance(value, numbers.Number) and not isinstance(value, np.generic):
        return Leaf(tf.constant(value, _dtype_of_number(value, as_float)), "number")
    if hasattr(value, "to_numpy") and hasattr(value, "index"):
        return replace(to_leaf(value.to_numpy(), function, as_float), kind="table", table=value)
    if isinstance(value, (np.generic, np.ndarray)):
        tensor = tf.constant(value)
        if as_float and tensor.dtype.is_integer:
            tensor = tf.cast(tensor, tf.float64)
        return Leaf(_sendable(tensor, value, function), "array" if isinstance(value, np.ndarray) else "scalar")
    variable = storage(value)
    tensor = value if variable is None else variable
    if not tf.is_tensor(tensor) or isinstance(tensor, (tf.RaggedTensor, tf.SparseTensor)):
        raise _unsuitable(value, function)
    return Leaf(_sendable(tf.convert_to_tensor(tensor), value, function), "tensor")


def _dtype_of_number(number: Any, as_float: bool) -> Any:
    if isinstance(number, bool):
        return tf.bool
    if isinstance(number, numbers.Integral):
        return tf.float64 if as_float else tf.int64
    return tf.float64 if isinstance(number, numbers.Real) else tf.complex128


def _sendable(tensor: Any, value: Any, function: str) -> Any:
    if tensor.dtype == tf.bool or tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_complex:
        return tensor
    raise _unsuitable(value, function, f" of {tensor.dtype.name}")


def _unsuitable(value: Any, function: str, detail: str = "") -> TypeError:
    return TypeError(
        f"lockstep.{function} takes tensors, variables, IndexedSlices, numpy arrays, numbers, bools and None, "
        f"alone or in lists, tuples and dicts, not {type(value).__name__}{detail}"
    )
