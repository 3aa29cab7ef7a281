"""broadcast: what can be set in place is set, everything else comes back as the root's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from lockstep.collectives.scattering import broadcast_values, is_value
from lockstep.weights.sending import broadcast as broadcast_weights


def broadcast(values: Any, root_rank: int) -> Any:
    leaves = list(_leaves(values))
    own = [leaf for leaf in leaves if is_value(leaf)]
    if len(own) < len(leaves) or not any(leaf is not None for leaf in leaves):
        broadcast_weights([leaf for leaf in leaves if not is_value(leaf)], root_rank)
    if not any(leaf is not None for leaf in own):
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
