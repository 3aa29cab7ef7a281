"""Let a script that computes in float32 compute in float64: then rounding is out of the picture.

Keras's floatx, and its policies, are float64; `tf.float32`, "float32" and np.float32 mean it where the script says
them; numbers become tensors of it; what operations give in float32 whatever they are given is cast. Files and
serialised
examples are read as what they are.
"""

from __future__ import annotations

from contextlib import suppress
from functools import wraps
from typing import Any

import numpy as np

# Public functions of which the result is float32, or is so unless a dtype is given.
_FLOAT32_RESULTS = {
    "": ("zeros", "ones", "eye", "fill", "one_hot", "linspace", "range"),
    "image": (
        "resize",
        "resize_with_pad",
        "resize_with_crop_or_pad",
        "crop_and_resize",
        "convert_image_dtype",
        "per_image_standardization",
    ),
    "strings": ("to_number",),
    "random": ("normal", "uniform", "truncated_normal", "gamma", "stateless_normal", "stateless_uniform"),
    "signal": ("hann_window", "hamming_window", "linear_to_mel_weight_matrix"),
}
# What describes data as they lie in files, or as other code gives them.
_READERS = {
    "io": (
        "parse_example",
        "parse_single_example",
        "parse_sequence_example",
        "parse_tensor",
        "decode_raw",
        "decode_csv",
    ),
    "": ("numpy_function", "py_function"),
}


def tensorflow(tf: Any) -> None:
    """Call when TensorFlow has been imported, before it has made a tensor."""
    narrow, wide = tf.float32, tf.float64
    _constants(tf, narrow, wide)
    for path, names in _FLOAT32_RESULTS.items():
        for name in names:
            _replace(tf, path, name, lambda original: _cast_results(tf, original, narrow, wide))
    for path, names in _READERS.items():
        for name in names:
            _replace(tf, path, name, lambda original: _read_narrow(tf, original, narrow, wide))
    from tensorflow.python.framework import dtypes

    for spelling in ("float32", "float", np.float32):
        dtypes._ANY_TO_TF[spelling] = wide
    tf.float32 = wide
    tf.dtypes.float32 = wide


def keras(module: Any) -> None:
    """Call when a Keras has been imported."""
    backend = getattr(module, "backend", module)
    backend.set_floatx("float64")
    for owner in {id(o): o for o in (backend, getattr(module, "config", None)) if o is not None}.values():
        if hasattr(owner, "set_floatx"):
            owner.set_floatx = lambda value: None
    for cls in _policies(module):
        _widen_policy(cls)


def _policies(module: Any) -> list[Any]:
    found = [getattr(module, "DTypePolicy", None), getattr(getattr(module, "mixed_precision", None), "Policy", None)]
    return [cls for cls in dict.fromkeys(found) if isinstance(cls, type)]


def _widen_policy(cls: Any) -> None:
    original = cls.__init__

    @wraps(original)
    def __init__(policy: Any, name: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        narrow = isinstance(name, str) and (name.startswith("mixed_") or name in ("float16", "bfloat16", "float32"))
        original(policy, "float64" if narrow else name, *args, **kwargs)

    cls.__init__ = __init__


def _constants(tf: Any, narrow: Any, wide: Any) -> None:
    """What comes from Python and NumPy as float32 comes as float64."""
    from tensorflow.python.framework import constant_op, tensor_util

    to_eager = constant_op.convert_to_eager_tensor

    @wraps(to_eager)
    def convert_to_eager_tensor(value: Any, ctx: Any, dtype: Any = None) -> Any:
        tensor = to_eager(value, ctx, dtype)
        return to_eager(value, ctx, wide) if dtype is None and tensor.dtype == narrow else tensor

    constant_op.convert_to_eager_tensor = convert_to_eager_tensor
    to_proto = tensor_util.make_tensor_proto

    @wraps(to_proto)
    def make_tensor_proto(values: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None and np.asarray(values).dtype in (np.float32, np.float64):
            values, dtype = np.asarray(values, np.float64), wide
        return to_proto(values, dtype, *args, **kwargs)

    tensor_util.make_tensor_proto = make_tensor_proto
    from tensorflow.python.data.util import structure

    spec_of = structure.type_spec_from_value

    @wraps(spec_of)
    def type_spec_from_value(element: Any, *args: Any, **kwargs: Any) -> Any:
        is_narrow = isinstance(element, np.ndarray) and element.dtype == np.float32
        return spec_of(element.astype(np.float64) if is_narrow else element, *args, **kwargs)

    structure.type_spec_from_value = type_spec_from_value
    bitcast = tf.bitcast

    @wraps(bitcast)
    def bitcast_as_written(input: Any, type: Any, *args: Any, **kwargs: Any) -> Any:
        """The bits of a float32, where four bytes are asked for."""
        if getattr(input, "dtype", None) == wide and tf.as_dtype(type).size == narrow.size:
            input = tf.cast(input, narrow)
        return bitcast(input, type, *args, **kwargs)

    tf.bitcast = bitcast_as_written


def _replace(tf: Any, path: str, name: str, change: Any) -> None:
    """Change a public function, and what the module that defines it calls by that name."""
    owner = getattr(tf, path, None) if path else tf
    original = getattr(owner, name, None)
    if original is None:
        return
    changed = change(original)
    with suppress(AttributeError, TypeError):
        setattr(owner, name, changed)
    if path and hasattr(tf, name) and getattr(tf, name) is original:
        setattr(tf, name, changed)


def _cast_results(tf: Any, original: Any, narrow: Any, wide: Any) -> Any:
    """Other code gets the same numbers, in float64."""

    @wraps(original)
    def cast(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        return tf.cast(result, wide) if getattr(result, "dtype", None) == narrow else result

    return cast


def _read_narrow(tf: Any, original: Any, narrow: Any, wide: Any) -> Any:
    """Float64 where the script says float32: the data are that, and are cast when they are read."""

    def narrowed(value: Any) -> Any:
        if value is wide or (isinstance(value, str) and value == "float32") or value is np.float32:
            return narrow
        if isinstance(value, dict):
            return {key: narrowed(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(narrowed(one) for one in value)
        if hasattr(value, "_fields") and hasattr(value, "_replace") and getattr(value, "dtype", None) is not None:
            return value._replace(dtype=narrowed(value.dtype))
        return value

    def widened(value: Any) -> Any:
        if isinstance(value, tf.SparseTensor):
            return tf.SparseTensor(value.indices, widened(value.values), value.dense_shape)
        if isinstance(value, tf.RaggedTensor):
            return value.with_flat_values(widened(value.flat_values))
        return tf.cast(value, wide) if getattr(value, "dtype", None) == narrow else value

    @wraps(original)
    def read(*args: Any, **kwargs: Any) -> Any:
        result = original(*narrowed(args), **narrowed(kwargs))
        return tf.nest.map_structure(widened, result) if result is not None else result

    return read
