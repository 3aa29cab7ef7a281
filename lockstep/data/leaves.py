"""Arrays in nested lists, tuples, dicts and dataclasses: each by itself, and something made of each."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


def _is_container(value: Any) -> bool:
    """Whether this list, tuple or dict holds arrays (several inputs), rather than being one array itself."""
    if isinstance(value, dict):
        return True
    return isinstance(value, (list, tuple)) and any(
        element is None or (hasattr(element, "shape") and np.ndim(element) > 0) or isinstance(element, dict)
        for element in value
    )


def is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def with_fields(value: Any, changed: Callable[[Any], Any]) -> Any:
    """The dataclass with what `changed` makes of each field. What else it holds stays as it is: nothing is computed
    anew, so that a number of rows that was taken when it was made still is that of the whole batch."""
    copied = copy.copy(value)
    for field in dataclasses.fields(value):
        object.__setattr__(copied, field.name, changed(getattr(value, field.name)))  # also of a frozen one
    return copied


def leaves_of(value: Any) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for element in value.values() for leaf in leaves_of(element)]
    if is_dataclass(value):
        return [leaf for field in dataclasses.fields(value) for leaf in leaves_of(getattr(value, field.name))]
    if _is_container(value):
        return [leaf for element in value for leaf in leaves_of(element)]
    if isinstance(value, tf.data.Dataset):
        raise TypeError("a dataset is no array: for datasets there is lockstep.shard_batches")
    if isinstance(value, tf.SparseTensor) or not (hasattr(value, "__getitem__") and _has_length(value)):
        raise TypeError(f"lockstep cannot split a {type(value).__name__} by samples")
    return [value]


def _has_length(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return hasattr(value, "__len__") if shape is None else len(shape) > 0


def length(array: Any) -> int:
    if isinstance(array, tf.RaggedTensor):
        return int(array.nrows())
    return len(array) if getattr(array, "shape", None) is None else int(array.shape[0])


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """The same structure with what `function` makes of each array in it; None stays."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {name: mapped(element, function) for name, element in value.items()}
    if is_dataclass(value):
        return with_fields(value, lambda held: mapped(held, function))
    if _is_container(value):
        made = (mapped(element, function) for element in value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return function(value)


def rows_of(array: Any, indices: Any) -> Any:
    """The rows of one array, of whatever kind, that have these int64 indices."""
    if hasattr(array, "iloc"):
        return array.iloc[indices]
    if isinstance(array, (tf.Tensor, tf.Variable, tf.RaggedTensor)):
        return tf.gather(array, indices)
    if isinstance(array, (list, tuple)):
        return type(array)(array[i] for i in indices)
    return array[indices]
