"""broadcast of random generators of Python and NumPy: each goes on from where the root's is."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from lockstep.collectives.scattering import broadcast_values

_OF_NUMPY = (np.random.Generator, np.random.BitGenerator, np.random.RandomState)


def is_generator(value: Any) -> bool:
    """Whether this draws random numbers from a state of its own that can be set: the system's cannot, and that of one
    of TensorFlow's is a variable."""
    if isinstance(value, random.Random):
        return not isinstance(value, random.SystemRandom)
    return isinstance(value, _OF_NUMPY)


def broadcast_generators(generators: list[Any], root_rank: int) -> None:
    states = [_state_of(generator) for generator in generators]
    sent = broadcast_values([json.dumps(state, default=_plain) for state in states], root_rank)
    for generator, state, text in zip(generators, states, sent):
        _set_state(generator, _like(json.loads(text), state))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return _bits_of(generator).state


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        _bits_of(generator).state = state


def _bits_of(generator: Any) -> Any:
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator


def _plain(value: Any) -> Any:
    """What JSON can carry in place of an array or a number of NumPy's."""
    return value.tolist()


def _like(sent: Any, own: Any) -> Any:
    """What JSON has carried, as the kind of thing that it was."""
    if isinstance(own, dict):
        return {key: _like(sent[key], own[key]) for key in own}
    if isinstance(own, tuple):
        return tuple(_like(*pair) for pair in zip(sent, own))
    return np.asarray(sent, own.dtype) if isinstance(own, np.ndarray) else sent
