"""Updates that a script makes without an optimizer, as the journal puts them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from migrator.verify.plan import Plan
from migrator.verify.record import BEFORE, GRADIENTS, WEIGHTS
from migrator.verify.recorder.journal import Journal

RATE = 0.1


class Training:
    """Two variables, the gradients of which a tape has given."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self.journal = Journal(Plan("train.py", [], str(folder), str(folder), most_updates=100), 0)
        self.w, self.b, self.other = (tf.Variable([value, 2 * value], name="v") for value in (1.0, 2.0, 3.0))
        self.differentiate()

    def differentiate(self) -> None:
        import tensorflow as tf

        gradients = [tf.constant([1.0, 3.0]), tf.constant([2.0, 5.0])]
        self.journal.differentiated(None, 0.5, [self.w, self.b], gradients, is_loop=True)

    def step(self, *variables: Any) -> None:
        for variable in variables:
            self.journal.sets(variable, lambda variable=variable: variable.assign_sub([RATE, RATE]))


@pytest.fixture
def training(tmp_path: Path) -> Training:
    return Training(tmp_path)


def test_an_update_by_hand_is_a_step(training: Training) -> None:
    training.step(training.w, training.b)
    (step,) = training.journal.record.steps
    assert (step.losses, step.number, step.is_loop) == ([0.5], 1, True)
    for before, update, after in zip(*(step.arrays[kind] for kind in (BEFORE, GRADIENTS, WEIGHTS))):
        assert before is not None
        np.testing.assert_allclose(update, [RATE, RATE], rtol=1e-6)
        np.testing.assert_allclose(before - update, after, rtol=1e-6)
    training.differentiate()
    training.step(training.b, training.w)
    assert [(step.optimizer, step.number) for step in training.journal.record.steps] == [(0, 1), (0, 2)]


def test_what_is_set_in_between_is_no_step_of_its_own(training: Training) -> None:
    training.step(training.other, training.w, training.other, training.w, training.b, training.b)
    assert len(training.journal.record.steps) == 1


def test_an_update_of_some_variables_counts_when_the_next_begins(training: Training) -> None:
    training.step(training.w)
    assert not training.journal.record.steps
    training.differentiate()
    assert len(training.journal.record.steps) == 1


def test_weights_that_are_changed_before_an_optimizer_updates_them_are_no_step(training: Training) -> None:
    import tensorflow as tf

    training.step(training.w)
    optimizer = tf.keras.optimizers.SGD(RATE)
    training.journal.update(optimizer, [training.w, training.b], [None, None], list, lambda: None)
    assert [one.name for one in training.journal.record.optimizers] == ["sgd"]
    assert len(training.journal.record.steps) == 1
