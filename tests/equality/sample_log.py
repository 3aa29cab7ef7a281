"""Which rows of data a process trained on: a hash of each row that enters a model under a gradient tape."""

from __future__ import annotations

import zlib
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np


class SampleLog:
    """Logs the first input of every outermost layer call made while a tape is recording.

    Several models that see one batch (a GAN's two) log it once each: look at the first of them only by giving
    the scripts' models different inputs, or compare multisets, which count both alike in both runs.
    """

    def __init__(self) -> None:
        self._hashes: list[int] = []
        self._tapes = 0
        self._calls = 0
        self._tensorflow: Any = None

    def hashes(self) -> np.ndarray:
        """int64[number of rows trained on], in the order in which they were."""
        return np.array(self._hashes, np.int64)

    def watch_tapes(self, tensorflow: ModuleType) -> None:
        self._tensorflow = tensorflow
        tape = tensorflow.GradientTape
        enter, leave = tape.__enter__, tape.__exit__

        @wraps(enter)
        def __enter__(this: Any) -> Any:  # noqa: N807
            self._tapes += 1
            return enter(this)

        @wraps(leave)
        def __exit__(this: Any, *error: Any) -> Any:  # noqa: N807
            self._tapes -= 1
            return leave(this, *error)

        tape.__enter__, tape.__exit__ = __enter__, __exit__

    def watch_layers(self, keras: ModuleType) -> None:
        self._compile_without_xla(keras)
        original = keras.layers.Layer.__call__

        @wraps(original)
        def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if self._tapes and not self._calls and args:
                self._log(args[0])
            self._calls += 1
            try:
                return original(layer, *args, **kwargs)
            finally:
                self._calls -= 1

        keras.layers.Layer.__call__ = __call__

    def _compile_without_xla(self, keras: ModuleType) -> None:
        """XLA cannot call back into Python, which is how graphs tell their rows."""
        original = keras.Model.compile

        @wraps(original)
        def compile(*args: Any, **kwargs: Any) -> Any:
            return original(*args, **{**kwargs, "jit_compile": False})

        keras.Model.compile = compile

    def _log(self, inputs: Any) -> None:
        while isinstance(inputs, (list, tuple, dict)):
            inputs = next(iter(inputs.values() if isinstance(inputs, dict) else inputs))
        if self._tensorflow.is_tensor(inputs):
            self._tensorflow.numpy_function(self._append, [inputs], [], stateful=True)

    def _append(self, rows: np.ndarray) -> None:
        self._hashes.extend(zlib.crc32(np.ascontiguousarray(row).tobytes()) for row in rows)
