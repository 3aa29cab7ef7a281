"""all_gather and gather: every rank's rows, one after the other; shard_like: back to a rank's own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from lockstep.collectives.agreement import compare_calls
from lockstep.collectives.differentiable import is_differentiable, of_gathered, with_gradient
from lockstep.collectives.leaves import Leaf, to_leaf
from lockstep.collectives.listed import first_rows, is_array
from lockstep.collectives.texts import from_bytes, is_strings, to_bytes
from lockstep.collectives.world import backend, check_root
from lockstep.shards import eager_origins, origins, repeated, step_rows

_ADVICE = (
    "Every worker must gather the same structure at the same point; only the number of rows (the first axis) "
    "may differ."
)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def all_gather(values: Any) -> Any:
    origins.follow()
    return _gathered(values, "all_gather", "all_gather()")


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def gather(values: Any, root_rank: int) -> Any:
    check_root(root_rank)
    gathered = _gathered(values, "gather", f"gather(root_rank={root_rank})")
    return gathered if backend().rank == root_rank else None


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def shard_like(values: Any, shard: Any) -> Any:
    own = tf.nest.flatten(shard)[0]
    rows = own.nrows(tf.int64) if isinstance(own, tf.RaggedTensor) else tf.shape(own, out_type=tf.int64)[0]
    compare_calls("shard_like()", "", _ADVICE)
    step = step_rows.current()
    counting = rows if step is None else tf.where(step.counting > 0, rows, 0)
    counts = tf.ensure_shape(backend().gather(counting[None]), [backend().size])
    # A rank whose rows another one has too takes any: they weigh nothing.
    first = tf.where(counting > 0, tf.reduce_sum(counts[: backend().rank]), 0)

    def part(value: Any) -> Any:
        if getattr(value, "shape", ()) == ():
            return value
        whole = tf.convert_to_tensor(value)
        found = tf.shape(whole, out_type=tf.int64)[0]
        told = "lockstep.shard_like: these are not the rows of all workers, as all_gather puts them together"
        with tf.control_dependencies([tf.debugging.assert_equal(found, tf.reduce_sum(counts), told)]):
            part = tf.ensure_shape(whole[first : first + rows], [own.shape[0], *whole.shape[1:]])
        return origins.own(part)

    return tf.nest.map_structure(part, values)


def _gathered(listed: Any, function: str, call: str) -> Any:
    values = _with_arrays(listed)
    given = tf.nest.flatten(values)
    # Keras computes a crossentropy of these, where a sigmoid or softmax has made the values.
    logits = [(i, value._keras_logits) for i, value in enumerate(given) if _has_logits(value)]
    given += [each for _, each in logits]
    leaves = [to_leaf(part, function) for value in given for part in _dense(value)]
    compare_calls(call, " ".join(_describe(leaf) for leaf in leaves), _ADVICE)
    parts = [part for leaf in leaves for part in _parts(leaf)]
    rows = iter(gather_rows([_counting(part if part.shape.rank else part[None]) for part in parts]))
    joined = iter([_joined(leaf, rows) for leaf in leaves])
    found = [_like(value, joined) for value in given]
    count = len(found) - len(logits)
    for (i, _), each in zip(logits, found[count:]):
        found[i]._keras_logits = each
    gathered = tf.nest.pack_sequence_as(values, found[:count])
    return _with_lists(gathered, listed) if tf.executing_eagerly() else gathered


def _with_arrays(values: Any) -> Any:
    """The same structure with an array for each list that is one: with a tensor of TensorFlow's types in a graph."""
    if isinstance(values, dict):
        return type(values)({key: _with_arrays(value) for key, value in values.items()})
    if is_array(values):
        rows = first_rows(values)
        array = np.asarray(rows) if tf.executing_eagerly() else tf.convert_to_tensor(rows)
        return array[: len(values)]
    return type(values)([_with_arrays(value) for value in values]) if type(values) in (list, tuple) else values


def _with_lists(gathered: Any, given: Any) -> Any:
    """The same with lists again where they were given: an array has a type of its own, which a function may not take in
    place of Python's numbers."""
    if isinstance(given, dict):
        return type(given)({key: _with_lists(gathered[key], value) for key, value in given.items()})
    if is_array(given):
        rows = first_rows(given)
        return type(rows)(gathered if isinstance(rows[0], np.generic) else gathered.tolist())
    if type(given) in (list, tuple):
        return type(given)([_with_lists(*each) for each in zip(gathered, given)])
    return gathered


def _has_logits(value: Any) -> bool:
    return tf.is_tensor(value) and getattr(value, "_keras_logits", None) is not None


def _counting(rows: Any) -> Any:
    """The rows that are to be sent: none of a rank whose rows another one has too, or which do not count at all."""
    step = step_rows.current()
    return rows if step is None else rows[: tf.where(step.counting > 0, tf.shape(rows)[0], 0)]


def _dense(value: Any) -> list[Any]:
    """What a ragged tensor is made of: its values, then its rows' lengths, from the outermost axis on; strings: their
    bytes and lengths; a sparse tensor: see _of_sparse."""
    if isinstance(value, tf.SparseTensor):
        return _of_sparse(value)
    if is_strings(value):
        return to_bytes(value)
    return [value.flat_values, *value.nested_row_lengths()] if isinstance(value, tf.RaggedTensor) else [value]


def _like(value: Any, joined: Iterator[Any]) -> Any:
    first = next(joined)
    if isinstance(value, tf.SparseTensor):
        return _sparse(first, next(joined), next(joined))
    if is_strings(value):
        return from_bytes(first, next(joined), value)
    if not isinstance(value, tf.RaggedTensor):
        return first
    lengths = [next(joined) for _ in range(value.ragged_rank)]
    return tf.RaggedTensor.from_nested_row_lengths(first, lengths, validate=False)


def _of_sparse(value: Any) -> list[Any]:
    """Its values, where they stand, and its shape, the latter two behind the rank's number."""
    rank = tf.constant(backend().rank, tf.int64, [1, 1])
    places = tf.concat([tf.repeat(rank, tf.shape(value.indices)[0], axis=0), value.indices], 1)
    return [value.values, places, tf.concat([rank, value.dense_shape[None]], 1)]


def _sparse(values: Any, places: Any, shapes: Any) -> Any:
    """One of all ranks' rows: those of a rank stand behind those of all before it."""
    before = places[:, :1] > shapes[None, :, 0]
    first = tf.reduce_sum(tf.where(before, shapes[None, :, 1], 0), axis=1)
    indices = tf.concat([(places[:, 1] + first)[:, None], places[:, 2:]], 1)
    shape = tf.concat([tf.reduce_sum(shapes[:, 1:2], axis=0), tf.reduce_max(shapes[:, 2:], axis=0)], 0)
    return tf.SparseTensor(indices, values, shape)


def _describe(leaf: Leaf) -> str:
    """What has to be equal: everything but the number of rows."""
    shape = f"{leaf.tensor.shape[1:]}" if leaf.is_dense and leaf.tensor.shape.rank else "()" if leaf.is_dense else ""
    if leaf.kind == "slices":
        shape = f"{leaf.tensor.values.shape[1:]}"
    dtype = leaf.tensor.dtype.name if leaf.tensor is not None else ""
    return f"{'slices' if leaf.kind == 'slices' else ''}{dtype}{shape}".replace(" ", "") or "None"


def _parts(leaf: Leaf) -> list[Any]:
    """The tensors to send for a leaf."""
    if leaf.kind == "slices":
        return [leaf.tensor.values, leaf.tensor.indices]
    return [] if leaf.tensor is None else [leaf.tensor]


def _joined(leaf: Leaf, rows: Any) -> Any:
    if leaf.kind == "slices":
        return tf.IndexedSlices(next(rows), next(rows), leaf.tensor.dense_shape)
    if leaf.tensor is None:
        return None
    restored = leaf.restore_rows(next(rows))
    if tf.executing_eagerly() and leaf.tensor.dtype.is_integer and leaf.tensor.shape.rank:
        _note_indices(restored)
    return restored


def _note_indices(rows: Any) -> None:
    """Rows of all ranks by which others may be looked up: in this step, or in one that is given them."""
    if not tf.is_tensor(rows):
        eager_origins.note_array(rows)
    if pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        repeated.note_whole()


def gather_rows(tensors: Sequence[Any]) -> list[Any]:
    """For each tensor the rows of all ranks in rank order, [k_0 + k_1 + ..., ...].

    tensors: of rank one or more; the first axis may have another length k on each rank.
    """
    return [rows for rows, _ in gather_counted_rows(tensors)]


def gather_counted_rows(tensors: Sequence[Any]) -> list[tuple[Any, Any]]:
    """For each tensor the rows of all ranks in rank order, and how many each rank has, int64 [N]."""
    if not tensors:
        return []
    mine = tf.stack([tf.shape(tensor, out_type=tf.int64)[0] for tensor in tensors])
    counts = backend().gather(mine[None])
    counts = tf.ensure_shape(counts, [backend().size, len(tensors)])
    return [(_rows_of_all(tensor, counts[:, i]), counts[:, i]) for i, tensor in enumerate(tensors)]


def _rows_of_all(tensor: Any, counts: Any) -> Any:
    rows = _gathered_rows(tensor, counts)
    if is_differentiable(tensor):
        rank = backend().rank
        (rows,) = with_gradient([tensor], [rows], of_gathered(tf.reduce_sum(counts[:rank]), counts[rank]))
    return origins.alike(rows)


def _gathered_rows(tensor: Any, counts: Any) -> Any:
    """counts [size]: how many rows each rank has. All send as many as the longest, and the filling is left out."""
    longest = tf.reduce_max(counts)
    valid = tf.reshape(tf.sequence_mask(counts, longest), [-1])
    rows = tf.boolean_mask(backend().gather(_padded(tensor, longest)), valid)
    rows.set_shape([None, *tensor.shape[1:]])
    return rows


def _padded(rows: Any, length: Any) -> Any:
    missing = length - tf.shape(rows, out_type=tf.int64)[0]
    below = tf.zeros(tf.concat([missing[None], tf.shape(rows, out_type=tf.int64)[1:]], 0), rows.dtype)
    return tf.concat([rows, below], 0)
