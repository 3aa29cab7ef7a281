"""shard_batches: each rank its shard of every global batch, for data that is batched already.

Each rank makes as many steps as one process would, and the ranks' gradients put together are those of the global
batch, whatever its size. That holds only while all ranks see the batches in the same order.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.world import backend
from lockstep.data.cuts import note_cut, note_rows, refuse_cut
from lockstep.data.leaves import is_dataclass, rows_of, with_fields
from lockstep.data.random_state import agree_on_dataset_order, agree_on_host_order
from lockstep.data.same_batch import check, checked
from lockstep.script.no_rows import allow_no_rows
from lockstep.shards.blocks import blocks_in, indices_of
from lockstep.shards.dealing import dealt
from lockstep.shards.repeated import note_possible
from lockstep.shards.sizes import number_of_shards, say_what_it_costs

# Datasets with the batches that they are given, by TensorFlow's names.
_KEEP_BATCHES = {f"{name}Dataset" for name in ("Prefetch", "Options", "Cache", "Shuffle", "Repeat", "Take", "Skip")}


class Cut:
    """Which rows of a batch are this rank's."""

    def __init__(self, loss: str, rows: Iterable[int | None] = (None,)) -> None:
        """rows: how many the batches have, None for any number."""
        self._loss = loss
        # Into how many shards `fit` may deal out all batches, that of a full one; 0 where each rank has rows of its own
        # anyway. Where several have the same, `fit` has to know: their metrics would count them once for each.
        self.shards_in_fit = backend().size if loss == "mean" else 0
        self._now: Any = 0
        if loss == "mean":
            for number in rows:
                note_possible(number, backend().size)

    def __call__(self, rows: Any) -> slice:
        """Those of `rows` rows: an int or an integer tensor."""
        now = self._now if isinstance(self._now, int) else tf.convert_to_tensor(self._now)
        return dealt(rows, self._loss, backend().rank, backend().size, now)

    def deal_into(self, shards: int) -> None:
        """Deal out what comes from now on into so many shards, which differ by a row; 0: into equal ones."""
        allow_no_rows()
        if isinstance(self._now, int):
            self._now = shards
        else:
            self._now.assign(shards)

    def see_dataset(self, dataset: Any) -> None:
        """Have the pipeline that cuts this dataset ask anew for each batch, where `fit` may deal them out otherwise."""
        sizes, size = _static_sizes(dataset), backend().size
        if self._loss != "mean" or len(sizes) != 1:
            self.shards_in_fit = 0
            return
        full = _known_sizes(dataset)
        self.shards_in_fit = number_of_shards(full.pop(), size) if len(full) == 1 else size
        last = _rows_of_last(dataset)
        if sizes != {None} or (last is not None and last % self.shards_in_fit == 0):
            self._now = self.shards_in_fit
            self.shards_in_fit = self._now if self._now < size else 0
            return
        if tf.inside_function():  # of the script's own, which may make no variable, and whose batches `fit` never gets
            self.shards_in_fit = 0
            return
        with tf.init_scope():
            self._now = tf.Variable(0, trainable=False, name="lockstep_shards")


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def shard_batches(batches: Any, loss: str) -> Any:
    refuse_cut("shard_batches", [batches])
    shard = _shard(batches, loss)
    note_cut("shard_batches", [shard], loss)
    return shard


def _shard(batches: Any, loss: str) -> Any:
    if isinstance(batches, tf.data.Dataset):
        agree_on_dataset_order("shard_batches")
        if loss == "mean":
            for rows in _known_sizes(batches):
                say_what_it_costs(rows, backend().size)
        return shard_dataset(batches, loss)
    if isinstance(batches, (str, bytes, dict, np.ndarray)) or tf.is_tensor(batches):
        raise TypeError(
            "lockstep.shard_batches takes a tf.data.Dataset, a Keras Sequence or another iterable of "
            f"batches, not {type(batches).__name__}; for arrays there is lockstep.shard_arrays"
        )
    agree_on_host_order("shard_batches")
    cut = Cut(loss)
    is_sequence = hasattr(batches, "__getitem__") and hasattr(batches, "__len__")
    # One of Keras's may tell the number of its batches by `num_batches` alone.
    if (is_sequence and not isinstance(batches, (list, tuple))) or isinstance(batches, tf.keras.utils.Sequence):
        return _shard_sequence(batches, cut)
    if inspect.isgenerator(batches) or hasattr(batches, "__next__"):
        own = (_own_rows(batch, cut) for batch in checked(batches))
        note_rows(own, cut)
        return own
    if hasattr(batches, "__anext__"):
        return _own_rows_awaited(batches, cut)
    if hasattr(batches, "__aiter__"):
        return AwaitedShard(batches, cut)
    if not hasattr(batches, "__iter__"):
        raise TypeError(f"lockstep.shard_batches: a {type(batches).__name__} cannot be iterated over")
    return IterableShard(batches, cut)


def _known_sizes(dataset: Any) -> set[int]:
    """The rows of a full batch, where the batches say or what made them does."""
    sizes = {size for size in _static_sizes(dataset) if size is not None}
    while not sizes and dataset is not None:
        if hasattr(dataset, "_batch_size"):
            sizes = {int(size) for size in [tf.get_static_value(dataset._batch_size)] if size is not None}
        dataset = next(iter(dataset._inputs()), None)
    return sizes


def _rows_of_last(dataset: Any) -> int | None:
    """The rows of the last batch, which is full where there is none; None where that is not known."""
    while type(dataset).__name__.lstrip("_") in _KEEP_BATCHES:
        dataset = dataset._inputs()[0]
    if not hasattr(dataset, "_batch_size"):
        return None
    known = [dataset._batch_size, tf.data.experimental.cardinality(dataset._inputs()[0])]
    full, samples = (tf.get_static_value(one) for one in known)
    if full is None or samples is None:  # made inside of a function
        return None
    full, samples = int(full), int(samples)
    if samples == tf.data.experimental.INFINITE_CARDINALITY:
        return full
    return None if samples < 0 else samples % full or full


def _static_sizes(dataset: Any) -> set[int | None]:
    """The rows that each batch has by its spec, None for any number."""
    shapes = [getattr(spec, "shape", None) for spec in tf.nest.flatten(dataset.element_spec)]
    return {shape[0] for shape in shapes if shape is not None and shape.rank}


def _possible_sizes(dataset: Any) -> set[int | None]:
    """The rows that a batch may have, None for any number."""
    sizes = _static_sizes(dataset)
    if sizes != {None}:
        return sizes if len(sizes) == 1 else {None}
    last = _rows_of_last(dataset)
    return {None} if last is None else {*_known_sizes(dataset), last}


def shard_dataset(dataset: Any, loss: str) -> Any:
    """A tf.data.Dataset of batches, cut; whoever calls this has made sure that all ranks' batches agree."""
    cut = Cut(loss, _possible_sizes(dataset))
    cut.see_dataset(dataset)

    def own_rows(*element: Any) -> Any:
        batch = element if type(dataset.element_spec) is tuple else element[0]
        return _own_rows(batch, cut)

    shard = dataset.map(own_rows)  # not in parallel, which reads ahead: the batches may be made with what is trained
    shard._lockstep_cut = cut  # what is traced does not keep the variables that it reads
    note_rows(shard, cut)
    return shard


def _own_rows(batch: Any, cut: Cut) -> Any:
    """The rank's rows of a batch of arrays, tensors, or nested tuples, lists, dicts and dataclasses of them."""
    lengths: list[Any] = []

    def note(component: Any) -> None:
        length = _rows_in(component)
        lengths.extend([] if length is None else [length])

    _each(batch, note)
    return _each(batch, lambda component: _rows_of_component(component, cut, lengths))


def _each(batch: Any, function: Callable[[Any], Any]) -> Any:
    """What the function makes of each component."""

    def made(component: Any) -> Any:
        if is_dataclass(component):
            return with_fields(component, lambda held: tf.nest.map_structure(made, held))
        return function(component)

    return tf.nest.map_structure(made, batch)


def _rows_in(component: Any) -> Any:
    """How many rows; None for what has none."""
    if isinstance(component, tf.RaggedTensor):
        return component.nrows()
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    shape: Any = getattr(component, "shape", None)
    if not tf.is_tensor(component):
        return int(shape[0]) if shape else None
    if shape.rank == 0:
        return None
    static = shape[0] if shape.rank is not None else None
    return tf.shape(component)[0] if static is None else int(static)


def _rows_of_component(component: Any, cut: Cut, together: list[Any]) -> Any:
    """`together`: how many rows the components of the batch have."""
    rows = _rows_in(component)
    if rows is None:
        return component
    blocks, block = blocks_in(rows, together)
    part = cut(blocks)
    if isinstance(component, (tf.RaggedTensor, tf.SparseTensor)):
        return rows_of(component, indices_of(part, block))
    if isinstance(block, int) and block == 1:
        return component.iloc[part] if hasattr(component, "iloc") else _with_axes(component[part], component)
    if not tf.is_tensor(component):
        return rows_of(component, indices_of(part, block))
    inner = tf.shape(component)[1:]
    own = tf.reshape(component, tf.concat([[blocks, block], inner], 0))[part]
    return _with_axes(tf.reshape(own, tf.concat([[tf.shape(own)[0] * block], inner], 0)), component)


def _with_axes(rows: Any, component: Any) -> Any:
    """A step that is known only when it runs loses the other axes."""
    if tf.is_tensor(rows) and component.shape.rank is not None and not tf.executing_eagerly():
        rows.set_shape([None, *component.shape[1:]])
    return rows


class IterableShard:
    """An iterable of global batches, seen as this rank's slices of them; as often as the original."""

    def __init__(self, batches: Any, cut: Cut) -> None:
        self._batches = batches
        self._cut = cut
        note_rows(self, cut)

    def __iter__(self) -> Iterator[Any]:
        own = (_own_rows(batch, self._cut) for batch in checked(self._batches))
        note_cut("shard_batches", [own])  # of one pass
        return own

    def __len__(self) -> int:
        return len(self._batches)


class AwaitedShard:
    """The same of what `async for` goes through."""

    def __init__(self, batches: Any, cut: Cut) -> None:
        self._batches = batches
        self._cut = cut

    def __aiter__(self) -> AsyncIterator[Any]:
        return _own_rows_awaited(self._batches, self._cut)


async def _own_rows_awaited(batches: Any, cut: Cut) -> AsyncIterator[Any]:
    number = 0
    async for batch in batches:
        number += 1
        check(batch, number, type(batches).__qualname__)
        yield _own_rows(batch, cut)


def _shard_sequence(sequence: Any, cut: Cut) -> Any:
    """The same sequence whose __getitem__ gives the rank's rows; Keras looks at its class and options.

    What the one keeps, as an order that each epoch makes anew, is what the other keeps: `fit` may be called again.
    """
    cls = type(sequence)

    def own_item(self: Any, index: Any) -> Any:
        return _own_rows(cls.__getitem__(self, index), cut)

    def fill(namespace: dict[str, Any]) -> None:
        namespace["__getitem__"] = own_item
        namespace["__module__"] = cls.__module__
        namespace["__doc__"] = cls.__doc__

    shard: Any = object.__new__(types.new_class(cls.__name__, (cls,), exec_body=fill))
    object.__setattr__(shard, "__dict__", sequence.__dict__)
    note_rows(shard, cut)
    return shard
