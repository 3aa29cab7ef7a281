"""The statistics that layers keep of the batches they see: each rank sees its own shard, all must keep the same."""

from __future__ import annotations

from typing import Any

from lockstep.weights.sending import layers_with_statistics, with_values


def moving_statistics() -> list[Any]:
    """The moving means and variances of all BatchNormalization layers that were broadcast and are trained.

    Layers are known by what they keep, so that BatchNormalization of any Keras, and what is made like it, counts.
    A frozen layer only reads its statistics.
    """
    found: dict[int, Any] = {}
    for layer in layers_with_statistics():
        if getattr(layer, "trainable", True):
            kept = (layer.moving_mean, layer.moving_variance)
            found.update((id(variable), variable) for variable in kept)
    return with_values(found.values())
