"""The check that all workers hold the same batch before each keeps its shard of it.

Comparing costs milliseconds, so it is done for the batches 1, 2, 4, ... and then now and then.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.agreement import agree
from lockstep.data.leaves import rows_of
from lockstep.script import lines

_CHECK_EVERY = 256
_MOST_ROWS = 16


def is_to_be_checked(number: int) -> bool:
    """Whether the batch of this number, from 1, is compared."""
    return number % _CHECK_EVERY == 0 or (number < _CHECK_EVERY and number & (number - 1) == 0)


def agree_on_rows(function: str, leaves: list[Any], rows: int, most_rows: int = _MOST_ROWS) -> None:
    """Compare arrays of so many rows, by a checksum of some of them.

    Raises MismatchError on all ranks, with the line of the script that calls lockstep.<function>, when they differ.
    """
    line = lines.of_thread(threading.get_ident())
    agree(function, fingerprint(leaves, rows, most_rows), _advice(function, line))


def checked(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches of a generator or loader of the script, compared as they come.

    Only in the main thread: elsewhere Keras or TensorFlow takes them, in an order of its own on each rank.
    """
    maker = getattr(batches, "__qualname__", type(batches).__qualname__)
    for number, batch in enumerate(batches, 1):
        check(batch, number, maker)
        yield batch


def check(batch: Any, number: int, maker: str) -> None:
    """Compare the batch of this number, from 1, if that is one of those that are compared."""
    if is_to_be_checked(number) and threading.current_thread() is threading.main_thread():
        leaves = [leaf for leaf in tf.nest.flatten(batch) if getattr(leaf, "shape", None)]
        if tf.executing_eagerly() and leaves and not any(isinstance(leaf, tf.SparseTensor) for leaf in leaves):
            line = lines.of_main_thread()
            sums = " ".join(fingerprint([leaf], int(leaf.shape[0]), _MOST_ROWS) for leaf in leaves)
            agree("shard_batches", sums, _advice(f"shard_batches, batch {number} of {maker}", line))


def _advice(what: str, line: str) -> str:
    where = f" at {line}" if line else ""
    return (
        f"lockstep.{what}{where}: every worker must come with the same samples in the same order, of which each then "
        "keeps its part. What shuffles, draws or reads for itself on each worker, or was cut for it before, gives them "
        "others: seed it with one number for all, let it make whole batches, or leave out this cut."
    )


def fingerprint(leaves: list[Any], rows: int, most_rows: int) -> str:
    """The number of rows, and a checksum over some of them from everywhere: enough to see another order."""
    chosen = np.unique(np.linspace(0, max(rows - 1, 0), min(rows, most_rows)).astype(np.int64))
    checksum = 0
    for leaf in leaves:
        checksum = zlib.crc32(_bytes(_taken(leaf, chosen)), checksum)
    return f"{len(leaves)} arrays of {rows} samples, checksum {checksum:08x}"


def _taken(value: Any, indices: np.ndarray[Any, Any]) -> Any:
    if hasattr(value, "iloc"):
        return value.iloc[indices]
    if isinstance(value, tf.SparseTensor):
        return tf.sparse.to_dense(rows_of(value, indices))
    if isinstance(value, (tf.Tensor, tf.Variable, tf.RaggedTensor)):
        return tf.gather(value, indices)
    return [value[i] for i in indices] if isinstance(value, (list, tuple)) else value[indices]


def _bytes(rows: Any) -> bytes:
    if isinstance(rows, tf.RaggedTensor):
        rows = rows.to_list()
    if hasattr(rows, "toarray"):  # scipy.sparse
        rows = rows.toarray()
    array = np.asarray(rows, dtype=object) if isinstance(rows, (list, tuple)) else np.asarray(rows)
    return repr(array.tolist()).encode() if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()
