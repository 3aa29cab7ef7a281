"""What Keras's own training step tells one of the script's that calls it: in `fit`, what the metrics make of the
samples of all ranks, since the step may decide by it, or keep it in a variable.

These are of the epoch so far, in which ranks may have seen unequally many rows, and which need not be means.
"""

from __future__ import annotations

import functools
from typing import Any

from lockstep.data.row_weights import is_weighing
from lockstep.script import which_keras
from lockstep.shards import step_rows
from lockstep.training.metrics import of_all_ranks


def watch() -> None:
    """Have the step of Keras known, of the models of any Keras."""
    for keras in which_keras.all_loaded():
        _watch(keras.Model)


@functools.cache
def _watch(cls: Any) -> None:
    keras_step = cls.train_step

    @functools.wraps(keras_step)
    def train_step(self: Any, data: Any) -> Any:
        logs = keras_step(self, data)
        if type(self).train_step is train_step or not is_weighing() or not isinstance(logs, dict):
            return logs
        rows = step_rows.current()
        if rows is not None:
            rows.settle()
        return of_all_ranks(self, logs)

    cls.train_step = train_step
