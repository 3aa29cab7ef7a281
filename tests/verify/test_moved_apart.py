"""Ranks above 0 start from other weights than rank 0, so that a missing broadcast shows."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from migrator.verify.recorder.variables import moved_apart


def test_what_may_be_random_is_moved_and_constants_are_not() -> None:
    random = np.array([0.5, -1.0], np.float32)
    assert not np.allclose(moved_apart(tf, random, None, 1), random)
    assert not np.allclose(moved_apart(tf, random, None, 1), moved_apart(tf, random, None, 2))
    assert np.allclose(moved_apart(tf, np.full(3, 0.1, np.float32), None, 1), 0.1)
    assert float(moved_apart(tf, 2.5, None, 1)) == 2.5


def test_what_a_saved_model_gives_later_stays_away() -> None:
    assert moved_apart(tf, None, tf.float32, 1) is None
    assert moved_apart(tf, lambda: None, tf.float32, 1)() is None
