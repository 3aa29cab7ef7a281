"""shard_and_rebatch_dataset: each rank its share of a tf.data pipeline of single samples.

Element i goes to rank i % N, so that the ranks' k-th local batches together are the k-th global batch.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep._batch_size import local_batch_size
from lockstep._cuts import note_cut, refuse_cut
from lockstep._random_state import agree_on_dataset_order
from lockstep._world import backend


def shard_and_rebatch_dataset(dataset: Any, global_batch_size: int, drop_remainder: bool) -> tuple[Any, int]:
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "lockstep.shard_and_rebatch_dataset takes a tf.data.Dataset of single samples, not "
            f"{type(dataset).__name__}; for other iterables of batches there is lockstep.shard_batches"
        )
    refuse_cut("shard_and_rebatch_dataset", [dataset])
    local = local_batch_size(global_batch_size, backend().size)
    agree_on_dataset_order("shard_and_rebatch_dataset")
    share = _shard(dataset, backend().rank, backend().size, drop_remainder)
    note_cut("shard_and_rebatch_dataset", [share])
    return share, local


def _shard(dataset: Any, rank: int, size: int, drop_remainder: bool) -> Any:
    """Every size-th element from the rank-th on; the same number of elements on all ranks."""
    count = int(tf.data.experimental.cardinality(dataset))
    if count == tf.data.experimental.UNKNOWN_CARDINALITY:
        return _shard_uncounted(dataset, rank, size, drop_remainder)
    if count == tf.data.experimental.INFINITE_CARDINALITY or count % size == 0:
        return dataset.shard(size, rank)
    if drop_remainder:
        return dataset.take(count // size * size).shard(size, rank)
    total = -(-count // size) * size
    return dataset.repeat(-(-total // count)).take(total).shard(size, rank)


def _shard_uncounted(dataset: Any, rank: int, size: int, drop_remainder: bool) -> Any:
    """Groups of `size` elements, of which each rank takes one; a last, short group is gone through again
    from its beginning. Windows, not batches: the elements may have different shapes."""

    def own_element(*group: Any) -> Any:
        windows = group if type(dataset.element_spec) is tuple else group[0]
        elements = windows if isinstance(windows, tf.data.Dataset) else tf.data.Dataset.zip(windows)
        return elements.repeat().skip(rank).take(1)

    return dataset.window(size, drop_remainder=drop_remainder).flat_map(own_element)
