"""The cut of a pipeline whose samples do not come out even: it waits until the pipeline makes batches of them.

Shares of unequal length would end in unequal batches, or in another number of steps, and what is shuffled or repeated
behind a cut cannot be evened out any more. So every worker goes through all samples, in one order, until the script
batches them: there the batch is made as large as in one process, and each worker keeps its shard of it.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from lockstep.data.batches import shard_dataset
from lockstep.data.cuts import note_cut
from lockstep.data.random_state import agree_on_dataset_order

_METHODS = ("batch", "padded_batch", "ragged_batch")
# What makes batches in a way of its own, by the names of TensorFlow's classes.
_OTHER_BATCHES = ("MapAndBatch", "GroupByWindow", "DenseToSparseBatch")


@dataclass(frozen=True)
class _Deferred:
    """shards: how many of the script's local batches make a global one."""

    shards: int
    loss: str


_deferred: weakref.WeakKeyDictionary[Any, _Deferred] = weakref.WeakKeyDictionary()
_cut: weakref.WeakSet[Any] = weakref.WeakSet()


def defer_cut(dataset: Any, shards: int, loss: str) -> Any:
    """The same samples, as a dataset of which the next batches are cut."""
    _extend()
    whole = dataset.with_options(_in_order())  # an object of its own: the script may use the other one uncut
    _deferred[whole] = _Deferred(shards, loss)
    return whole


def _in_order() -> Any:
    options = tf.data.Options()
    setattr(options, "deterministic" if hasattr(options, "deterministic") else "experimental_deterministic", True)
    return options


def _deferred_of(dataset: Any) -> _Deferred | None:
    """The cut that is still to be made in what this dataset comes from."""
    if dataset in _cut:
        return None
    if dataset in _deferred:
        return _deferred[dataset]
    return next(filter(None, map(_deferred_of, dataset._inputs())), None)


def _whole(dataset: Any) -> Any:
    """The same samples, of which nothing is to be cut any more."""
    whole = dataset.with_options(_in_order())
    _cut.add(whole)
    return whole


def _cut_now(batches: Any, deferred: _Deferred) -> Any:
    agree_on_dataset_order("shard_and_rebatch_dataset, where its samples are batched")
    shard = shard_dataset(batches.with_options(_in_order()), deferred.loss)
    _cut.add(shard)
    note_cut("shard_and_rebatch_dataset", [shard], deferred.loss)
    return shard


@functools.cache
def _extend() -> None:
    """Let datasets know, once for all, of deferred cuts."""
    cls: Any = tf.data.Dataset
    for name in _METHODS:
        if hasattr(cls, name):
            setattr(cls, name, _batching(getattr(cls, name)))
    if hasattr(cls, "bucket_by_sequence_length"):
        cls.bucket_by_sequence_length = _bucketing(cls.bucket_by_sequence_length)
    cls.apply = _applying(cls.apply)


def _batching(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def batch(self: Any, batch_size: Any, *args: Any, **kwargs: Any) -> Any:
        deferred = _deferred_of(self)
        if deferred is None:
            return method(self, batch_size, *args, **kwargs)
        return _cut_now(method(_whole(self), batch_size * deferred.shards, *args, **kwargs), deferred)

    return batch


def _bucketing(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def bucket_by_sequence_length(
        self: Any, element_length_func: Any, bucket_boundaries: Any, bucket_batch_sizes: Any, *args: Any, **kwargs: Any
    ) -> Any:
        deferred = _deferred_of(self)
        if deferred is None:
            return method(self, element_length_func, bucket_boundaries, bucket_batch_sizes, *args, **kwargs)
        sizes = [size * deferred.shards for size in bucket_batch_sizes]
        return _cut_now(method(_whole(self), element_length_func, bucket_boundaries, sizes, *args, **kwargs), deferred)

    return bucket_by_sequence_length


def _applying(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def apply(self: Any, transformation_func: Any) -> Any:
        result = method(self, transformation_func)
        deferred = _deferred_of(result) if isinstance(result, tf.data.Dataset) else None
        if deferred is not None and any(name in type(result).__name__ for name in _OTHER_BATCHES):
            raise ValueError(
                f"lockstep.shard_and_rebatch_dataset: {type(result).__name__} makes batches where lockstep cannot cut "
                "them, and the samples do not come out even. Use dataset.batch, or lockstep.shard_batches behind it."
            )
        return result

    return apply
