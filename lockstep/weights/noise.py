"""Another dropout mask on every rank: the random states of Keras 3's own layers, each rank's its own.

With one state for all, a mask would serve N samples of a global batch. Only what Keras's layers draw is varied: the
generators that shuffle, permute or make samples must agree, and so may those that a model of the script keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.collectives.world import backend

# Far apart, since a script may number the seeds of its layers; below 2**31, so that some dozens of ranks fit into the
# 32 bits of seed that are certain to matter.
_BETWEEN_RANKS = 40_503_017


def noise_states(owner: Any) -> Iterator[Any]:
    """The state variables, of shape [2] (seed, draws so far), of the layers of Keras 3 below a model or layer."""
    for layer in owner._flatten_layers():
        if type(layer).__module__.startswith("keras.src.layers."):
            for generator in getattr(layer, "_seed_generators", ()):
                yield generator.state


def own_state(state: Any, root_rank: int) -> Any:
    """This rank's state in place of the root's: another seed, as many draws."""
    steps = (backend().rank - root_rank) % backend().size
    return state + tf.constant([steps * _BETWEEN_RANKS, 0], state.dtype)
