"""shard_and_rebatch_dataset: each rank its shard of a tf.data pipeline of single samples.

Element i goes to rank i % N, so that the ranks' k-th local batches together are the k-th global batch. That holds
where N divides both the number of samples and the global batch; elsewhere, and where a loss gathers the rows of all
ranks, the batches are cut, not the samples.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.collectives.world import backend
from lockstep.data.cuts import note_cut, refuse_cut
from lockstep.data.deferred_cut import defer_cut
from lockstep.data.random_state import agree_on_dataset_order
from lockstep.shards.sizes import local_batch_size, number_of_shards, warn_at_script


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def shard_and_rebatch_dataset(dataset: Any, global_batch_size: int, loss: str) -> tuple[Any, int]:
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            "lockstep.shard_and_rebatch_dataset takes a tf.data.Dataset of single samples, not "
            f"{type(dataset).__name__}; for other iterables of batches there is lockstep.shard_batches"
        )
    refuse_cut("shard_and_rebatch_dataset", [dataset])
    size = backend().size
    local = local_batch_size(global_batch_size, size)
    agree_on_dataset_order("shard_and_rebatch_dataset")
    # What is gathered comes back in the order of the batch only where each rank has rows that lie together.
    if loss != "gather" and _comes_out_even(dataset, global_batch_size, size):
        shard = dataset.shard(size, backend().rank)
    else:
        shard = defer_cut(dataset, number_of_shards(global_batch_size, size), loss)
    note_cut("shard_and_rebatch_dataset", [shard], loss)
    return shard, local


def _comes_out_even(dataset: Any, global_batch_size: int, size: int) -> bool:
    """Whether all ranks get equally many samples of each batch; says what it costs if not."""
    known = tf.get_static_value(tf.data.experimental.cardinality(dataset))  # None inside of a function
    count = tf.data.experimental.UNKNOWN_CARDINALITY if known is None else int(known)
    if global_batch_size % size:
        return False  # which has been said
    if count == tf.data.experimental.INFINITE_CARDINALITY or (count >= 0 and count % size == 0):
        return True
    if count == tf.data.experimental.UNKNOWN_CARDINALITY:
        why = "it is not known how many samples there are"
        advice = (
            f"If {size} divides their number n, dataset.apply(tf.data.experimental.assert_cardinality(n)) before the "
            "cut lets each worker prepare its own."
        )
    else:
        why = f"{count} samples do not split evenly over {size} workers"
        below = count // size * size
        advice = f"The nearest numbers that divide: {below} and {below + size}."
    warn_at_script(
        f"lockstep: {why}, so every worker prepares all samples and trains on its part of each batch. {advice}"
    )
    return False
