"""The random states that decide in which order samples come: one common seed, and a check on it."""

from __future__ import annotations

import os
import random
import struct
import zlib
from functools import wraps
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops, random_seed

from lockstep._errors import JoinError
from lockstep.collectives.agreement import agree, exchange

_ADVICE = (
    "The workers' random states differ, so each would shuffle in its own order and their shares would "
    "overlap. Seed all workers alike (lockstep does so when it is imported), let all of them draw the same "
    "random numbers before this point, and give what only one worker runs a random generator of its own."
)


# The seed that TensorFlow was given here, and not by the script or the user: the only one that may be taken back.
_drawn_seed: int | None = None
_fit_has_arrays = False


def seed_all_alike() -> None:
    """Seed Python, NumPy and TensorFlow on every rank with one seed: LOCKSTEP_SEED, else drawn by rank 0.

    A generator that all ranks have in one state keeps it: the script has seeded it before it imported lockstep.
    Raises JoinError when LOCKSTEP_SEED is no integer from 0 to 2**32 - 1.
    """
    global _drawn_seed
    own = struct.pack("<I", _own_seed())
    states = [text.encode() for text in (_python_state(), _numpy_state(), _tensorflow_state())]
    ranks = [message.split(b"|", 3) for message in exchange(b"|".join([*states, own]))]
    seed = struct.unpack("<I", ranks[0][3])[0]
    is_wanted = bool(os.environ.get("LOCKSTEP_SEED", "").strip())
    alike = [not is_wanted and len({rank[which] for rank in ranks}) == 1 for which in range(3)]
    if not alike[0]:
        random.seed(seed)
    if not alike[1]:
        np.random.seed(seed)
    if not alike[2] or context.context()._seed is None:
        tf.random.set_seed(_CommonSeed(seed))
        _drawn_seed = None if is_wanted else seed
        _keep_from_ops_with_seeds()


class _CommonSeed(int):
    """A seed that TensorFlow was given here: not one of the script's own, which may be the same number."""


def _keep_from_ops_with_seeds() -> None:
    """Let ops that the script gives a seed (`shuffle(1000, seed=3)`) draw what they draw in one process, where
    TensorFlow has no seed beside theirs."""
    original = random_seed.get_seed

    @wraps(original)
    def get_seed(op_seed: Any) -> tuple[Any, Any]:
        first, second = original(op_seed)
        beside = context.global_seed() if context.executing_eagerly() else ops.get_default_graph().seed
        if op_seed is not None and isinstance(beside, _CommonSeed):
            return random_seed.DEFAULT_GRAPH_SEED, second
        return first, second

    random_seed.get_seed = get_seed


def _python_state() -> str:
    return str(zlib.crc32(repr(random.getstate()).encode()))


def _numpy_state() -> str:
    _, keys, position, *_ = np.random.get_state(legacy=True)
    return f"{zlib.crc32(np.asarray(keys).tobytes())} at {position}"


def _tensorflow_state() -> str:
    """The global seed, and how far the seeds of ops have been drawn from it."""
    eager_context = context.context()
    generator = getattr(eager_context, "_rng", None)
    drawn = zlib.crc32(repr(generator.getstate()).encode()) if generator is not None else None
    return f"{eager_context._seed}, drawn {drawn}"


def note_arrays() -> None:
    """From now on, `fit` may train on a shard of arrays."""
    global _fit_has_arrays
    _fit_has_arrays = True


def let_fit_shuffle_anew() -> None:
    """Take the drawn seed back from TensorFlow while `fit` trains on arrays, where every rank shuffles its own shard.

    Under any global seed, Keras's shuffle of arrays gives the same order in every epoch: a script that sets no seed
    must not come to train like that. `seed_again` ends it. Called with the arguments of `fit`: what is shuffled
    before is shuffled alike on all ranks.
    """
    if _fit_has_arrays and _drawn_seed is not None and context.context()._seed == _drawn_seed:
        tf.random.set_seed(None)


def seed_again() -> None:
    """Give TensorFlow the drawn seed back that `let_fit_shuffle_anew` took."""
    if _drawn_seed is not None and context.context()._seed is None:
        tf.random.set_seed(_CommonSeed(_drawn_seed))


def _own_seed() -> int:
    text = os.environ.get("LOCKSTEP_SEED", "").strip()
    if not text:
        return int.from_bytes(os.urandom(4), "little")
    if not text.isdecimal() or int(text) >= 2**32:
        raise JoinError(f"LOCKSTEP_SEED must be an integer from 0 to 4294967295, not {text!r}")
    return int(text)


def agree_on_dataset_order(call: str) -> None:
    """Raises MismatchError on all ranks when tf.data shuffles would differ from here on.

    Python's and NumPy's states do not matter to tf.data and are not compared.
    """
    agree(call, f"TensorFlow's seed {_tensorflow_state()}", _ADVICE)


def agree_on_host_order(call: str) -> None:
    """Raises MismatchError on all ranks when batches made in Python would be drawn or ordered differently.

    User code draws from NumPy's global generator; Keras orders a Sequence by Python's.
    """
    agree(call, f"NumPy's state {_numpy_state()}, Python's state {_python_state()}", _ADVICE)
