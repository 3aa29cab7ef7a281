"""Which values are datasets of tf.data."""

from __future__ import annotations

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.values import Element, External, Member, Result, Value, calls, is_call_of
from migrator.facts.program.syntax import argument

# They give several datasets at once.
_SEVERAL = ("tensorflow_datasets.load", "keras.utils.split_dataset")
_SHARDED_DATASETS = ("shard_batches", "shard_and_rebatch_dataset")


def is_dataset(value: Value) -> bool:
    if isinstance(value, Element):
        return _shards(value.of) or is_call_of(value.of, *_SEVERAL) or _is_one_of_two(value)
    if not isinstance(value, Result):
        return False
    if isinstance(value.function, External):
        return api.is_dataset_source(value.function.path) or _shards(value)
    return (
        isinstance(value.function, Member)
        and value.function.name in api.DATASET_METHODS
        and is_dataset(value.function.owner)
    )


def _shards(value: Value) -> bool:
    """Whether a distribution library gave back its share of a dataset."""
    path = calls(value)
    return vocabulary.has_role(path, Role.SHARD) and path.endswith(_SHARDED_DATASETS)


def _is_one_of_two(value: Element) -> bool:
    """The data for training or for validation of `image_dataset_from_directory(..., subset="both")`."""
    made = value.of
    if len(value.path) != 1 or not is_call_of(made, *api.BATCHED_SOURCES) or not isinstance(made, Result):
        return False
    subset = argument(made.call, "subset")
    return subset is not None and isinstance(subset.value, cst.SimpleString) and subset.value.evaluated_value == "both"
