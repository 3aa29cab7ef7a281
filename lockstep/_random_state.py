"""The random states that decide in which order samples come: one common seed, and a check on it."""

from __future__ import annotations

import os
import random
import struct
import zlib

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

from lockstep._agreement import agree, exchange
from lockstep._errors import JoinError

_ADVICE = (
    "The workers' random states differ, so each would shuffle in its own order and their shares would "
    "overlap. Seed all workers alike (lockstep does so when it is imported), let all of them draw the same "
    "random numbers before this point, and give what only one worker runs a random generator of its own."
)


def seed_all_alike() -> None:
    """Seed Python, NumPy and TensorFlow on every rank with one seed: LOCKSTEP_SEED, else drawn by rank 0.

    Raises JoinError when LOCKSTEP_SEED is no integer from 0 to 2**32 - 1.
    """
    seed = struct.unpack("<I", exchange(struct.pack("<I", _own_seed()))[0])[0]
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)


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
    eager_context = context.context()
    generator = getattr(eager_context, "_rng", None)
    drawn = zlib.crc32(repr(generator.getstate()).encode()) if generator is not None else None
    agree(
        call,
        f"TensorFlow's seed {eager_context._seed}, drawn {drawn}",
        _ADVICE,
    )


def agree_on_host_order(call: str) -> None:
    """Raises MismatchError on all ranks when batches made in Python would be drawn or ordered differently.

    User code draws from NumPy's global generator; Keras orders a Sequence by Python's.
    """
    _, keys, position, *_ = np.random.get_state(legacy=True)
    numpy_state = f"{zlib.crc32(np.asarray(keys).tobytes())} at {position}"
    python_state = zlib.crc32(repr(random.getstate()).encode())
    agree(call, f"NumPy's state {numpy_state}, Python's state {python_state}", _ADVICE)
