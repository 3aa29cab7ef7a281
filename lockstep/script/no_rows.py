"""What Keras and TensorFlow give for no rows: of a batch with fewer rows than there are workers, some have none.

The losses of Keras 3 give an empty array, where a sum over no rows is zero: it empties what it is added to, a penalty
or a mean over all rows, and is no number that could be told. The moments of no rows are 0 / 0, and would be kept. Keras
2 gives zero for such losses. Convolutions and poolings of oneDNN, which TensorFlow takes on CPUs, fail on no rows, or
end the process: they are given one of zeros, of which nothing is kept. So is `ctc_loss`, which fails on none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from lockstep.script.wrapping import wraps

# Functions of `tf.nn` that oneDNN computes, which Keras's layers call as well. The first argument has the rows.
_OF_ONEDNN = (
    "convolution", "conv1d", "conv2d", "conv3d", "conv_transpose", "conv1d_transpose", "conv2d_transpose",
    "conv3d_transpose", "depthwise_conv2d", "separable_conv2d", "atrous_conv2d", "pool", "max_pool", "max_pool1d",
    "max_pool2d", "max_pool3d", "avg_pool", "avg_pool1d", "avg_pool2d", "avg_pool3d", "local_response_normalization",
)  # fmt: skip

_taught: set[Any] = set()
_LIBRARIES = ("tensorflow", "keras", "tf_keras")


def allow_no_rows() -> None:
    """Let the losses of Keras 3 that are sums or means be zero where there are no rows, BatchNormalization keep the
    moments that it has, and convolutions, poolings and `ctc_loss` give no rows, once for all."""
    taught: dict[int, Any] = {}
    for functions in (tf.nn, tf.compat.v2.nn, tf.compat.v1.nn):
        for name in _OF_ONEDNN:
            taught.update(_teach(functions, name, _rows_of_any))
        taught.update(_teach(functions, "ctc_loss", _texts_of_any))
    taught.update(_teach(tf.image, "sobel_edges", _rows_of_any))  # a convolution
    taught.update(_teach(tf.nn, "bias_add", _sum_of_any_rows))
    if taught:
        _rename(taught)
    keras = sys.modules.get("keras")
    if not str(getattr(keras, "__version__", "")).startswith("3"):
        return
    losses, layers = keras.losses, keras.layers  # type: ignore[union-attr]
    _teach(losses.Loss, "__call__", lambda call: _loss_of_any_rows(keras, call))
    _teach(layers.BatchNormalization, "_moments", _moments_of_any_rows)
    for axes in (1, 2, 3):
        _teach(getattr(layers, f"GlobalMaxPooling{axes}D"), "call", _rows_of_any)


def _teach(owner: Any, name: str, taught: Callable[[Any], Any]) -> dict[int, Any]:
    """What now stands in its place, by the id of what stood there."""
    if not hasattr(owner, name) or (owner, name) in _taught:
        return {}
    _taught.add((owner, name))
    before = getattr(owner, name)
    setattr(owner, name, taught(before))
    return {id(before): getattr(owner, name)}


def _rename(taught: dict[int, Any]) -> None:
    """Also where a script has names of its own for them: `from tensorflow.nn import conv2d`."""
    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] not in _LIBRARIES:
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if id(value) in taught:
                    setattr(module, name, taught[id(value)])


def _rows_of_any(function: Any) -> Any:
    signature = inspect.signature(function)
    first = next(name for name in signature.parameters if name != "self")

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    @wraps(function)
    def of_any_rows(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        values = given[first] = tf.convert_to_tensor(given[first])
        if not values.shape.rank or values.shape[0]:
            return function(**given)

        def of_none() -> Any:
            one = tf.zeros(tf.concat([[1], tf.shape(values)[1:]], 0), values.dtype)
            one.set_shape((1, *values.shape[1:]))
            shape = given.get("output_shape")
            of_one = {} if shape is None else {"output_shape": tf.concat([[1], tf.convert_to_tensor(shape)[1:]], 0)}
            return function(**{**given, first: tf.concat([values, one], 0), **of_one})[:0]

        return (
            of_none() if values.shape[0] == 0 else tf.cond(tf.shape(values)[0] > 0, lambda: function(**given), of_none)
        )

    return of_any_rows


def _texts_of_any(ctc_loss: Any) -> Any:
    """Of version 1 or 2, which have other names for the same."""
    signature = inspect.signature(ctc_loss)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    @wraps(ctc_loss)
    def of_any_texts(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        frames = "logit_length" if "logit_length" in given else "sequence_length"
        given[frames] = tf.convert_to_tensor(given[frames])
        rows = given[frames].shape[0]
        if rows:
            return ctc_loss(**given)

        def of_none() -> Any:
            time, label = given.get("logits_time_major", given.get("time_major", True)), given.get("blank_index") == 0
            axes = {
                "labels": (0, label),
                "label_length": (0, 0),
                frames: (0, 1),
                "logits": (time, 0),
                "inputs": (time, 0),
            }
            one = {
                n: _with_one(given[n], int(axis), int(v)) for n, (axis, v) in axes.items() if given.get(n) is not None
            }
            unique = {"unique": None} if "unique" in given else {}  # it is found out of the labels then
            return ctc_loss(**{**given, **one, **unique})[:0]

        return of_none() if rows == 0 else tf.cond(tf.size(given[frames]) > 0, lambda: ctc_loss(**given), of_none)

    return of_any_texts


def _with_one(values: Any, axis: int, value: int) -> Any:
    """The values with one more along the axis, of the value everywhere."""
    if isinstance(values, tf.SparseTensor):
        one = tf.SparseTensor([[0, 0]], tf.cast([value], values.dtype), [1, 1])
        return tf.sparse.concat(axis, [values, one], expand_nonconcat_dims=True)
    values = tf.convert_to_tensor(values)
    shape = tf.tensor_scatter_nd_update(tf.shape(values), [[axis]], [1])
    return tf.concat([values, tf.fill(shape, tf.cast(value, values.dtype))], axis)


def _sum_of_any_rows(bias_add: Any) -> Any:
    """Keras 3 takes the second of two tensors without rows for a bias."""

    @wraps(bias_add)
    def of_any_rows(value: Any, bias: Any, *args: Any, **kwargs: Any) -> Any:
        if len(getattr(bias, "shape", (None,))) > 1:
            return tf.add(value, bias)
        return bias_add(value, bias, *args, **kwargs)

    return of_any_rows


def _loss_of_any_rows(keras: Any, call: Any) -> Any:
    @wraps(call)
    def of_any_rows(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        is_of_rows = self.reduction in (None, "none") or tuple(getattr(result, "shape", ())) != (0,)
        return result if is_of_rows else keras.ops.sum(result)

    return of_any_rows


def _moments_of_any_rows(moments: Any) -> Any:
    @wraps(moments)
    def of_any_rows(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        found = moments(self, inputs, *args, **kwargs)
        if not tf.is_tensor(inputs):  # of a model that is only being built
            return found
        kept = (self.moving_mean, self.moving_variance)
        has_rows = tf.size(inputs) > 0
        return tuple(tf.where(has_rows, new, tf.cast(old, new.dtype)) for new, old in zip(found, kept))

    return of_any_rows
