"""What came out of a cut, so that nobody cuts it again: each worker would train on a shard of its shard.

Datasets are followed through what is made of them, arrays through their views; lists of samples are not.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.script import lines
from lockstep.shards import repeated

_made_by: dict[int, tuple[weakref.ref[Any], str]] = {}  # by id, since arrays have no hash
_gathered: set[str] = set()
_cuts: dict[int, tuple[weakref.ref[Any], Any]] = {}  # by the id of what was cut


def note_cut(function: str, shards: Iterable[Any], loss: str = "") -> None:
    """Remember that lockstep.<function> made these, for such a loss, as long as they exist."""
    repeated.note_cut()
    line = lines.of_main_thread()
    made_by = f"lockstep.{function}" + (f" at {line}" if line else "")
    if loss == "gather":
        made_by += ", to be gathered"
        _gathered.add(made_by)
    for shard in shards:
        with contextlib.suppress(TypeError):  # a list takes no weak reference
            _made_by[id(shard)] = weakref.ref(shard, functools.partial(_forget, id(shard))), made_by


def _forget(identity: int, _: Any) -> None:
    _made_by.pop(identity, None)
    _cuts.pop(identity, None)


def note_rows(shard: Any, cut: Any) -> None:
    """Remember what chooses this rank's rows of these batches, as long as they exist."""
    _cuts[id(shard)] = weakref.ref(shard, functools.partial(_forget, id(shard))), cut


def cuts_of(value: Any) -> list[Any]:
    """What chooses this rank's rows of these batches, and of those that they were made of."""
    noted = [(source, *_cuts.get(id(source), (None, None))) for source in _sources(value)]
    return [cut for source, reference, cut in noted if reference is not None and reference() is source]


def refuse_cut(function: str, values: Iterable[Any]) -> None:
    """Raises ValueError when one of the values that lockstep.<function> is to cut has been cut already."""
    for made_by in filter(None, map(_origin, values)):
        raise ValueError(
            f"lockstep.{function}: this was cut already, by {made_by}: each worker would get a part of its part, and "
            "the other samples would be lost. Cut once, and give what came of it to every loop that trains on it."
        )


def is_cut_to_be_gathered(value: Any) -> bool:
    """Whether this was cut for a loss over gathered rows: its shards may have unequally many."""
    return _origin(value) in _gathered


def _origin(value: Any) -> str | None:
    """The call that cut the value, or what it was made of; None where none is known."""
    for source in _sources(value):
        reference, made_by = _made_by.get(id(source), (None, ""))
        if reference is not None and reference() is source:
            return made_by
    return None


def _sources(value: Any) -> Iterator[Any]:
    """The value, and what it is a transformation, an iterator or a view of."""
    yield value
    if isinstance(value, tf.data.Dataset):
        for source in value._inputs():
            yield from _sources(source)
        for tensor in getattr(value, "_tensors", ()):  # of from_tensor_slices
            yield from _arrays_like(tensor)
    elif isinstance(value, np.ndarray) and value.base is not None:
        yield from _sources(value.base)
    else:
        # iter(dataset), and dataset.as_numpy_iterator()
        for name in ("_dataset", "_iterator"):
            source = getattr(value, name, None)
            if isinstance(source, (tf.data.Dataset, tf.data.Iterator)):
                yield from _sources(source)


def _arrays_like(tensor: Any) -> Iterator[Any]:
    """What was cut and has the content of a dataset's tensor, which TensorFlow has copied out of an array."""
    yield tensor
    if not hasattr(tensor, "numpy") or not tensor.shape.rank:
        return
    for reference, _ in list(_made_by.values()):
        shard = reference()
        if isinstance(shard, np.ndarray) and _is_copy(tensor, shard):
            yield shard


def _is_copy(tensor: Any, array: Any) -> bool:
    if tensor.dtype != array.dtype or tensor.shape != array.shape or not np.array_equal(array, tensor.numpy()):
        return False
    return bool((array != array[:1]).any())  # equal by chance is only what says nothing, as an array of zeros
