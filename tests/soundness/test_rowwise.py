"""Every op that counts as working row by row gives of a batch what it gives of its halves."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from migrator.facts.data.rowwise import ALONG_AXIS, DRAWN_PER_ROW, ELEMENTWISE, LAYERS, PER_ROW

ROWS = 6
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "cast": ("float64",), "saturate_cast": ("uint8",), "clip_by_value": (0.2, 0.7), "convert_image_dtype": ("uint8",),
    "regex_replace": ("a", "b"), "to_hash_bucket_fast": (7,), "substr": (1, 2), "one_hot": (5,),
    "decode_raw": ("uint8",),
    "resize": ((5, 3),), "resize_with_pad": (9, 5), "resize_with_crop_or_pad": (3, 9), "central_crop": (0.5,),
    "crop_to_bounding_box": (1, 1, 2, 3), "pad_to_bounding_box": (1, 1, 9, 9), "adjust_brightness": (0.3,),
    "adjust_contrast": (1.5,), "adjust_hue": (0.2,), "adjust_saturation": (1.5,), "adjust_gamma": (1.2,),
}  # fmt: skip
_TEXTS = ("lower", "upper", "strip", "length", "regex_replace", "to_hash_bucket_fast", "split", "substr", "decode_raw")


def function(path: str) -> Any:
    parts = path.split(".")
    found: Any = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    return found


def batch(name: str) -> Any:
    rng = np.random.RandomState(0)
    if name in _TEXTS:
        return np.array(["Ab a c", "bba d ", " aBc a", "aaa ab", "c c c ", "abcdef"])
    if name == "to_number":
        return np.array([str(i * 1.5) for i in range(ROWS)])
    if name == "one_hot":
        return rng.randint(0, 5, ROWS)
    if name == "grayscale_to_rgb":
        return rng.uniform(size=(ROWS, 6, 7, 1)).astype("float32")
    if name == "logical_not":
        return rng.uniform(size=(ROWS, 3)) > 0.5
    return rng.uniform(size=(ROWS, 6, 7, 3)).astype("float32")


def together(parts: list[Any]) -> Any:
    import tensorflow as tf

    return tf.concat(parts, 0)


def check(whole: Any, parts: list[Any]) -> None:
    import tensorflow as tf

    joined = together(parts)
    if isinstance(whole, tf.RaggedTensor):
        assert whole.to_list() == joined.to_list()
    elif whole.dtype == tf.string:
        assert np.array_equal(whole.numpy(), joined.numpy())
    else:
        np.testing.assert_allclose(
            whole.numpy().astype("float64"), joined.numpy().astype("float64"), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("path", sorted(ELEMENTWISE | PER_ROW))
def test_op(path: str) -> None:
    name = path.rpartition(".")[2]
    op, given, x = function(path), _ARGUMENTS.get(name, ()), function("tensorflow.constant")(batch(name))
    check(op(x, *given), [op(part, *given) for part in (x[:2], x[2:])])


@pytest.mark.parametrize("path", sorted(ALONG_AXIS))
def test_op_along_another_axis(path: str) -> None:
    name = path.rpartition(".")[2]
    op, x = function(path), batch(name)
    x = x > 0.5 if name in ("reduce_any", "reduce_all") else x
    x = x[:, :1] if name == "squeeze" else x
    axis = [1] if name == "reverse" else 1

    def of(part: Any) -> Any:
        return op([part, part], axis=axis) if name in ("concat", "stack") else op(part, axis=axis)

    check(of(x), [of(x[:2]), of(x[2:])])


@pytest.mark.parametrize("path", sorted(DRAWN_PER_ROW))
def test_each_row_gets_a_draw_of_its_own(path: str) -> None:
    x = np.tile(batch("")[:1], (64, 1, 1, 1))
    drawn = function(path)(x).numpy()
    assert 1 < len({row.tobytes() for row in drawn}) < 64


_LAYER_ARGUMENTS: dict[str, dict[str, Any]] = {
    "Rescaling": {"scale": 0.5}, "Resizing": {"height": 4, "width": 5}, "CenterCrop": {"height": 4, "width": 5},
    "Normalization": {"mean": 0.3, "variance": 2.0}, "Discretization": {"bin_boundaries": [0.2, 0.5]},
    "Hashing": {"num_bins": 9}, "StringLookup": {"vocabulary": ["a", "b"]}, "IntegerLookup": {"vocabulary": [1, 2]},
    "TextVectorization": {"vocabulary": ["a", "b", "aaa"], "output_sequence_length": 4},
    "RandomFlip": {}, "RandomRotation": {"factor": 0.3}, "RandomZoom": {"height_factor": 0.3},
    "RandomTranslation": {"height_factor": 0.3, "width_factor": 0.3},
}  # fmt: skip


@pytest.mark.parametrize("name", sorted({path.rpartition(".")[2] for path in LAYERS}))
def test_layer(name: str) -> None:
    import tensorflow as tf

    layer = getattr(tf.keras.layers, name)(**_LAYER_ARGUMENTS[name])
    if name.startswith("Random"):
        same = np.tile(batch("")[:1], (64, 1, 1, 1))
        assert len({row.tobytes() for row in np.asarray(layer(same, training=True))}) > 1
        return
    x = {"StringLookup": batch("lower"), "TextVectorization": batch("lower"), "IntegerLookup": batch("one_hot")}
    given = tf.constant(x.get(name, batch(name)))
    check(tf.convert_to_tensor(layer(given)), [tf.convert_to_tensor(layer(part)) for part in (given[:2], given[2:])])
