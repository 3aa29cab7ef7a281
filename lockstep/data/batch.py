"""shard_batch: each rank its rows of one global batch that all ranks hold.

Several batches that come together, of two domains for instance, may have unequally many rows: each is dealt out alone,
unless it has as many for each sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import tensorflow as tf

from lockstep.collectives.world import backend
from lockstep.data.cuts import note_cut, refuse_cut
from lockstep.data.leaves import leaves_of, mapped, records_in, rows_of
from lockstep.data.same_batch import agree_on_rows, is_to_be_checked
from lockstep.shards import origins
from lockstep.shards.blocks import blocks_in, indices_of
from lockstep.shards.dealing import dealt, note_cut_of
from lockstep.shards.repeated import note_possible
from lockstep.shards.sizes import say_what_it_costs

_calls = itertools.count(1)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def shard_batch(values: tuple[Any, ...], loss: str, whole: Collection[str] = ()) -> Any:
    whole = {whole} if isinstance(whole, str) else frozenset(whole)
    leaves = [leaf for value in values for leaf in leaves_of(value, whole)]
    refuse_cut("shard_batch", leaves)
    for value in values:
        for record in records_in(value, whole):
            _refuse_tables(record)
    lengths = {length for length in map(_length, leaves) if length is not None}
    if tf.executing_eagerly() and leaves:
        call = next(_calls)
        if is_to_be_checked(call):
            agree_on_rows("shard_batch", leaves, min(lengths))
        if call == 1 and loss == "mean":
            say_what_it_costs(min(lengths), backend().size)
    if loss == "mean":
        note_possible(None, backend().size)
    if leaves and tf.executing_eagerly():
        note_cut_of(min(lengths), loss)
    if leaves:
        together = [_rows_of(leaf) for leaf in leaves]
        values = tuple(mapped(value, lambda leaf: _own(leaf, loss, together), whole) for value in values)
        note_cut("shard_batch", [leaf for value in values for leaf in leaves_of(value, whole)])
    return values[0] if len(values) == 1 else list(values)


def _refuse_tables(record: dict[str, Any]) -> None:
    """Raises ValueError where not all entries of a batch have as many rows: one with others may be no rows of samples,
    a table of the classes for one, and what is left of that on a worker might still fit beside its rows."""
    if len(record) < 2:
        return
    lengths = {name: _length(array) for name, array in record.items()}
    text = (
        "lockstep.shard_batch: not all entries of this batch have as many rows ({}); name those that hold no rows of "
        "samples, as in whole=[{!r}], and pass batches of several sizes as arguments of their own"
    )
    rows = [*lengths.values()]
    odd = min(reversed([*lengths]), key=lambda name: rows.count(lengths[name]))  # the last of those that stand alone
    text = text.format(", ".join(f"{name}: {length}" for name, length in lengths.items()), odd)
    known = {length for length in lengths.values() if length is not None}
    if len(known) > 1:
        raise ValueError(text)
    if None in lengths.values():
        first, *others = map(_running_length, record.values())
        for other in others:
            tf.debugging.assert_equal(other, first, text)


def _own(leaf: Any, loss: str, together: list[Any]) -> Any:
    """This rank's rows of the leaf; `together`: how many rows it and the others have that come together."""
    rows = rows_of(leaf, _own_rows(_rows_of(leaf), loss, together))
    if isinstance(rows, tf.RaggedTensor):
        return rows.with_flat_values(origins.own(rows.flat_values))
    if isinstance(rows, tf.SparseTensor):
        return tf.SparseTensor(rows.indices, origins.own(rows.values), rows.dense_shape)
    return origins.own(rows) if tf.is_tensor(rows) else rows


def _own_rows(rows: Any, loss: str, together: list[Any]) -> Any:
    """The indices of this rank's rows, of so many."""
    blocks, block = blocks_in(rows, together)
    return indices_of(dealt(blocks, loss, backend().rank, backend().size), block)


def _rows_of(leaf: Any) -> Any:
    length = _length(leaf)
    return _running_length(leaf) if length is None else length


def _length(leaf: Any) -> int | None:
    """How many rows; None where a graph knows it only when it runs."""
    if isinstance(leaf, tf.RaggedTensor):
        return int(leaf.nrows()) if tf.executing_eagerly() else None
    shape = getattr(leaf, "shape", None)
    if shape is None:
        return len(leaf)
    return None if shape[0] is None else int(shape[0])


def _running_length(leaf: Any) -> Any:
    if isinstance(leaf, tf.SparseTensor):
        return tf.cast(leaf.dense_shape[0], tf.int32)
    return tf.cast(leaf.nrows(), tf.int32) if isinstance(leaf, tf.RaggedTensor) else tf.shape(leaf)[0]
