"""Checkpoints that are broadcast: what the root has restored for an optimizer reaches all before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep.collectives.reduction import all_reduce
from lockstep.script.holders import owners_in
from lockstep.script.variables import layer_class

_PENDING = ("_deferred_dependencies", "_unconditional_deferred_dependencies", "_deferred_slot_restorations")


def create_restored_state(values: Sequence[Any]) -> None:
    """Make the state of optimizers that wait with restored values until it exists, so that it can be sent.

    Only where it is plain what the optimizer trains: in a checkpoint of one optimizer, beside models that are built.
    """
    for value in values:
        checkpoint = value.checkpoint if isinstance(value, tf.train.CheckpointManager) else value
        if isinstance(checkpoint, tf.train.Checkpoint):
            owners = owners_in(checkpoint)
            optimizers = [owner for owner in owners if hasattr(owner, "apply_gradients")]
            models = [owner for owner in owners if layer_class(owner) is not None]
            if len(optimizers) == 1 and models and all(model.built for model in models):
                _create_where_pending(optimizers[0], [v for model in models for v in model.trainable_variables])


def _create_where_pending(optimizer: Any, variables: list[Any]) -> None:
    pending = any(getattr(optimizer, name, None) for name in _PENDING)
    if all_reduce(int(pending), "max"):
        create_state(optimizer, variables)


def create_state(optimizer: Any, variables: Any) -> None:
    """The slots of an optimizer, which take what was restored for them as they come into being."""
    if getattr(optimizer, "built", False) is True:
        return
    create = getattr(optimizer, "_create_all_weights", None) or optimizer.build
    create(variables)
