"""broadcast: what can be set in place is set, everything else comes back as the root's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from lockstep.collectives.scattering import broadcast_values, is_value
from lockstep.weights.generators import broadcast_generators, is_generator
from lockstep.weights.sending import broadcast as broadcast_weights


def broadcast(values: Any, root_rank: int, *, own_noise: bool | None) -> Any:
    """`own_noise`: see sending.broadcast."""
    leaves = list(_leaves(values))
    own = [leaf for leaf in leaves if is_value(leaf)]
    generators = [leaf for leaf in leaves if is_generator(leaf)]
    weights = [leaf for leaf in leaves if not is_value(leaf) and not is_generator(leaf)]
    # None beside weights stands for weights that are not there; by itself it is a value, which all have to have.
    holds_values = any(leaf is not None for leaf in own) or (bool(own) and not weights and not generators)
    if generators:
        broadcast_generators(generators, root_rank)
    if weights or not (generators or holds_values):
        sent_in_place = [w.state if isinstance(w, tf.random.Generator) else w for w in weights]
        broadcast_weights(sent_in_place, root_rank, own_noise=own_noise)
    if not holds_values:
        return values
    sent = iter(broadcast_values(own, root_rank))
    return _filled(values, lambda leaf: next(sent) if is_value(leaf) else leaf)


def _leaves(values: Any) -> Iterator[Any]:
    if isinstance(values, dict):
        for key in values:
            yield from _leaves(values[key])
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _leaves(value)
    else:
        yield values


def _filled(values: Any, fill: Callable[[Any], Any]) -> Any:
    """The same structure, with what `fill` gives for each leaf, in the order of `_leaves`."""
    if isinstance(values, dict):
        filled = copy.copy(values)
        filled.update([(key, _filled(values[key], fill)) for key in values])
        return filled
    if isinstance(values, tuple) and hasattr(values, "_fields"):
        return type(values)(*(_filled(value, fill) for value in values))
    if isinstance(values, (list, tuple)):
        return type(values)(_filled(value, fill) for value in values)
    return fill(values)
