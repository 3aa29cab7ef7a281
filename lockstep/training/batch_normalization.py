"""synchronise_batch_normalization: layers that normalise with the moments of the global batch.

What the layers of every Keras do with a mean and a variance stays; they get others. Both are made of sums over all
workers' rows and their number, so that shards may be uneven or empty, and are differentiated as these are.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep.collectives.agreement import compare_calls
from lockstep.collectives.differentiable import of_reduced, with_gradient
from lockstep.collectives.world import backend
from lockstep.script.disguise import become, disguised
from lockstep.script.holders import all_owners_in
from lockstep.script.variables import layer_class
from lockstep.shards import step_rows
from lockstep.weights.sending import on_new_layers

_MARK = "_lockstep_global_moments"
_KEEPS_UNBIASED = "_lockstep_keeps_unbiased"
_ADVICE = "Every worker must normalise the same layers in the same order."
_classes: dict[type, type] = {}
_models: weakref.WeakSet[Any] = weakref.WeakSet()


def synchronise_batch_normalization(models: Any) -> Any:
    owners = [owner for owner in all_owners_in(models) if layer_class(owner) is not None]
    if not owners:
        raise TypeError(
            "lockstep.synchronise_batch_normalization takes Keras models and layers, alone or in lists, tuples and "
            f"dicts, and objects that hold them, not {type(models).__name__}"
        )
    for owner in owners:
        _models.add(owner)
        if getattr(owner, "supports_jit", False):
            owner.supports_jit = False  # XLA cannot hold collectives between workers
    on_new_layers(_synchronise_all)
    _synchronise_all()
    return models


def _synchronise_all() -> None:
    """The layers that the models have by now."""
    for model in list(_models):
        for layer in list(model._flatten_layers()):
            if _is_batch_normalization(layer) and not hasattr(type(layer), _MARK):
                _synchronise(layer)
            if hasattr(type(layer), _MARK) and layer.built and getattr(layer, "fused", False):
                # The fused operation of Keras 2 takes no moments of others; what it keeps is the unbiased variance.
                layer.fused, vars(layer)[_KEEPS_UNBIASED] = False, True


def _is_batch_normalization(layer: Any) -> bool:
    return hasattr(layer, "_moments") and any(
        "BatchNormalization" in cls.__name__ and cls.__module__.split(".")[0] in ("keras", "tf_keras", "tensorflow")
        for cls in type(layer).__mro__
    )


def _synchronise(layer: Any) -> Any:
    for option in ("renorm", "virtual_batch_size"):
        if getattr(layer, option, None):
            raise ValueError(f"lockstep.synchronise_batch_normalization: {layer.name} has {option}, which is local")
    cls = type(layer)
    if cls not in _classes:
        _classes[cls] = _synchronised_class(cls)
    become(layer, _classes[cls])
    return layer


def _synchronised_class(cls: Any) -> type:
    members = _of_keras_2(cls) if hasattr(cls, "_calculate_mean_and_var") else _of_keras_3()
    return disguised(cls, {**members, _MARK: True}, _synchronise)


def _of_keras_3() -> dict[str, Any]:
    def _moments(self: Any, inputs: Any, mask: Any) -> Any:
        # Keras divides by a little more than the number of what is not masked.
        epsilon = 0.0 if mask is None else tf.keras.backend.epsilon()
        mean, variance, _ = _moments_of_all(inputs, self._reduction_axes, mask, epsilon)
        return tf.squeeze(mean, self._reduction_axes), tf.squeeze(variance, self._reduction_axes)

    return {"_moments": _moments}


def _of_keras_2(cls: Any) -> dict[str, Any]:
    def _calculate_mean_and_var(
        self: Any, inputs: Any, reduction_axes: Any, keep_dims: bool, mask: Any = None
    ) -> tuple[Any, Any]:
        wide = tf.cast(inputs, tf.float32) if inputs.dtype in (tf.float16, tf.bfloat16) else inputs
        mean, variance, number = _moments_of_all(wide, reduction_axes, mask, 0.0)
        if vars(self).get(_KEEPS_UNBIASED):
            vars(self)["_lockstep_number"] = _number_of_distinct(wide, tf.reduce_max(number))
        if not keep_dims:
            mean, variance = tf.squeeze(mean, reduction_axes), tf.squeeze(variance, reduction_axes)
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)

    def _assign_moving_average(self: Any, variable: Any, value: Any, momentum: Any, inputs_size: Any) -> Any:
        if variable is self.moving_variance and vars(self).get(_KEEPS_UNBIASED):
            number = tf.cast(self._lockstep_number, value.dtype)
            value *= number / tf.maximum(number - 1, 1)
        return cls._assign_moving_average(self, variable, value, momentum, inputs_size)

    return {
        "_calculate_mean_and_var": _calculate_mean_and_var,
        "_assign_moving_average": _assign_moving_average,
    }


def _moments_of_all(inputs: Any, axes: Sequence[int], mask: Any, epsilon: float) -> tuple[Any, Any, Any]:
    """Mean and variance over all workers' rows, and over how many values; the axes stay, of length 1."""
    counted = tf.ones_like(inputs) if mask is None else tf.cast(mask, inputs.dtype)[..., None] * tf.ones_like(inputs)
    step = step_rows.current()
    if step is not None:
        counted = tf.where(step.counting > 0, counted, tf.zeros_like(counted))
    axes = list(axes)
    counting = counted > 0

    def total(values: Any) -> Any:
        return tf.reduce_sum(tf.where(counting, values, tf.zeros_like(values)), axes, keepdims=True)

    summed, number = _sums([total(inputs), tf.reduce_sum(counted, axes, keepdims=True)])
    number = tf.stop_gradient(number)
    mean = summed / (number + epsilon)
    (squares,) = _sums([total(tf.math.squared_difference(inputs, mean))])
    return mean, squares / (number + epsilon), number


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _number_of_distinct(inputs: Any, number: Any) -> Any:
    """Of `number` values of a channel, those that do not come from ranks that compute the same shard as another one.

    A batch that does not split evenly is cut into fewer shards than there are ranks, which nobody tells its layers. It
    matters to the unbiased variance alone.
    """
    values = tf.cast(tf.stop_gradient(inputs), tf.float64)
    own = tf.stack([tf.cast(tf.shape(values)[0], tf.float64), tf.reduce_sum(values), tf.reduce_sum(values**2)])
    everyone = backend().gather(own[None])
    is_new = tf.concat([[True], tf.reduce_any(everyone[1:] != everyone[:-1], axis=1)], 0)
    rows = everyone[:, 0]
    distinct = tf.reduce_sum(tf.where(is_new, rows, tf.zeros_like(rows)))
    return tf.cast(number, tf.float64) * distinct / tf.reduce_sum(rows)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _sums(tensors: list[Any]) -> list[Any]:
    """Over the workers, to be differentiated."""
    shapes = " ".join(str(tensor.shape) for tensor in tensors)
    compare_calls("the moments of batch normalization", shapes, _ADVICE)
    totals = backend().reduce(tensors, "sum")
    return with_gradient(tensors, totals, of_reduced(tensors, totals, "sum"))
