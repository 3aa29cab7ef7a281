"""What no backend can do: collectives between workers inside code that XLA compiles."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from lockstep._errors import LockstepError


def refuse_xla(function: str) -> None:
    """Raises LockstepError while a function with jit_compile=True is traced."""
    if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        raise LockstepError(
            f"lockstep.{function} was called in a function compiled with jit_compile=True; XLA cannot hold "
            "collectives between workers. Pass jit_compile=False to model.compile or tf.function."
        )
