"""The opt-in check that the weights are equal on all ranks: LOCKSTEP_CHECK=K compares them every K updates.

What is compared is a checksum of each variable's bytes. Without the variable in the environment, a few entries are
compared at every update (`weights.samples`).
"""

from __future__ import annotations

import functools
import os
import time
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep._errors import JoinError, MismatchError
from lockstep.collectives.world import backend
from lockstep.script.variables import each_once, values_of
from lockstep.weights.sending import broadcast_variables, with_values

ADVICE = (
    "Look for weights that were never broadcast, gradients that were not reduced, an optimizer that was not wrapped, "
    "or a learning rate, a value or a decision that is made of one worker's own data."
)


def interval_from_environment() -> int | None:
    """LOCKSTEP_CHECK as a number of updates, None where it is unset. Raises JoinError when it is no such number."""
    text = os.environ.get("LOCKSTEP_CHECK", "").strip()
    if text and not text.isdecimal():
        raise JoinError(f"LOCKSTEP_CHECK must be a number of updates, as in LOCKSTEP_CHECK=100, not {text!r}")
    return int(text) if text else None


_SECONDS_FOR_PEERS = 1.0
_interval = interval_from_environment()


def is_asked_for() -> bool:
    """Whether the environment says how often, or that nothing be compared."""
    return _interval is not None


def compare_weights(updated: Sequence[Any]) -> None:
    """Called before every update: compare what was broadcast, and the variables that are about to be updated.

    Raises MismatchError on all ranks when a variable differs, naming the first one and the number of updates
    made before; in a tf.function, a tf.errors.OpError with that text.
    """
    if not _interval:
        return
    variables = with_values(each_once([*broadcast_variables(), *updated]))
    if not variables:
        return
    names = [str(getattr(v, "path", v.name)) for v in variables]
    values = values_of(variables)
    updates = _counter().assign_add(1) - 1
    if tf.executing_eagerly():
        if int(updates) % _interval == 0:
            _compare(names, values, updates)
        return
    tf.cond(updates % _interval == 0, lambda: _compare(names, values, updates), lambda: tf.constant(0, tf.int64))


@functools.cache
def _counter() -> Any:
    with tf.init_scope():
        return tf.Variable(0, dtype=tf.int64, trainable=False, name="lockstep_updates")


def _compare(names: list[str], values: list[Any], updates: Any) -> Any:
    if tf.executing_eagerly():
        own = tf.constant(_checksums(*(value.numpy() for value in values)))
        _raise_where_different(names, backend().gather(own[None]).numpy(), int(updates))
        return updates
    own = tf.numpy_function(_checksums, values, tf.int64)
    own.set_shape([len(values)])
    gathered = backend().gather(own[None])
    return tf.numpy_function(functools.partial(_raise_where_different, names), [gathered, updates], tf.int64)


def _checksums(*arrays: Any) -> Any:
    return np.array([zlib.crc32(np.ascontiguousarray(array).tobytes()) for array in arrays], dtype=np.int64)


def _raise_where_different(names: list[str], checksums: Any, updates: int) -> Any:
    different = np.flatnonzero((checksums != checksums[0]).any(axis=0))
    if different.size:
        # A step that fails aborts the collectives that its peers are still in: let them see this by themselves.
        time.sleep(_SECONDS_FOR_PEERS)
        ranks = [rank for rank, row in enumerate(checksums) if row[different[0]] != checksums[0][different[0]]]
        raise MismatchError(
            f"rank {backend().rank} of {backend().size}: LOCKSTEP_CHECK found that {different.size} of {len(names)} "
            f"variables differ between the workers after {updates} updates; the first is {names[different[0]]}, "
            f"which on rank {', '.join(map(str, ranks))} is another than on rank 0. {ADVICE}"
        )
    return np.int64(updates)
