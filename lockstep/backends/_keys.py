"""Instance keys: how TensorFlow matches one rank's collective with that of the others.

A key must be the same on all ranks without talking, so it is a hash of what the call is. It must never be
used for another shape: TensorFlow then aborts every collective for good.
"""

from __future__ import annotations

import weakref
import zlib
from typing import Any

import tensorflow as tf

_STATIC_KEYS = 1 << 30


class InstanceKeys:
    """Hands out keys; remembers which signature has which key, since hashes may collide."""

    def __init__(self) -> None:
        self._signatures: dict[int, str] = {}
        self._calls_in_graph: weakref.WeakKeyDictionary[Any, dict[str, int]] = weakref.WeakKeyDictionary()

    def key(self, kind: str, tensor: Any) -> Any:
        """The key of one collective on `tensor`: an int, or a scalar int32 tensor if its shape is unknown.

        Calls of one signature within one function differ by their number, since TensorFlow may run them
        in one step; eager calls follow each other and share a key.
        """
        signature = f"{kind}|{tensor.dtype.name}{tensor.shape}"
        if not tf.executing_eagerly():
            signature += f"#{self._number_in_graph(signature)}"
        static = self._free_key(signature)
        if tensor.shape.is_fully_defined():
            return static
        rows = tf.size(tensor, out_type=tf.int64)
        # Above the static keys, so that a shape known only at run time never meets one of theirs.
        return tf.cast(_STATIC_KEYS + (static + rows * 7919) % (_STATIC_KEYS - 1), tf.int32)

    def _free_key(self, signature: str) -> int:
        key = zlib.crc32(signature.encode()) % _STATIC_KEYS
        while self._signatures.setdefault(key, signature) != signature:
            key = (key + 1) % _STATIC_KEYS
        return key

    def _number_in_graph(self, signature: str) -> int:
        graph = tf.compat.v1.get_default_graph()
        while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
            graph = graph.outer_graph
        calls = self._calls_in_graph.setdefault(graph, {})
        calls[signature] = calls.get(signature, 0) + 1
        return calls[signature]
