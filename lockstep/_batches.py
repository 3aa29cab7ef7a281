"""shard_batches: each rank its slice of every global batch, for data that is batched already.

The slices of all ranks put together are the global batch, whatever its size, and each rank makes as many
steps as one process would. That holds only while all ranks see the batches in the same order.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep._random_state import agree_on_dataset_order, agree_on_host_order
from lockstep._world import backend


def bounds(rows: Any, rank: int, size: int) -> tuple[Any, Any]:
    """The rank's part of `rows` rows: its first row and the one behind its last; never empty."""
    first = rows * rank // size
    end = rows * (rank + 1) // size
    if isinstance(rows, int):
        return first, max(end, first + 1)
    return first, tf.maximum(end, first + 1)


def shard_batches(batches: Any) -> Any:
    if isinstance(batches, tf.data.Dataset):
        agree_on_dataset_order("shard_batches")
        return _shard_dataset(batches)
    if isinstance(batches, (str, bytes, dict, np.ndarray)) or tf.is_tensor(batches):
        raise TypeError(
            "lockstep.shard_batches takes a tf.data.Dataset, a Keras Sequence or another iterable of "
            f"batches, not {type(batches).__name__}; for arrays there is lockstep.shard_arrays"
        )
    agree_on_host_order("shard_batches")
    if hasattr(batches, "__getitem__") and hasattr(batches, "__len__") and not isinstance(batches, (list, tuple)):
        return _shard_sequence(batches)
    if inspect.isgenerator(batches) or hasattr(batches, "__next__"):
        return (_own_rows(batch) for batch in batches)
    if not hasattr(batches, "__iter__"):
        raise TypeError(f"lockstep.shard_batches: a {type(batches).__name__} cannot be iterated over")
    return IterableShare(batches)


def _shard_dataset(dataset: Any) -> Any:
    rank, size = backend().rank, backend().size

    def own_rows(*element: Any) -> Any:
        batch = element if type(dataset.element_spec) is tuple else element[0]
        return tf.nest.map_structure(lambda component: _rows_of_tensor(component, rank, size), batch)

    return dataset.map(own_rows, num_parallel_calls=tf.data.experimental.AUTOTUNE, deterministic=True)


def _rows_of_tensor(tensor: Any, rank: int, size: int) -> Any:
    if isinstance(tensor, tf.SparseTensor):
        shape = tensor.dense_shape
        first, end = bounds(shape[0], rank, size)
        start = tf.concat([first[None], tf.zeros_like(shape[1:])], 0)
        return tf.sparse.slice(tensor, start, tf.concat([(end - first)[None], shape[1:]], 0))
    if isinstance(tensor, tf.RaggedTensor):
        first, end = bounds(tensor.nrows(), rank, size)
        return tensor[first:end]
    if tensor.shape.rank == 0:
        return tensor
    static = tensor.shape[0] if tensor.shape.rank is not None else None
    first, end = bounds(tf.shape(tensor)[0] if static is None else static, rank, size)
    return tensor[first:end]


def _own_rows(batch: Any) -> Any:
    """The rank's rows of a batch of arrays, tensors, or nested tuples, lists and dicts of them."""
    rank, size = backend().rank, backend().size

    def rows(component: Any) -> Any:
        if isinstance(component, (tf.Tensor, tf.RaggedTensor, tf.SparseTensor)):
            return _rows_of_tensor(component, rank, size)
        if not getattr(component, "shape", None):
            return component
        first, end = bounds(int(component.shape[0]), rank, size)
        return component.iloc[first:end] if hasattr(component, "iloc") else component[first:end]

    return tf.nest.map_structure(rows, batch)


class IterableShare:
    """An iterable of global batches, seen as this rank's slices of them; as often as the original."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[Any]:
        return (_own_rows(batch) for batch in self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def _shard_sequence(sequence: Any) -> Any:
    """The same sequence whose __getitem__ gives the rank's rows; Keras looks at its class and options."""
    cls = type(sequence)
    if getattr(cls, "_lockstep_share", False):
        return sequence

    def own_item(self: Any, index: Any) -> Any:
        return _own_rows(cls.__getitem__(self, index))

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__getitem__"] = own_item
        namespace["_lockstep_share"] = True
        namespace["__module__"] = cls.__module__
        namespace["__doc__"] = cls.__doc__

    share: Any = object.__new__(types.new_class(cls.__name__, (cls,), exec_body=fill))
    share.__dict__.update(sequence.__dict__)
    return share
