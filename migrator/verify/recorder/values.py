"""Tensors, variables and sparse gradients of every Keras as plain variables and numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain_variable(value: Any) -> Any:
    """The tf.Variable that a tf.Variable or a variable of Keras 3 is; None for anything else."""
    import tensorflow as tf

    if isinstance(value, tf.Variable):
        return value
    inner = getattr(value, "_value", None)
    return inner if isinstance(inner, tf.Variable) else None


def as_array(value: Any) -> Any:
    """The numbers of a tensor, a variable, or dense ones of tf.IndexedSlices, as a numpy array."""
    import tensorflow as tf

    variable = plain_variable(value)
    if variable is not None:
        value = variable
    if isinstance(value, tf.IndexedSlices):
        value = tf.convert_to_tensor(value)
    if isinstance(value, (list, tuple)):
        return np.concatenate([np.ravel(as_array(part)) for part in value if part is not None] or [np.zeros(1)])
    array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
    # bfloat16 is none of numpy's own types
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype.itemsize < 4 else array


def name_of(variable: Any) -> str:
    """dense/kernel, for a variable of Keras 3 by its path."""
    return str(getattr(variable, "path", "") or getattr(variable, "name", "") or "variable").split(":")[0]


def shape_of(variable: Any) -> list[int]:
    return [int(length) for length in variable.shape]
