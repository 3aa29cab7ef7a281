"""Which samples a model sees in training: a row of two numbers for each, so that they can be found again.

The first number is the sample's projection onto a fixed vector, the second onto another: equal samples have equal
rows, and samples that were computed, and so are equal to rounding only, have rows that are. What is computed from
weights that are trained is no sample.
"""

from __future__ import annotations

import math
from functools import wraps
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np

from migrator.verify.record import ARRAYS, BATCHES, DATASET, MINIBATCHES, Numbers
from migrator.verify.recorder.journal import Journal


class _Log:
    def __init__(self, tensorflow: ModuleType, journal: Journal) -> None:
        self.tensorflow = tensorflow
        self.journal = journal
        self.calls = 0
        # Batches that were drawn and that no tape has met yet, by their iterator.
        self.drawn: dict[int, Any] = {}
        self.layers_saw = False
        self.has_drawn = False
        # What Keras's own methods feed the model with, the innermost last.
        self.feeding: list[str] = []

    def is_recording(self) -> bool:
        from tensorflow.python import pywrap_tfe

        return bool(self.tensorflow.executing_eagerly()) and not pywrap_tfe.TFE_Py_TapeSetIsEmpty()

    def tell(self, values: Any) -> None:
        rows = rows_of(self.tensorflow, values)
        if rows is not None:
            source = self.feeding[-1] if self.feeding else DATASET if self.has_drawn else MINIBATCHES
            self.has_drawn = False
            self.journal.read(rows, source)


_logs: dict[int, _Log] = {}


def _log_of(journal: Journal) -> _Log:
    if id(journal) not in _logs:
        import tensorflow as tf

        _logs[id(journal)] = _Log(tf, journal)
    return _logs[id(journal)]


def watch_layers(keras: ModuleType, journal: Journal) -> None:
    """The inputs of each outermost call of a layer or model under a tape."""
    original = keras.layers.Layer.__call__

    @wraps(original)
    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        log = _log_of(journal)
        if args and not log.calls and log.is_recording() and not _is_computed(args[0]):
            log.layers_saw = True
            log.drawn.clear()
            log.tell(args[0])
        log.calls += 1
        try:
            return original(layer, *args, **kwargs)
        finally:
            log.calls -= 1

    keras.layers.Layer.__call__ = __call__


def watch_feeding(keras: ModuleType, journal: Journal) -> None:
    """Know what `fit` and `train_on_batch` are given."""
    for name in ("fit", "train_on_batch"):
        _watch_method(keras.Model, name, journal)


def _watch_method(cls: Any, name: str, journal: Journal) -> None:
    original = getattr(cls, name)

    @wraps(original)
    def feed(model: Any, *args: Any, **kwargs: Any) -> Any:
        log = _log_of(journal)
        given = args[0] if args else kwargs.get("x")
        is_plain = isinstance(given, (np.ndarray, list, tuple, dict)) or log.tensorflow.is_tensor(given)
        log.feeding.append(BATCHES if name == "train_on_batch" else ARRAYS if is_plain else DATASET)
        try:
            return original(model, *args, **kwargs)
        finally:
            log.feeding.pop()

    setattr(cls, name, feed)


def watch_datasets(tensorflow: ModuleType, journal: Journal) -> None:
    """Where no layer sees the samples: the batches that a loop draws, when a tape gives gradients after that."""
    from tensorflow.python.data.ops.iterator_ops import OwnedIterator

    draw = OwnedIterator.__next__

    @wraps(draw)
    def __next__(iterator: Any) -> Any:  # noqa: N807
        log = _log_of(journal)
        try:
            batch = draw(iterator)
        except StopIteration:
            log.drawn.pop(id(iterator), None)  # evaluation goes to the end before training goes on
            raise
        log.has_drawn = True
        if not log.layers_saw:
            log.drawn[id(iterator)] = batch
        return batch

    OwnedIterator.__next__ = __next__
    leave = tensorflow.GradientTape.__exit__

    @wraps(leave)
    def __exit__(tape: Any, *error: Any) -> Any:  # noqa: N807
        result = leave(tape, *error)
        log = _log_of(journal)
        if not log.layers_saw:
            for batch in log.drawn.values():
                log.tell(batch)
        log.drawn.clear()
        return result

    tensorflow.GradientTape.__exit__ = __exit__


def _is_computed(values: Any) -> bool:
    """Whether a gradient would flow through these inputs: they come of what is trained."""
    import tensorflow as tf
    from tensorflow.python import pywrap_tfe

    tensors = [value for value in tf.nest.flatten(values) if tf.is_tensor(value) and value.dtype.is_floating]
    return bool(tensors) and bool(pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(tensors))


def rows_of(tensorflow: ModuleType, values: Any) -> Numbers | None:
    """float64[m, 2] for the m samples of a batch: its tensors and arrays that have m rows as the first of them has."""
    total: Numbers | None = None
    for number, value in enumerate(tensorflow.nest.flatten(values)):
        if isinstance(value, tensorflow.RaggedTensor):
            value = value.to_tensor()
        elif isinstance(value, tensorflow.SparseTensor):
            value = tensorflow.sparse.to_dense(value)
        array = value.numpy() if hasattr(value, "numpy") else np.asarray(value)
        if not getattr(array, "shape", ()) or (total is not None and len(array) != len(total)):
            continue
        projected = _projected(array.reshape(len(array), math.prod(array.shape[1:])), number)
        total = projected if total is None else total + projected
    return total


def _projected(rows: Any, number: int) -> Numbers:
    if rows.dtype.kind not in "fiub":
        rows = np.array([[crc32(str(value).encode()) for value in row] for row in rows], np.float64).reshape(rows.shape)
    # The place within the row decides, so that what is padded with zeros stays what it is.
    weights = np.random.RandomState(number).uniform(0.5, 1.5, (rows.shape[1], 2))
    return np.asarray(rows.astype(np.float64) @ weights)
