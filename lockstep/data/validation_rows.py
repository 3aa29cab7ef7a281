"""The rows that `fit` splits off arrays for validation: every worker validates on all of them, as one process does.

Keras splits the arrays that it is given, here those of one rank. So `fit` is given the rank's rows of the training part
and, as validation data, the whole validation part.
"""

from __future__ import annotations

import inspect
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from lockstep.data.leaves import leaves_of, mapped, rows_of

_DATA = ("x", "y", "sample_weight")


@dataclass(frozen=True)
class _Split:
    """Of one array of a rank: how many of its rows are for training, and those of all ranks that are for validation.

    `batch_size` is the global one, None where nobody says.
    """

    array: Any  # gives it, as long as it is there
    validation_split: float
    training: int
    validation: Any
    batch_size: int | None


_splits: dict[int, _Split] = {}  # by the id of the array


def note(
    arrays: list[Any],
    training: int,
    whole: list[Any],
    validation: np.ndarray[Any, Any],
    validation_split: float,
    batch_size: int | None,
) -> None:
    """Of a rank's arrays so many rows are for training; of the whole ones that they are of, those of these indices are
    for validation."""
    for array, of_all in zip(arrays, whole):
        reference, rows = _reference(array), rows_of(of_all, validation)
        _splits[id(array)] = _Split(reference, validation_split, training, rows, batch_size)


def _reference(array: Any) -> Any:
    key = id(array)
    try:
        return weakref.ref(array, lambda _: _splits.pop(key, None))
    except TypeError:  # a list stays
        return lambda: array


def with_whole_validation(fit: Any, *args: Any, **kwargs: Any) -> inspect.BoundArguments | None:
    """The arguments of a `fit` that splits arrays, with the split made. None where it splits none, or where they are
    not what shard_arrays has given."""
    given = inspect.signature(fit).bind(*args, **kwargs)
    arguments = given.arguments
    validation_split = arguments.get("validation_split")
    if not validation_split or arguments.get("validation_data") is not None:
        return None
    data = [arguments.get(name) for name in _DATA]
    try:
        leaves = leaves_of(data)
    except TypeError:  # no arrays
        return None
    splits = {id(leaf): _splits[id(leaf)] for leaf in leaves if _is_known(leaf, validation_split)}
    if not splits or len(splits) < len({id(leaf) for leaf in leaves}):
        return None
    training = [mapped(value, lambda leaf: rows_of(leaf, np.arange(splits[id(leaf)].training))) for value in data]
    validation = [mapped(value, lambda leaf: splits[id(leaf)].validation) for value in data]
    arguments.update({name: value for name, value in zip(_DATA, training) if value is not None})
    arguments.update(validation_split=0.0, validation_data=tuple(validation[: 3 if validation[2] is not None else 2]))
    if arguments.get("validation_batch_size") is None:
        arguments["validation_batch_size"] = next(iter(splits.values())).batch_size
    return given


def _is_known(leaf: Any, validation_split: float) -> bool:
    split = _splits.get(id(leaf))
    return split is not None and split.array() is leaf and split.validation_split == validation_split
