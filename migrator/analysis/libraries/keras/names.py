"""What Keras calls its classes and functions: which dotted names are layers, losses, metrics, and others it makes."""

from __future__ import annotations

import re

from migrator.facts.names import api

LAYER = re.compile(r"^keras\.layers\.(?:experimental\.(?:preprocessing\.)?)?[A-Z]\w*$|^keras\.Layer$")
# What has no code of its own that would run on a batch.
PLAIN = frozenset({"keras.layers.Layer", "keras.Layer"})
LOSS = re.compile(r"^keras\.losses\.[A-Z]\w*$")
METRIC = api.METRIC_CLASS
# How the names of classes begin that classes of the program are derived from.
BASES = ("keras.", "tensorflow.Module", "tensorflow.keras")
SYMBOLIC = frozenset({"keras.Input", "keras.layers.Input"})

_MADE = re.compile(
    r"^keras\.(?:losses|metrics|optimizers|regularizers|initializers|constraints|callbacks|applications|utils)"
    r"\.(?:\w+\.)*[A-Z]\w*$|^keras\.regularizers\.l[12](?:_l2)?$|^tensorflow_addons\.\w+\.[A-Z]\w*$|^tensorflow_hub\.KerasLayer$|^tensorflow\.Module$"
)
_SHORT = {
    "mse": "mean_squared_error", "mae": "mean_absolute_error", "mape": "mean_absolute_percentage_error",
    "msle": "mean_squared_logarithmic_error", "kld": "kl_divergence", "kullback_leibler_divergence": "kl_divergence",
    "bce": "binary_crossentropy", "logcosh": "log_cosh", "cosine_proximity": "cosine_similarity",
}  # fmt: skip


def full_name(path: str) -> str:
    """`keras.losses.mean_squared_error` for `keras.losses.mse`."""
    start, _, name = path.rpartition(".")
    return f"{start}.{_SHORT.get(name.lower(), name)}" if start in ("keras.losses", "keras.metrics") else path


def is_made(path: str) -> bool:
    """Whether a call of that name makes an object."""
    return bool(api.makes_model(path) or api.is_optimizer_class(path) or LAYER.match(path) or _MADE.match(path))


def is_mean_metric(name: str) -> bool:
    """Whether the name, or the dotted path, is that of a metric of Keras's which is a mean over the rows."""
    short = full_name(f"keras.metrics.{name.rpartition('.')[2]}").rpartition(".")[2]
    return api.MEAN_METRICS.match(short.replace("_", "")) is not None
