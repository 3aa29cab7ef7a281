"""What Keras gives for no rows: of a batch with fewer rows than there are workers, some have none.

The losses of Keras 3 give an empty array, where a sum over no rows is zero: it empties what it is added to, a penalty
or a mean over all rows, and is no number that could be told. The moments of no rows are 0 / 0, and would be kept. Keras
2 gives zero for such losses.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as tf

from lockstep.script.wrapping import wraps

_taught: set[Any] = set()


def allow_no_rows() -> None:
    """Let the losses of Keras 3 that are sums or means be zero where there are no rows, and BatchNormalization keep the
    moments that it has, once for all."""
    keras = sys.modules.get("keras")
    if not str(getattr(keras, "__version__", "")).startswith("3"):
        return
    for module, name, method, taught in (
        ("losses", "Loss", "__call__", _loss_of_any_rows),
        ("layers", "BatchNormalization", "_moments", _moments_of_any_rows),
    ):
        cls = getattr(getattr(keras, module, None), name, None)
        if hasattr(cls, method) and cls not in _taught:
            _taught.add(cls)
            setattr(cls, method, taught(keras, getattr(cls, method)))


def _loss_of_any_rows(keras: Any, call: Any) -> Any:
    @wraps(call)
    def of_any_rows(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        is_of_rows = self.reduction in (None, "none") or tuple(getattr(result, "shape", ())) != (0,)
        return result if is_of_rows else keras.ops.sum(result)

    return of_any_rows


def _moments_of_any_rows(_: Any, moments: Any) -> Any:
    @wraps(moments)
    def of_any_rows(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        found = moments(self, inputs, *args, **kwargs)
        if not tf.is_tensor(inputs):  # of a model that is only being built
            return found
        kept = (self.moving_mean, self.moving_variance)
        has_rows = tf.size(inputs) > 0
        return tuple(tf.where(has_rows, new, tf.cast(old, new.dtype)) for new, old in zip(found, kept))

    return of_any_rows
