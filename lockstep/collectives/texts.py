"""Strings and paths as what workers send each other, and as the kind of thing that was given."""

from __future__ import annotations

import base64
import os
from typing import Any

import numpy as np
import tensorflow as tf


def is_text(value: Any) -> bool:
    """Whether this is a string, bytes, a path, or an array or eager tensor of strings."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "US"
    return tf.is_tensor(value) and getattr(value, "dtype", None) == tf.string and hasattr(value, "numpy")


def written(value: Any) -> dict[str, Any]:
    """The text in a form that JSON can carry."""
    array = np.asarray(value.numpy() if tf.is_tensor(value) else _plain(value))
    texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.reshape(-1).tolist()]
    return {"shape": list(array.shape), "texts": [base64.b64encode(text).decode() for text in texts]}


def read(sent: dict[str, Any], like: Any) -> Any:
    """What `written` gave, as the kind of thing that `like` is."""
    texts = [base64.b64decode(text) for text in sent["texts"]]
    if tf.is_tensor(like):
        return tf.reshape(tf.constant(texts, tf.string), sent["shape"])
    if isinstance(like, np.ndarray):
        kept = texts if like.dtype.kind == "S" else [text.decode() for text in texts]
        return np.array(kept).reshape(sent["shape"])
    if isinstance(like, bytes):
        return texts[0]
    return texts[0].decode() if isinstance(like, str) else type(like)(texts[0].decode())


def is_strings(value: Any) -> bool:
    """Whether this is a tensor or an array of strings, also inside a function."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "US" or (
            value.dtype.kind == "O" and all(isinstance(x, (bytes, str)) for x in value.flat)
        )
    return isinstance(value, tf.Tensor) and value.dtype == tf.string


def to_bytes(strings: Any) -> list[Any]:
    """The bytes of all strings in one row, uint8 [n], and how many each one has, int32 of the strings' shape."""
    tensor = tf.convert_to_tensor(strings)
    return [tf.io.decode_raw(tf.strings.reduce_join(tensor), tf.uint8), tf.strings.length(tensor)]


def from_bytes(sent: Any, lengths: Any, like: Any) -> Any:
    """The strings that `to_bytes` has taken apart, as the kind of thing that `like` is."""
    letters = tf.gather(tf.constant([bytes([i]) for i in range(256)]), tf.cast(sent, tf.int32))
    rows = tf.RaggedTensor.from_row_lengths(letters, tf.reshape(lengths, [-1]), validate=False)
    strings = tf.reshape(tf.strings.reduce_join(rows, axis=-1), tf.shape(lengths))
    strings.set_shape(lengths.shape)
    if not isinstance(like, np.ndarray) or not tf.executing_eagerly():
        return strings
    found = strings.numpy()
    if like.dtype.kind == "O":
        return np.vectorize(bytes.decode, ["O"])(found) if any(isinstance(x, str) for x in like.flat) else found
    return np.char.decode(found.astype("S")) if like.dtype.kind == "U" else found.astype("S")


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
