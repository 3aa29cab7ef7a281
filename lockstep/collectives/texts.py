"""Strings and paths as what a broadcast sends, and as the kind of thing that was given."""

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


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
