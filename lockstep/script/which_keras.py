"""Which Keras a script uses: Keras 3, the Keras 2 inside TensorFlow, or tf_keras."""

from __future__ import annotations

import sys
import types
from typing import Any

import tensorflow as tf

# The Keras that the models come from which this process has broadcast.
_of_models: list[str] = []


def note_model(model: Any) -> None:
    """Remember which Keras this script builds its models with."""
    _of_models[:] = [root for root in _roots(model) if root in ("keras", "tf_keras")]


def in_use(*witnesses: Any) -> Any:
    """The Keras module that these objects come from; without a telling one, the script's likely one.

    That is the one of the models broadcast before, else tf_keras if the script names it, else tf.keras.
    """
    roots = [root for witness in witnesses for root in _roots(witness)] or _of_models
    if "tf_keras" in roots or (not roots and _is_named_by_script("tf_keras")):
        return sys.modules["tf_keras"]
    if "keras" in roots and str(getattr(sys.modules.get("keras"), "__version__", "")).startswith("3"):
        return sys.modules["keras"]
    return tf.keras


def all_loaded() -> list[Any]:
    """Every Keras that a model of this process may come from."""
    loaded = [sys.modules.get("keras"), sys.modules.get("tf_keras"), tf.keras]
    return [keras for keras in loaded if hasattr(keras, "Model")]


def _roots(value: Any) -> list[str]:
    return [cls.__module__.split(".")[0] for cls in type(value).__mro__ if cls is not object]


def _is_named_by_script(package: str) -> bool:
    """Whether the script that was started has imported the package, or something from it, by that name."""
    if package not in sys.modules:
        return False
    for value in list(vars(sys.modules["__main__"]).values()):
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str) and name.split(".")[0] == package:
            return True
    return False


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
