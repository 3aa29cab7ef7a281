"""shard_arrays: each rank its shard of data that lies in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lockstep.collectives.world import backend
from lockstep.data import validation_rows
from lockstep.data.cuts import note_cut, refuse_cut
from lockstep.data.leaves import ListedRows, leaves_of, length, mapped, rows_of
from lockstep.data.random_state import note_arrays
from lockstep.data.row_weights import note_shard
from lockstep.data.same_batch import agree_on_rows
from lockstep.shards.repeated import note_possible
from lockstep.shards.sizes import local_batch_size, number_of_shards

_CHECKED_ROWS = 64


def shard_arrays(arrays: tuple[Any, ...], validation_split: float, batch_size: int | None, loss: str) -> Any:
    if not arrays:
        raise ValueError("lockstep.shard_arrays needs at least one argument")
    if not 0.0 <= validation_split < 1.0:
        raise ValueError(f"validation_split must be at least 0 and less than 1, not {validation_split}")
    leaves = [leaf for array in arrays for leaf in leaves_of(array)]
    refuse_cut("shard_arrays", leaves)
    lengths = sorted({length(leaf) for leaf in leaves})
    if len(lengths) > 1:
        raise ValueError(
            f"lockstep.shard_arrays: the arrays of one call must have equally many samples, not {lengths}; "
            "arrays that do not belong together go into calls of their own"
        )
    if lengths:
        agree_on_rows("shard_arrays", leaves, lengths[0], _CHECKED_ROWS)
        rank, shards = backend().rank, backend().size
        training = _keras_split(lengths[0], validation_split)
        if loss != "mean":
            _check_parts(training, batch_size, shards)
        elif batch_size is not None:
            note_possible(batch_size, shards)
            shards = number_of_shards(batch_size, shards)
            rank = rank * shards // backend().size
        indices = shard_of(lengths[0], rank, shards, validation_split, batch_size)
        whole = leaves
        arrays = tuple(mapped(array, lambda leaf: _own_rows(leaf, indices)) for array in arrays)
        leaves = [leaf for array in arrays for leaf in leaves_of(array)]
        note_cut("shard_arrays", leaves)
        own = _keras_split(len(indices), validation_split)
        if training < lengths[0]:
            validation_rows.note(leaves, own, whole, np.arange(training, lengths[0]), validation_split, batch_size)
        counting = None
        if loss == "mean" and batch_size is not None and (training % shards or shards < backend().size):
            # Of those that have the same shard, the first rank counts.
            counts = backend().rank % (backend().size // shards) == 0
            counting = len(_in_blocks(training, rank, shards, batch_size)) if counts else 0
        local = None
        if loss != "mean" and batch_size is not None and (batch_size % shards or training % batch_size % shards):
            local = local_batch_size(batch_size, shards, loss, rank)
            if 0 < training % batch_size < shards:
                counting = len(_in_blocks(training, rank, shards, batch_size))
        note_shard(leaves, counting, own, local)
        note_arrays()
    return arrays[0] if len(arrays) == 1 else list(arrays)


def _own_rows(leaf: Any, indices: Any) -> Any:
    rows = rows_of(leaf, indices)
    return ListedRows(rows) if type(rows) is list else rows


def _check_parts(samples: int, batch_size: int | None, size: int) -> None:
    """Whether every rank has rows of each batch that is full, of which none may come twice."""
    rows = batch_size or samples
    if rows < size or (rows % size and not batch_size):
        raise ValueError(
            f"lockstep.shard_arrays: a batch of {rows} rows does not split over {size} workers, each of which needs"
            " a row of it, and equally many without a batch_size, since this loss is no mean over its rows; give "
            "`fit` a tf.data.Dataset of batches and cut it with lockstep.shard_batches, which "
            "splits batches of any size"
        )


def shard_of(
    samples: int, rank: int, size: int, validation_split: float = 0.0, batch_size: int | None = None
) -> np.ndarray[Any, Any]:
    """Which of `samples` samples a rank gets, int64 indices; so many that all ranks make the same number of steps.

    With a validation split, Keras cuts the local array; where it cuts, the rank's shard of the global
    training part ends and its shard of the global validation part begins.
    """
    training = _keras_split(samples, validation_split)
    shard = _training_shard(training, rank, size, batch_size)
    validation = samples - training
    if validation == 0:
        return shard
    length = _validation_length(validation / size, len(shard), validation_split)
    return np.concatenate([shard, training + _validation_shard(validation, rank, size, batch_size, length)])


def _training_shard(samples: int, rank: int, size: int, batch_size: int | None) -> np.ndarray[Any, Any]:
    if batch_size is None:
        return _cyclic(samples, rank, size, math.ceil(samples / size))
    shard = _in_blocks(samples, rank, size, batch_size)
    last = samples % batch_size
    # Every rank needs a row of the last batch, for `fit` makes no step without one; one too many does not count.
    has_one = last * (rank + 1) // size > last * rank // size
    return shard if last == 0 or has_one else np.append(shard, samples - last + rank % last)


def _validation_shard(samples: int, rank: int, size: int, batch_size: int | None, length: int) -> np.ndarray[Any, Any]:
    shard = _cyclic(samples, rank, size, length)
    if batch_size is not None:
        blocks = _in_blocks(samples, rank, size, batch_size)[:length]
        shard[: len(blocks)] = blocks
    return shard


def _in_blocks(samples: int, rank: int, size: int, batch_size: int) -> np.ndarray[Any, Any]:
    """Of each global batch the rows that lie together, as the other cuts deal them out, also where it is shorter."""
    last = samples % batch_size
    full = samples - last
    own = np.arange(batch_size * rank // size, batch_size * (rank + 1) // size, dtype=np.int64)
    batches = np.arange(0, full, batch_size, dtype=np.int64)[:, None] + own
    rest = np.arange(full + last * rank // size, full + last * (rank + 1) // size, dtype=np.int64)
    return np.concatenate([batches.reshape(-1), rest])


def _keras_split(samples: int, validation_split: float) -> int:
    """Where `fit` cuts: the formula of Keras 2 and 3, floating-point error and all."""
    return math.floor(samples * (1.0 - validation_split))


def _validation_length(wanted: float, local_training: int, validation_split: float) -> int:
    """The length closest to the wanted one with which Keras's cut falls behind the training part.

    There always is one: a longer array moves the cut by at most one sample at a time.
    """
    nearest = math.ceil(wanted)
    for distance in range(nearest + local_training + 2):
        for rows in (nearest + distance, nearest - distance):
            if rows > 0 and _keras_split(local_training + rows, validation_split) == local_training:
                return rows
    raise ValueError(f"validation_split={validation_split} leaves a worker without training or validation samples")


def _cyclic(count: int, rank: int, size: int, length: int) -> np.ndarray[Any, Any]:
    """Every size-th of `count` samples from the rank-th on; past the last one, again from the first."""
    return np.arange(rank, rank + length * size, size, dtype=np.int64) % max(count, 1)
