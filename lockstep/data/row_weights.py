"""Weights of the ranks where their shards of one global batch have unequally many rows.

A mean over ranks weighs each rank alike; the mean over the global batch weighs each row alike. `fit` cuts arrays
into batches by itself, so only the training step sees how many rows each has. While `fit` trains on a shard
that does not come out even, the model's `train_step` is therefore seen from outside, and what it reduces is
weighted by its rows. It costs the sum of one number a step, which is why other training goes without.

So are batches that were cut for a mean, where the last one may not come out even: equal shards of it, which several
ranks have, would be right for the gradients, but count more than once in the metrics that callbacks decide by. While
`fit` trains on them, they are dealt out into as many shards as a full batch, which may differ by a row.

Of arrays that were cut for a loss over gathered rows, the step of a rank whose row only fills the last batch gets no
rows, as of batches that are cut.

Where the batch size does not divide, several ranks have one and the same shard. `fit` shuffles arrays on each in an
order of its own, so the first of them counts, and the others' rows weigh nothing.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import tensorflow as tf

from lockstep.collectives.reduction import all_reduce
from lockstep.collectives.world import backend
from lockstep.data.cuts import cuts_of, is_cut_to_be_gathered
from lockstep.data.leaves import ListedRows
from lockstep.data.validation_rows import with_whole_validation
from lockstep.script import evaluation, which_keras
from lockstep.script.metrics import each, is_whole
from lockstep.script.no_rows import allow_no_rows
from lockstep.script.variables import assign, values_of
from lockstep.shards import common_rows, step_rows
from lockstep.shards.dealing import dealt_into, rows_together

_ALL = 1 << 62
_PARTS_TO_VALIDATE = (
    "`fit` on what was made of the arrays that lockstep.shard_arrays cut for a loss that is no mean: with "
    "validation_split the workers would validate in unequally many batches; make the arrays first and cut them in the "
    "call, or give validation_data"
)
_FILLED = (
    "`fit` on what lockstep.shard_arrays cut for a loss that is no mean, with a last batch of fewer rows than workers: "
    "it needs callbacks=lockstep.callbacks(...)"
)
_shard_in_fit: contextvars.ContextVar[_Shard | None] = contextvars.ContextVar("lockstep_shard_in_fit", default=None)


class _Shard:
    """What `fit` may train on, arrays for example: how many of its rows count each time that it goes through them, None
    where all shards are even; and how many rows these are."""

    def __init__(
        self, leaves: list[Any], counting: int | None, rows: int = _ALL, local_batch: int | None = None
    ) -> None:
        self.counting = counting
        self.rows = rows
        self.is_gathered = local_batch is not None
        self.leaves_out = self.is_gathered and counting is not None
        self._local_batch = local_batch
        self._length = _length(leaves[0]) if leaves else -1
        self._parts = [
            weakref.ref(leaf) for leaf in leaves if isinstance(leaf, ListedRows) or not isinstance(leaf, (list, tuple))
        ]

    def is_given(self, x: Any) -> bool:
        """Whether `fit` was given arrays of this shard."""
        given = _with_bases(x)
        return any(part() is leaf for part in self._parts for leaf in given)

    def check(self, batch_size: Any) -> None:
        """Raises ValueError where `fit` would cut other batches than these rows were dealt out for."""
        if self._local_batch not in (None, 32 if batch_size is None else batch_size):
            raise ValueError(
                f"`fit` on what lockstep.shard_arrays cut for a loss that is no mean: batch_size is {batch_size}, and "
                f"would have to be {self._local_batch}; give lockstep.local_batch_size the same loss=..."
            )

    def is_as_long(self, x: Any) -> bool:
        leaves = _with_bases(x)
        return bool(leaves) and _length(leaves[0]) == self._length


_shards: list[_Shard] = []
_weighs: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_fit_weighs", default=False)
_dealing: weakref.WeakKeyDictionary[Any, tuple[bool, int, bool]] = weakref.WeakKeyDictionary()  # of models' last `fit`


def note_shard(leaves: list[Any], counting: int | None, rows: int, local_batch: int | None = None) -> None:
    """`fit` may be given these arrays of this rank; of the `rows` that it trains on, so many count. None: the shards
    are even, or all count. `local_batch`: where some batches of losses that are no means are uneven, `fit` must take
    so many for one."""
    _shards.append(_Shard(leaves, counting, rows, local_batch))


def watch_fit() -> None:
    """Let `fit` of every Keras say what it trains on: arrays, and what was cut for gathered losses, beside which others
    may stand.

    Before the script comes to `model.fit(...)`: what the arguments cut would be too late.
    """
    evaluation.watch()
    for keras in {id(keras): keras for keras in which_keras.all_loaded()}.values():
        _extend_fit(keras.Model)


@functools.cache
def _extend_fit(cls: Any) -> None:
    fit = cls.fit

    @functools.wraps(fit)
    def fit_on_shard(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        noted = _noted(x)
        is_array = noted is not None
        leaves_out = noted is not None and noted.leaves_out
        if noted is not None:
            noted.check(args[1] if len(args) > 1 else kwargs.get("batch_size"))
        split = with_whole_validation(fit, self, x, *args, **kwargs) if is_array else None
        given = split or inspect.signature(fit).bind(self, x, *args, **kwargs)
        weighs = _weigh(given.arguments.get("callbacks"))
        if leaves_out:
            if not weighs:
                raise ValueError(_FILLED)
            allow_no_rows()
        cuts = _waiting(x) if weighs and not is_array else []
        shards = cuts[0].shards_in_fit if cuts else 0
        token = _shard_in_fit.set(_Shard([], _counting_of(shards)) if cuts else _shard_of(x))
        kind = is_array, shards, leaves_out
        if _dealing.get(self, kind) != kind:
            self.train_function = None  # what it cuts was traced for data of another kind
        _dealing[self] = kind
        weighing = _weighs.set(weighs)
        validates_parts = is_array and bool(given.arguments.get("validation_split"))
        if validates_parts and noted is not None and noted.is_gathered:
            raise ValueError(_PARTS_TO_VALIDATE)
        try:
            with rows_together(is_array), dealt_into(shards), evaluation.on_parts(validates_parts):
                for cut in cuts:
                    cut.deal_into(shards)
                # A CallbackList has told its callbacks of the model already, when nobody knew what `fit` trains on.
                for callback in getattr(given.arguments.get("callbacks"), "callbacks", ()):
                    if getattr(callback, "_lockstep", False):
                        callback.set_model(self)
                return fit(*given.args, **given.kwargs)
        finally:
            for cut in cuts:
                cut.deal_into(0)
            _shard_in_fit.reset(token)
            _weighs.reset(weighing)

    cls.fit = fit_on_shard


def is_weighing() -> bool:
    """Whether a `fit` runs whose logs and steps are those of all ranks."""
    return _weighs.get()


def _weigh(callbacks: Any) -> bool:
    """Whether lockstep.callbacks made these callbacks, one of which has the steps seen through."""
    listed = getattr(callbacks, "callbacks", callbacks)
    return isinstance(listed, (list, tuple)) and any(getattr(one, "_lockstep", False) for one in listed)


def _waiting(x: Any) -> list[Any]:
    """The cuts of the batches, where `fit` may deal these out, all into as many shards."""
    cuts = cuts_of(x)
    return cuts if len({cut.shards_in_fit for cut in cuts} - {0}) == 1 and all(c.shards_in_fit for c in cuts) else []


def _counting_of(shards: int) -> int:
    """Of those ranks that have the same shard, the rows of the first count."""
    return _ALL if backend().rank % (backend().size // shards) == 0 else 0


def _shard_of(x: Any) -> _Shard | None:
    """The uneven shard that `fit` trains on."""
    if is_cut_to_be_gathered(x):
        return _Shard([], _ALL)
    found = _noted(x)
    if found is not None and found.is_gathered and not found.leaves_out:
        return _Shard([], _ALL)
    return found if found is not None and found.counting is not None else None


def _noted(x: Any) -> _Shard | None:
    """The shard of arrays that `fit` trains on."""
    latest_first = _shards[::-1]
    # The arrays themselves, or what was made of them.
    by_identity = (shard for shard in latest_first if shard.is_given(x))
    by_length = (shard for shard in latest_first if shard.is_as_long(x))
    return next(by_identity, None) or next(by_length, None)


def _with_bases(x: Any) -> list[Any]:
    """The arrays in nested lists, tuples and dicts, and those that they are views of."""
    if isinstance(x, dict):
        return [leaf for value in x.values() for leaf in _with_bases(value)]
    if isinstance(x, ListedRows):
        return [x]
    if isinstance(x, (list, tuple)):
        return [leaf for value in x for leaf in _with_bases(value)]
    if not getattr(x, "shape", None):
        return []
    return [x, *_with_bases(x.base)] if isinstance(x, np.ndarray) and x.base is not None else [x]


def _length(array: Any) -> int:
    shape = getattr(array, "shape", None)
    return int(shape[0]) if shape else len(array)


def weigh(values: Any) -> Any:
    """values times this rank's rows over the mean of the ranks' rows: the mean over the ranks is then that over
    all rows. Outside of a step that is seen through, the values themselves."""
    rows = step_rows.current()
    return values if rows is None else tf.nest.map_structure(lambda value: _times(value, rows.weight), values)


def count_once(values: Any) -> Any:
    """values, or zeros on a rank whose rows another one has too: the sum over the ranks is then that over all rows. A
    rank without rows has its share of what is no sum over them, as of a penalty."""
    rows = step_rows.current()
    if rows is None:
        return values
    counts = tf.cast(~rows.are_repeated, tf.float32)
    return tf.nest.map_structure(lambda value: _times(value, counts), values)


def _times(value: Any, weight: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        return common_rows.joined([_rows_times(part, weight) for part, _ in common_rows.split(value)])
    if isinstance(value, (int, float)):
        if tf.executing_eagerly():
            return value * float(weight) if weight > 0 else 0.0
        value = tf.convert_to_tensor(float(value))
    # What does not count may be anything, also no number.
    return tf.where(weight > 0, value * tf.cast(weight, value.dtype), tf.zeros_like(value))


def _rows_times(slices: Any, weight: Any) -> Any:
    """What does not count is not there at all: an optimizer may do something for each row."""
    rows = tf.where(weight > 0, tf.shape(slices.indices)[0], 0)
    return tf.IndexedSlices(_times(slices.values[:rows], weight), slices.indices[:rows], slices.dense_shape)


class RowCount:
    """The rows of an epoch that this rank's steps have trained on.

    With `steps_per_epoch` an epoch goes on where the last one has ended, in every Keras.
    """

    def __init__(self) -> None:
        self._seen, self._counted, self._counting = (
            tf.Variable(0, dtype=tf.int64, trainable=False, name=f"lockstep_rows_{name}")
            for name in ("seen", "counted", "counting")
        )
        self._rows = tf.Variable(_ALL, dtype=tf.int64, trainable=False, name="lockstep_rows")
        self.may_repeat = tf.Variable(False, trainable=False, name="lockstep_rows_may_repeat")

    def start(self, counting: int, rows: int) -> None:
        """Of these rows, the first so many count each time that `fit` goes through them."""
        self._seen.assign(0)
        self._counting.assign(counting)
        self._rows.assign(rows)
        self.may_repeat.assign(False)

    def stop(self) -> None:
        """All rows count, also those that several ranks have."""
        self._counting.assign(_ALL)
        self.may_repeat.assign(True)

    def add(self, data: Any) -> tuple[Any, Any]:
        """Add the rows of one step's data; returns how many of them count, and how many there are."""
        rows = tf.cast(_rows_of(data), tf.int64)
        counted = tf.clip_by_value(self._counting - self._seen, 0, rows)
        self._seen.assign((self._seen + rows) % self._rows)
        self._counted.assign_add(counted)
        return counted, rows

    def so_far(self) -> float:
        """How many counted."""
        return float(self._counted.numpy())

    def taken(self) -> float:
        """How many counted; starts again from none."""
        rows = self.so_far()
        self._counted.assign(0)
        return rows


_counts: weakref.WeakKeyDictionary[Any, RowCount] = weakref.WeakKeyDictionary()


def see_through(model: Any, watch_metrics: Callable[[Any], None]) -> RowCount | None:
    """Let `weigh` know the rows of each step of `fit`, until `look_away`; None where all shards are even. Before a step
    the model is given to `watch_metrics`."""
    shard = _shard_in_fit.get()
    if shard is None:
        if model in _counts:  # its step may have been traced with weights
            _counts[model].stop()
        return None
    if model not in _counts:
        _counts[model] = RowCount()
        # A function that was traced before knows nothing of rows.
        model.train_function = None
    count = _counts[model]
    count.start(cast(int, shard.counting), shard.rows)
    leaves_out = shard.leaves_out
    if "train_step" not in vars(model):
        step = model.train_step
        has_metrics = False  # a model that is compiled anew has others

        def states() -> list[Any]:
            return [variable for metric in model.metrics for variable in metric.variables]

        @functools.wraps(step)
        def train_step(data: Any) -> Any:
            nonlocal has_metrics
            if not tf.executing_eagerly() and not has_metrics:
                # Keras makes compiled metrics in the first step, and they are to be read before it.
                has_metrics = True
                converts = tf.__internal__.autograph.control_status_ctx().status.name != "DISABLED"
                tf.function(step, autograph=converts).get_concrete_function(data)
            watch_metrics(model)
            rows, held = count.add(data)
            if leaves_out:
                data, held = tf.nest.map_structure(lambda value: _first(value, rows), data), rows
            own = tf.cast(rows, tf.float32)
            weight = own * float(backend().size) / all_reduce(own, "sum")
            before = {id(v): tf.identity(value) for v, value in zip(states(), values_of(states()))}

            def settle() -> None:
                whole = {id(v) for metric in each(model.metrics) if is_whole(metric) for v in metric.variables}
                for variable, value in zip(states(), values_of(states())):
                    told = before.get(id(variable), tf.zeros_like(value))
                    counting = value
                    if id(variable) not in whole | seen.by_batch:
                        # A row that only fills the last batch counts in no metric either; the rows of all ranks do.
                        of_all = (held == 0) & seen.was_told_rows(variable)
                        counting = tf.where((rows > 0) | of_all, value, told)
                    assign(variable, counting)
                    before[id(variable)] = counting

            seen = step_rows.StepRows(rows, weight, settle, held, tf.identity(count.may_repeat))
            with step_rows.step(seen):
                result = step(data)
            settle()
            return result

        # Past Keras, which would track it as a part of the model.
        vars(model)["train_step"] = train_step
    return count


def look_away(model: Any) -> None:
    vars(model).pop("train_step", None)
    if model in _counts:  # what was traced goes on to ask it, in `train_on_batch`
        _counts[model].stop()


def _first(value: Any, rows: Any) -> Any:
    if isinstance(value, tf.SparseTensor):
        size = tf.concat([[rows], value.dense_shape[1:]], 0)
        return tf.sparse.slice(value, tf.zeros_like(size), size)
    return None if value is None else value[:rows]


def _rows_of(data: Any) -> Any:
    first = next(component for component in tf.nest.flatten(data) if component is not None)
    if isinstance(first, tf.RaggedTensor):
        return first.nrows()
    return first.dense_shape[0] if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
