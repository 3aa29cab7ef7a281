"""BackupAndRestore on several workers: the chief alone writes, and all go on from what it has restored."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.collectives.agreement import agree
from lockstep.collectives.reduction import all_reduce
from lockstep.collectives.world import backend
from lockstep.script import which_keras
from lockstep.script.variables import variables_of
from lockstep.weights.broadcasting import broadcast
from lockstep.weights.checkpoints import create_state

_ADVICE = (
    "A model that has no weights before its first batch is restored on each worker by itself: backup_dir must be a "
    "folder that all machines share."
)


def is_needed_by_all(callback: Any) -> bool:
    """Whether every rank needs the callback: that of Keras 2 tells `fit` the first epoch by an object of its own."""
    return restores(callback) and not which_keras.is_keras_3(callback)


def restores(callback: Any) -> bool:
    return any(cls.__name__ == "BackupAndRestore" for cls in type(callback).__mro__)


def go_on_from_chief(model: Any) -> None:
    """Once the chief has restored, as `fit` begins: its weights, its optimizer's state and its epoch for all ranks.

    Raises MismatchError where the ranks have restored different epochs and that cannot be evened out.
    """
    state = getattr(model, "_training_state", None)
    if state is None:
        # What the chief has restored may have built its optimizer; the others' has no state yet.
        if all_reduce(int(model.optimizer.built), "max") and not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        broadcast([model, *variables_of(model.optimizer)], 0, own_noise=None)
        model._initial_epoch = int(all_reduce(model._initial_epoch or 0, "max"))
        return
    if backend().rank != 0:
        state.back_up = state.delete_backup = _leave_to_chief
    if model.built:
        create_state(model.optimizer, model.trainable_variables)
    else:
        agree("BackupAndRestore", f"restored epoch {int(state._ckpt_saved_epoch)}", _ADVICE)
    counters = [getattr(state, name, None) for name in ("_ckpt_saved_epoch", "_ckpt_saved_batch")]
    settings = [value for value in getattr(model.optimizer, "_hyper", {}).values() if isinstance(value, tf.Variable)]
    broadcast([model, *variables_of(model.optimizer), settings, counters, model._train_counter], 0, own_noise=None)


def _leave_to_chief(*args: Any, **kwargs: Any) -> None:
    return None
