"""Keeps ops that talk to other ranks as they are, though TensorFlow was not told that they do.

Horovod registers its ops as functions of their inputs. So TensorFlow leaves one out whose result nobody uses (that of a
gather, on all ranks but one), computes one on constants while it compiles, and makes one of two that look alike: on
one rank but not on the other, which then waits for ever.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.backends.registers import Register


class SideEffects:
    """One per process. Eagerly there is nothing to do."""

    def __init__(self) -> None:
        self._zero = Register("lockstep_zero", tf.int64, "CPU")
        self._used = Register("lockstep_used", tf.float64, "CPU")

    def unknown(self, flat: Any) -> Any:
        """A vector, as one of which TensorFlow knows neither the values nor that it equals another."""
        if tf.executing_eagerly():
            return flat
        zero = self._zero.read()  # what a variable holds is never known beforehand
        same = flat[zero:]  # a slice of everything is no copy
        same.set_shape(flat.shape)
        return same

    def used(self, flat: Any) -> Any:
        """Make use of a vector that is not empty; returns the vector, or in a function the op that has used it."""
        if tf.executing_eagerly():
            return flat
        return self._used.assign(flat[0])
