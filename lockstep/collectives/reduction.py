"""all_reduce, reduce and reduce_scatter: nested values in, the same structure out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep.collectives.agreement import compare_calls, describe
from lockstep.collectives.differentiable import is_differentiable, of_reduced, with_gradient
from lockstep.collectives.gathering import gather_counted_rows
from lockstep.collectives.leaves import Leaf, to_leaf
from lockstep.collectives.scattering import no_slices, own_rows
from lockstep.collectives.world import backend, check_root
from lockstep.shards import common_rows, origins, repeated, step_rows

REDUCTIONS = ("mean", "sum", "max", "min", "prod")
_ADVICE = (
    "Every worker must reduce the same values in the same order: look for a branch that only some of them "
    "take, or a model that differs."
)


def check_reduction(reduction: str) -> None:
    """Raises ValueError unless `reduction` is one that there is."""
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}, not {reduction!r}")


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def all_reduce(values: Any, reduction: str) -> Any:
    leaves = _reduced(values, reduction, "all_reduce", f"all_reduce(reduction={reduction!r})")
    return tf.nest.pack_sequence_as(values, [leaf.restore(tensor) for leaf, tensor in leaves])


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def reduce(values: Any, reduction: str, root_rank: int) -> Any:
    check_root(root_rank)
    call = f"reduce(reduction={reduction!r}, root_rank={root_rank})"
    leaves = _reduced(values, reduction, "reduce", call)
    if backend().rank != root_rank:
        return None
    return tf.nest.pack_sequence_as(values, [leaf.restore(tensor) for leaf, tensor in leaves])


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def reduce_scatter(values: Any, reduction: str) -> Any:
    leaves = _reduced(values, reduction, "reduce_scatter", f"reduce_scatter(reduction={reduction!r})")
    shards = [_own_shard(leaf, tensor) for leaf, tensor in leaves]
    return tf.nest.pack_sequence_as(values, shards)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def barrier() -> None:
    compare_calls("barrier", "", "Every worker must come to the same barriers.")
    if not tf.executing_eagerly():
        backend().reduce([tf.zeros([1], tf.int32)], "max")


def _own_shard(leaf: Leaf, tensor: Any) -> Any:
    if tensor is None:
        return None
    return no_slices(leaf, "reduce_scatter").restore(own_rows(tensor, "reduce_scatter"))


def _reduced(values: Any, reduction: str, function: str, call: str) -> list[tuple[Leaf, Any]]:
    """The leaves of values, and what their tensors come to over the ranks."""
    check_reduction(reduction)
    leaves = [_reducible(value, reduction, function) for value in tf.nest.flatten(values)]
    compare_calls(call, describe([leaf.tensor for leaf in leaves]), _ADVICE)
    return list(zip(leaves, _reduce_tensors([leaf.tensor for leaf in leaves], reduction)))


def _reduce_tensors(tensors: Sequence[Any], reduction: str) -> list[Any]:
    reduced = list(tensors)
    slices = [i for i, tensor in enumerate(tensors) if isinstance(tensor, tf.IndexedSlices)]
    dense = [i for i, tensor in enumerate(tensors) if tensor is not None and i not in slices]
    if dense:
        for i, tensor in zip(dense, backend().reduce([tensors[i] for i in dense], reduction)):
            reduced[i] = tensor
        floating = [i for i in dense if is_differentiable(tensors[i])]
        sources, totals = [tensors[i] for i in floating], [reduced[i] for i in floating]
        for i, tensor in zip(floating, with_gradient(sources, totals, of_reduced(sources, totals, reduction))):
            reduced[i] = tensor
        for i in dense:
            if reduced[i].dtype.is_integer:
                reduced[i] = origins.alike(reduced[i])
    if slices:
        for i, tensor in zip(slices, _reduce_slices([tensors[i] for i in slices], reduction)):
            reduced[i] = tensor
    return reduced


def _reducible(value: Any, reduction: str, function: str) -> Leaf:
    leaf = to_leaf(value, function, as_float=reduction == "mean")
    if leaf.tensor is None:
        return leaf
    dtype = leaf.tensor.dtype
    if leaf.kind == "slices":
        if reduction not in ("mean", "sum"):
            raise TypeError(f"lockstep.{function}: IndexedSlices have no {reduction} over workers")
    elif dtype == tf.bool and reduction not in ("max", "min"):
        raise TypeError(
            f"lockstep.{function}: bools have no {reduction}; cast them to a number, or ask for "
            '"max" (any worker\'s) or "min" (all workers\')'
        )
    elif dtype.is_complex and reduction not in ("mean", "sum"):
        raise TypeError(f"lockstep.{function}: complex numbers have no {reduction}")
    if reduction == "mean" and not (dtype.is_floating or dtype.is_complex):
        raise TypeError(
            f"lockstep.{function}: the mean of {dtype.name} tensors would not be {dtype.name}; "
            'cast them to a float dtype, or use reduction="sum"'
        )
    return leaf


def _reduce_slices(slices: Sequence[Any], reduction: str) -> list[Any]:
    """All ranks' rows one after the other. Rows of one index are not merged: Keras optimizers that treat
    each occurrence by itself must see what they would see in one process."""
    split = [common_rows.split(one) for one in slices]
    parts = [part for one in split for part in one]
    gathered = gather_counted_rows([tensor for part, _ in parts for tensor in (part.values, part.indices)])
    rows = [(values, indices, count) for (values, count), (indices, _) in zip(gathered[::2], gathered[1::2])]
    shards = tf.constant(backend().size, tf.int64)
    own = [one for one, (_, are_alike) in zip(rows, parts) if not are_alike]
    may_repeat = bool(own) and reduction == "mean" and repeated.are_possible()
    if may_repeat:
        found = repeated.number_of_different([one[:2] for one in own], [count for *_, count in own])
        step = step_rows.current()
        shards = found if step is None else tf.where(step.may_repeat, found, shards)
    reduced = []
    for (part, are_alike), (values, indices, count) in zip(parts, rows):
        number = shards
        if are_alike:
            values, indices = common_rows.added_up(values, indices, count)
            number = tf.constant(backend().size, tf.int64)
        elif may_repeat:
            values, indices = (repeated.of_first(one, count, shards) for one in (values, indices))
        if reduction == "mean":
            values = values / tf.cast(number, values.dtype)
        reduced.append(tf.IndexedSlices(values, indices, part.dense_shape))
    following = iter(reduced)
    return [common_rows.joined([next(following) for _ in one]) for one in split]
