"""Train a script in one process on exactly the samples that N workers train on.

Where N does not divide the number of samples, the workers even it out with the first samples once more. That is
the one thing in which they differ from the single process, so a single process that is given these samples too
has to train the same model to rounding.
"""

from __future__ import annotations

import inspect
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np


def fill_up_datasets(tensorflow: ModuleType, workers: int) -> None:
    """Make every dataset of known size a multiple of `workers` before it is batched."""
    original = tensorflow.data.Dataset.batch

    @wraps(original)
    def batch(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        size = int(dataset.cardinality())  # negative: unknown or infinite
        filled = dataset.concatenate(dataset.take(-size % workers)) if size > 0 else dataset
        return original(filled, *args, **kwargs)

    tensorflow.data.Dataset.batch = batch


def fill_up_arrays(keras: ModuleType, workers: int) -> None:
    """Make the arrays that `fit(x, y)` trains on a multiple of `workers`, after any validation_split."""
    original = keras.Model.fit

    @wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(original).bind(*args, **kwargs)
        x, y = call.arguments["x"], call.arguments.get("y")
        if isinstance(x, np.ndarray):
            split = call.arguments.pop("validation_split", None)
            if split:
                train = int(len(x) * (1 - split))  # as Keras cuts
                call.arguments["validation_data"] = (x[train:], y[train:])
                x, y = x[:train], y[:train]
            rows = np.arange(len(x) + -len(x) % workers) % len(x)
            call.arguments["x"], call.arguments["y"] = x[rows], y[rows]
        return original(*call.args, **call.kwargs)

    keras.Model.fit = fit
