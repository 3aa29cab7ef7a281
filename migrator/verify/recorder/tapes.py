"""What is differentiated: losses, and gradients as a tape gives them."""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

from migrator.verify.recorder import lines
from migrator.verify.recorder.journal import Journal
from migrator.verify.recorder.values import as_array, plain_variable


def watch(tensorflow: ModuleType, journal: Journal) -> None:
    original = tensorflow.GradientTape.gradient

    @wraps(original)
    def gradient(tape: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        gradients = original(tape, target, sources, *args, **kwargs)
        if not tensorflow.executing_eagerly():
            return gradients
        flat = tensorflow.nest.flatten(sources)
        if not any(plain_variable(source) is not None for source in flat):
            return gradients
        # Sparse gradients count as one.
        found = tensorflow.nest.flatten(gradients)
        if journal.plan.is_perturbed:
            found = [_moved(tensorflow, g, i) for i, g in enumerate(found)]
            gradients = tensorflow.nest.pack_sequence_as(sources, found)
        losses = [loss for loss in tensorflow.nest.flatten(target) if hasattr(loss, "numpy")]
        journal.differentiated(tape, losses, flat, found, is_loop=lines.is_callers(journal.plan.root))
        return gradients

    tensorflow.GradientTape.gradient = gradient
    enter, leave = tensorflow.GradientTape.__enter__, tensorflow.GradientTape.__exit__

    @wraps(enter)
    def __enter__(tape: Any) -> Any:  # noqa: N807
        journal.tapes.append(tape)
        return enter(tape)

    @wraps(leave)
    def __exit__(tape: Any, *error: Any) -> Any:  # noqa: N807
        try:
            return leave(tape, *error)
        finally:
            journal.tapes = [other for other in journal.tapes if other is not tape]

    tensorflow.GradientTape.__enter__ = __enter__
    tensorflow.GradientTape.__exit__ = __exit__


def _moved(tensorflow: ModuleType, gradient: Any, number: int) -> Any:
    """The gradient with every value moved by one unit in the last place of the largest, up or down: as adding up in
    another order may move it."""
    if gradient is None:
        return None
    dense = gradient.values if isinstance(gradient, tensorflow.IndexedSlices) else gradient
    array = as_array(dense)
    if not array.size or not np.isfinite(array).all():
        return gradient
    signs = np.random.RandomState(number).randint(0, 2, array.shape) * 2 - 1
    epsilon = float(np.finfo(dense.dtype.as_numpy_dtype).eps) if dense.dtype.size >= 4 else 2.0**-10
    moved = dense + tensorflow.cast(signs * (np.abs(array).max() * epsilon), dense.dtype)
    if isinstance(gradient, tensorflow.IndexedSlices):
        return tensorflow.IndexedSlices(moved, gradient.indices, gradient.dense_shape)
    return moved
