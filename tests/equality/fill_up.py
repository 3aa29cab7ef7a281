"""Train a script in one process on exactly the samples that N workers train on.

Where N does not divide the number of samples, the workers even it out with the first samples once more. That is
the one thing in which they differ from the single process, so a single process that is given these samples too
has to train the same model to rounding.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any


def fill_up_datasets(tensorflow: ModuleType, workers: int) -> None:
    """Make every dataset of known size a multiple of `workers` before it is batched."""
    original = tensorflow.data.Dataset.batch

    @wraps(original)
    def batch(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        size = int(dataset.cardinality())  # negative: unknown or infinite
        filled = dataset.concatenate(dataset.take(-size % workers)) if size > 0 else dataset
        return original(filled, *args, **kwargs)

    tensorflow.data.Dataset.batch = batch
