"""unshard_batch: all rows of a batch that was cut, each once and in the order that they had.

Where rows were dealt out one by one, those of rank r are every N-th from the r-th on. Where N does not divide the batch
and the loss is a mean, several ranks have one shard. How many shards there are is known of the batch that a step has
cut last; of others the rows themselves tell.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.collectives.gathering import all_gather
from lockstep.collectives.world import backend
from lockstep.data.leaves import rows_of
from lockstep.shards import origins
from lockstep.shards.dealing import shards_cut_last
from lockstep.shards.repeated import number_of_different

_ROUNDING = 1e-5  # what two ranks may make of one row, of the largest value


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def unshard_batch(values: Any, loss: str) -> Any:
    leaves = tf.nest.flatten(values)
    if any(isinstance(leaf, tf.SparseTensor) for leaf in leaves):
        raise TypeError("lockstep.unshard_batch takes no tf.SparseTensor; make it dense with tf.sparse.to_dense")
    own = [leaf for leaf in leaves if getattr(leaf, "shape", None) is not None and len(leaf.shape)]
    if not own:
        return values
    gathered = all_gather(own)
    if loss != "gather":
        counts = tf.ensure_shape(backend().gather(_count(own[0])[None]), [backend().size])
        order = origins.alike(_order(counts, _shards(gathered, counts) if loss == "mean" else _all_ranks()))
        gathered = [rows_of(leaf, order if tf.is_tensor(leaf) else order.numpy()) for leaf in gathered]
    joined = iter(gathered)
    held = {id(leaf) for leaf in own}
    return tf.nest.pack_sequence_as(values, [next(joined) if id(leaf) in held else leaf for leaf in leaves])


def _count(rows: Any) -> Any:
    return rows.nrows(tf.int64) if isinstance(rows, tf.RaggedTensor) else tf.shape(rows, out_type=tf.int64)[0]


def _all_ranks() -> Any:
    return tf.constant(backend().size, tf.int64)


def _shards(gathered: list[Any], counts: Any) -> Any:
    """How many different shards the ranks have: as the batch was cut, or else by the rows of all of them."""
    if tf.executing_eagerly():
        known = shards_cut_last(int(counts[backend().rank]), "mean", backend().rank, backend().size)
        if known is not None:
            return tf.constant(known, tf.int64)
    alike = number_of_different([_comparable(leaf) for leaf in gathered], [counts] * len(gathered), _ROUNDING)
    return tf.where(tf.reduce_all(counts == counts[0]), alike, _all_ranks())


def _comparable(rows: Any) -> tuple[Any, Any]:
    """What of the rows may differ by rounding, and what not at all."""
    if isinstance(rows, tf.RaggedTensor):
        rows = rows.row_lengths()
    rows = tf.convert_to_tensor(rows)
    if rows.dtype.is_floating:
        return rows, tf.zeros(tf.shape(rows)[:1])
    if rows.dtype == tf.string:
        rows = tf.strings.to_hash_bucket_fast(rows, 1 << 62)
    return tf.zeros(tf.shape(rows)[:1]), rows


def _order(counts: Any, shards: Any) -> Any:
    """Which of the gathered rows is the first of the batch, the second, and so on."""
    ranks_of_shard = tf.cast(_all_ranks() // shards, tf.int64)
    first = tf.range(shards) * ranks_of_shard
    place = tf.range(tf.reduce_sum(tf.gather(counts, first)))
    starts = tf.cumsum(counts, exclusive=True)
    return tf.gather(starts, tf.gather(first, place % shards)) + place // shards
