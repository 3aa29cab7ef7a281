"""Keeps ops that talk to other ranks as they are, though TensorFlow was not told that they do.

Horovod registers its ops as functions of their inputs. So TensorFlow leaves one out whose result nobody uses (that of a
gather, on all ranks but one), computes one on constants while it compiles, and makes one of two that look alike: on
one rank but not on the other, which then waits for ever.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class SideEffects:
    """One per process. Eagerly there is nothing to do."""

    def __init__(self) -> None:
        with tf.device("CPU"):
            self._zero = tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_zero")
            self._used = tf.Variable(0, dtype=tf.float64, trainable=False, name="lockstep_used")

    def unknown(self, flat: Any) -> Any:
        """A vector, as one of which TensorFlow knows neither the values nor that it equals another."""
        if tf.executing_eagerly():
            return flat
        with tf.device("CPU"):
            zero = self._zero.read_value()  # what a variable holds is never known beforehand
        same = flat[zero:]  # a slice of everything is no copy
        same.set_shape(flat.shape)
        return same

    def used(self, flat: Any) -> Any:
        """Make use of a vector that is not empty; returns the vector, or in a function the op that has used it."""
        if tf.executing_eagerly():
            return flat
        first = tf.cast(flat[0], tf.float64)
        with tf.device("CPU"):
            return self._used.assign(first, read_value=False)
