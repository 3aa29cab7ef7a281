"""Which Keras a script uses: Keras 3, the Keras 2 inside TensorFlow, or tf_keras."""

from __future__ import annotations

import os
import sys
from typing import Any

import tensorflow as tf


def in_use(*witnesses: Any) -> Any:
    """The Keras module that these objects come from; without a telling one, the script's likely one.

    A script that imports tf_keras by its name uses that; any other uses tf.keras, which is what keras is.
    """
    roots = {cls.__module__.split(".")[0] for witness in witnesses for cls in type(witness).__mro__}
    if "tf_keras" in roots:
        return sys.modules["tf_keras"]
    if "keras" in roots and str(getattr(sys.modules.get("keras"), "__version__", "")).startswith("3"):
        return sys.modules["keras"]
    if "tf_keras" in sys.modules and not _legacy() and "keras" not in sys.modules:
        return sys.modules["tf_keras"]
    return tf.keras


def _legacy() -> bool:
    return os.environ.get("TF_USE_LEGACY_KERAS", "").strip().lower() in ("1", "true")


def loss_scalers(optimizer: Any) -> list[Any]:
    """The LossScaleOptimizer classes of the optimizer's Keras that define how gradients are applied."""
    keras = in_use(optimizer)
    candidates = []
    mixed_precision = getattr(keras, "mixed_precision", None)
    scaler = getattr(mixed_precision, "LossScaleOptimizer", None)
    if scaler is None:
        return []
    # In Keras 2 the public class only dispatches: instances are of a subclass or of a private sibling.
    candidates = [scaler, *scaler.__subclasses__()]
    sibling = getattr(sys.modules.get(scaler.__module__), "LossScaleOptimizerV3", None)
    if sibling is not None:
        candidates.append(sibling)
    methods = ("apply", "apply_gradients")
    return [cls for cls in dict.fromkeys(candidates) if any(method in vars(cls) for method in methods)]


def is_keras_3(*witnesses: Any) -> bool:
    return str(getattr(in_use(*witnesses), "__version__", "2")).startswith("3")
