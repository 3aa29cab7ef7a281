"""The check that is always on: some entries of the weights travel with what a step reduces, and must equal their mean.

Weights that were never broadcast, gradients that were not reduced, a learning rate or a decision that is each worker's
own: whatever parts the workers shows in the weights, an update or two later. Nothing is sent for it but a few numbers
in a bucket that is exchanged anyway. What differs by no more than rounding, as between two kinds of processors, is let
pass; LOCKSTEP_CHECK=K compares every byte instead (`weights.consistency`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep._errors import MismatchError
from lockstep.collectives.world import backend
from lockstep.script.variables import each_once, storage, values_of
from lockstep.weights import consistency
from lockstep.weights.sending import broadcast_variables, with_values

_CHECK_EVERY = 16  # reductions that are made eagerly, and each of the first so many
_ENTRIES = 4  # of each variable: what sets workers apart changes all that an optimizer updates
_MOST_ENTRIES = 1 << 20
_TOLERANCE = 1e-4  # of the largest of a variable's entries: rounding stays a hundred times below
_LEAST = 1e-7  # what entries near zero may differ by
_FOUND = "the workers' weights are no longer the same: the first variable that differs is"
_ADVICE = f"{consistency.ADVICE} LOCKSTEP_CHECK=0 lets it pass."

_reductions = 0  # made eagerly


class Sample:
    """Entries of the weights as this rank has them, to be reduced to their mean beside the gradients."""

    def __init__(self, variables: Sequence[Any]) -> None:
        self._names = [str(getattr(variable, "path", variable.name)) for variable in variables]
        parts = [_entries(value) for value in values_of(variables)]
        self._owners = np.repeat(np.arange(len(parts)), [part.shape[0] for part in parts])
        self.entries = tf.stop_gradient(tf.concat(parts, 0))

    def check(self, means: Any) -> None:
        """Raises MismatchError where an entry does not equal its mean; a tf.function ends in a tf.errors.OpError with
        that text. No update waits for it there: some begin while other gradients are on their way.
        """
        largest = tf.math.segment_max(tf.abs(means), self._owners)
        apart = tf.math.segment_max(tf.abs(self.entries - means), self._owners) > _TOLERANCE * largest + _LEAST
        rank = f"rank {backend().rank} of {backend().size}"
        if not tf.executing_eagerly():
            first = tf.gather(self._names, tf.argmax(tf.cast(apart, tf.int32)))
            tf.raw_ops.Assert(condition=~tf.reduce_any(apart), data=[f"{rank}: {_FOUND}", first, _ADVICE])
        elif apart.numpy().any():
            raise MismatchError(f"{rank}: {_FOUND} {self._names[int(np.argmax(apart))]}. {_ADVICE}")


def sample(values: Any, updated: Sequence[Any]) -> Sample | None:
    """Of the variables `updated`, or else of all that were broadcast and are trained, where these values may be their
    gradients. Eagerly, where each operation takes its time, only now and then."""
    if consistency.is_asked_for() or not (updated or _may_be_gradients(values)):
        return None
    if tf.executing_eagerly() and not _is_due():
        return None
    found = with_values(filter(_is_compared, each_once(updated or broadcast_variables())))
    return Sample(found) if found else None


def _may_be_gradients(values: Any) -> bool:
    return any(getattr(value, "shape", None) not in (None, ()) for value in tf.nest.flatten(values))


def _is_due() -> bool:
    global _reductions
    _reductions += 1
    return _reductions <= _CHECK_EVERY or _reductions % _CHECK_EVERY == 0


def _is_compared(variable: Any) -> bool:
    """Whether it is trained, fine enough for the tolerance, and small: what gets sparse updates is copied when read."""
    store = storage(variable)
    if store is None or not getattr(variable, "trainable", False):
        return False
    return store.dtype in (tf.float32, tf.float64) and 0 < (store.shape.num_elements() or 0) <= _MOST_ENTRIES


def _entries(value: Any) -> Any:
    """float32[k] from everywhere in the value."""
    step = max(value.shape.num_elements() // _ENTRIES, 1)
    return tf.cast(tf.reshape(value, [-1])[: step * _ENTRIES : step], tf.float32)
