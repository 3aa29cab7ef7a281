"""Arrays in nested lists, tuples, dicts, dataclasses and namespaces: each by itself, and something made of each."""

from __future__ import annotations

import copy
import dataclasses
import types
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.listed import NoRows


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
    return _with(value, {field.name: changed(getattr(value, field.name)) for field in dataclasses.fields(value)})


def _with(value: Any, fields: dict[str, Any]) -> Any:
    copied = copy.copy(value)
    for name, held in fields.items():
        object.__setattr__(copied, name, held)  # also of a frozen one
    return copied


def _named(value: Any) -> dict[Any, Any] | None:
    """What a dict, a dataclass, a named tuple or a namespace holds, by its names; None for all else."""
    if isinstance(value, dict):
        return value
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, types.SimpleNamespace):
        return vars(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value))
    return None


def leaves_of(value: Any, whole: Collection[str] = ()) -> list[Any]:
    """`whole`: names of entries and fields that are no arrays of rows. Texts are none anywhere."""
    if value is None or isinstance(value, (str, bytes)):
        return []
    named = _named(value)
    if named is not None:
        return [leaf for name, held in named.items() if name not in whole for leaf in leaves_of(held, whole)]
    if _is_container(value):
        return [leaf for element in value for leaf in leaves_of(element, whole)]
    if isinstance(value, tf.data.Dataset):
        raise TypeError("a dataset is no array: for datasets there is lockstep.shard_batches")
    is_sparse = isinstance(value, tf.SparseTensor) and value.shape.rank != 0
    if not is_sparse and not (hasattr(value, "__getitem__") and _has_length(value)):
        raise TypeError(
            f"lockstep cannot split a {type(value).__name__} by samples; an entry of a batch that is one at times "
            "should always have as many rows as the others, as np.full gives it"
        )
    return [value]


def _has_length(value: Any) -> bool:
    shape = getattr(value, "shape", None)
    return hasattr(value, "__len__") if shape is None else len(shape) > 0


def _is_array(value: Any) -> bool:
    """Whether it is one value with rows, and neither text nor something that holds others."""
    return not (value is None or isinstance(value, (str, bytes)) or _is_container(value) or _named(value) is not None)


def records_in(value: Any, whole: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """The arrays that dicts, dataclasses, named tuples and namespaces hold by their names, one dict for each of them;
    `whole`: names that are left out."""
    named = _named(value)
    held = named.values() if named is not None else value if _is_container(value) else ()
    if named is not None:
        yield {name: array for name, array in named.items() if name not in whole and _is_array(array)}
    for inner in held:
        yield from records_in(inner, whole)


def length(array: Any) -> int:
    if isinstance(array, tf.RaggedTensor):
        return int(array.nrows())
    return len(array) if getattr(array, "shape", None) is None else int(array.shape[0])


def mapped(value: Any, function: Callable[[Any], Any], whole: Collection[str] = ()) -> Any:
    """The same structure with what `function` makes of each array in it; None and texts stay, and so does what is under
    one of the names `whole`."""
    if value is None or isinstance(value, (str, bytes)):
        return value
    named = _named(value)
    if named is not None:
        made = {name: held if name in whole else mapped(held, function, whole) for name, held in named.items()}
        if isinstance(value, dict):
            return made
        if isinstance(value, types.SimpleNamespace):
            return type(value)(**made)
        return type(value)(*made.values()) if isinstance(value, tuple) else _with(value, made)
    if _is_container(value):
        return type(value)(mapped(element, function, whole) for element in value)
    return function(value)


class ListedRows(list):  # type: ignore[type-arg]
    """A rank's rows of a list of Python's: the same as that, and known again where `fit` is given it."""


def rows_of(array: Any, indices: Any) -> Any:
    """The rows of one array, of whatever kind, that have these int64 indices; of a sparse tensor, each once."""
    if hasattr(array, "iloc"):
        return array.iloc[indices]
    if isinstance(array, tf.SparseTensor):
        return _sparse_rows(array, tf.cast(indices, tf.int64))
    if isinstance(array, (tf.Tensor, tf.Variable, tf.RaggedTensor)):
        return tf.gather(array, indices)
    if isinstance(array, (list, tuple)):
        found = type(array)(array[i] for i in indices)
        return NoRows(array[0]) if isinstance(array, list) and array and not found else found
    return array[indices]


def _sparse_rows(array: Any, indices: Any) -> Any:
    count = tf.shape(indices, out_type=tf.int64)[0]
    places = tf.tensor_scatter_nd_update(
        tf.fill(array.dense_shape[:1], tf.constant(-1, tf.int64)), indices[:, None], tf.range(count)
    )
    row = tf.gather(places, array.indices[:, 0])
    kept = tf.where(row >= 0)[:, 0]
    found = tf.concat([tf.gather(row, kept)[:, None], tf.gather(array.indices, kept)[:, 1:]], 1)
    shape = tf.concat([count[None], array.dense_shape[1:]], 0)
    return tf.sparse.reorder(tf.SparseTensor(found, tf.gather(array.values, kept), shape))
