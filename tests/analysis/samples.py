"""Sample arguments by hand: for a kind of ops, and for the ops that want others. Eight rows make the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from proving import ROW_COUNT, Data, Literal, Sample, data

from migrator.analysis.ops import NOT_CONSTANT, Op
from migrator.analysis.placement import REPLICATED, Shape, Sharded

f = data


def i(*shape: int, low: int = 0, high: int = 4) -> Data:
    return data(*shape, kind="int", low=low, high=high)


def b(*shape: int) -> Data:
    return data(*shape, kind="bool")


def square(*shape: int) -> Data:
    return data(*shape, kind="square")


def c(*shape: int) -> Data:
    return data(*shape, kind="complex")


def text(*shape: int) -> Data:
    return Data(np.asarray([f"{n}".encode() for n in range(int(np.prod(shape)))], object).reshape(shape))


def labels(n: int = 8, classes: int = 4) -> Data:
    """One class a row, as numbers from 0 to 1 in each row."""
    return Data(np.eye(classes, dtype="float32")[np.arange(n) % classes])


def batch(value: Data, *axes: int) -> Data:
    """Only whole or cut: values of which no share can be taken."""
    return Data(value.value, (REPLICATED, *(Sharded(axis) for axis in (axes or (0,)))))


def S(*args: Any, **kwargs: Any) -> Sample:  # noqa: N802
    made = kwargs.pop("made", None)
    return Sample(args, kwargs, made)


SHAPE = Data(np.asarray([8, 4, 6]), (Shape(0),))


def dtype(name: str) -> Literal:
    return Literal(tf.as_dtype(name), name)


AXES = [None, 0, 1, -1, (0, 1), (1, 2), (0, 2)]


def unary(op: Op) -> list[Sample]:
    return [S(f(8, 4)), S(f(8))]


def stacked(op: Op) -> list[Sample]:
    """Of a list, rows lie along the second axis of the array that is made of it."""
    return [*unary(op), S([f(8, 4), f(8, 4)]), S([f(8), f(8)])]


def binary(op: Op) -> list[Sample]:
    pairs = [
        (f(8, 4), f(8, 4)),
        (f(8, 4), f(4)),
        (f(4), f(8, 4)),
        (f(8, 4), f(8, 1)),
        (f(8), f(8, 1)),
        (f(8), f(8)),
        (f(6, 8), f(8)),
    ]
    return [S(*pair) for pair in pairs] + [S(f(8, 4), 2.0), S(f(8, 4), ROW_COUNT), S(f(1, 8), f(8, 1))]


def reduction(op: Op) -> list[Sample]:
    found = [S(f(8, 4, 6), axis=axis) for axis in AXES] + [S(f(8)), S(f(8), axis=-1), S(f(4, 8, 6), axis=0)]
    return found + [S(f(8, 4, 6), axis=a, keepdims=True) for a in (0, 1, (0, 2))]


def along(op: Op) -> list[Sample]:
    return [S(f(8, 4, 6), axis=axis) for axis in (0, 1, -1)] + [S(f(8), axis=-1), S(f(4, 8, 6), axis=-1), S(f(8, 4))]


def per_sample(op: Op) -> list[Sample]:
    return [S(f(8, 4))] + ([S(f(6, 8, 4)), S(f(6, 4, 8))] if getattr(op.kind, "behind", None) is not None else [])


def ctc(op: Op) -> list[Sample]:
    labels, two, six = i(8, 2, low=1), i(8, low=2, high=3), i(8, low=6, high=7)
    return [
        S(labels, batch(f(8, 6, 5)), two, six, logits_time_major=False),
        S(labels, batch(f(6, 8, 5), 1), two, six),
    ]


def last(op: Op) -> list[Sample]:
    return [S(f(8, 4)), S(f(8, 6, 4))]


def cores(op: Op) -> list[Sample]:
    ins = op.kind.cores
    found = []
    for lead in ((8,), (8, 6), (6, 8), ()):
        shapes = [(*lead, *([8, 8, 8] if not lead else [4, 4, 4])[:n]) for n in ins]
        found.append(S(*(square(*s) if n >= 2 else f(*s) for s, n in zip(shapes, ins))))
    return found


def matrices(op: Op) -> list[Sample]:
    pairs = [
        ((8, 4), (4, 6)),
        ((8, 3, 4), (8, 4, 6)),
        ((4, 8), (8, 6)),
        ((6, 4), (4, 8)),
        ((8, 3, 4), (4, 6)),
        ((3, 4), (8, 4, 6)),
        ((8, 4), (4, 8)),
    ]
    return [S(f(*a), f(*b_)) for a, b_ in pairs]


def loss(op: Op) -> list[Sample]:
    return [
        S(batch(f(8, 4)), batch(f(8, 4))),
        S(batch(f(8, 1)), batch(f(8, 1))),
        S(batch(f(8, 3, 4)), batch(f(8, 3, 4))),
        S(batch(f(8)), batch(f(8))),
        S(batch(f(8)), batch(f(8, 1))),
        S(batch(f(8, 1)), batch(f(8))),
    ]


def sparse_loss(op: Op) -> list[Sample]:
    return [S(i(8), batch(f(8, 4))), S(i(8, 3), batch(f(8, 3, 4)))]


def loss_function(op: Op) -> list[Sample]:
    return [*(sparse_loss if op.kind.sparse else loss)(op), *along_axes(op, op.parameters)]


def along_axes(op: Op, parameters: Sequence[str], made: bool = False) -> list[Sample]:
    """A loss that is told its axis: features in the middle, features at the end, the batch."""
    if "axis" not in parameters:
        return []
    sparse = (op.kind.function if made else op.kind).sparse
    shapes = {1: (8, 6, 4, 3), -1: (8, 4), 0: (8, 4)} if not sparse else {-1: (8, 3, 4)}
    return [
        S(
            i(*shape[:-1]) if sparse else batch(f(*shape)),
            batch(f(*shape)),
            **({"made": {"axis": axis}} if made else {"axis": axis}),
        )
        for axis, shape in shapes.items()
    ]


def loss_object(op: Op) -> list[Sample]:
    function = sparse_loss if op.kind.function.sparse else loss
    if "sample_weight" not in op.parameters:  # a metric, of which each call takes a new object
        return function(op)[:2]
    found = [
        s
        for how in (None, "sum", "none", "sum_over_batch_size")
        for s in (S(*g.args, made={} if how is None else {"reduction": how}) for g in function(op)[:3])
    ]
    found += [
        S(*g.args, sample_weight=batch(f(8)), made={"reduction": how})
        for g in function(op)[:1]
        for how in ("sum", "sum_over_batch_size")
    ]
    return found + along_axes(op, op.made, made=True)


def loss_v1(op: Op) -> list[Sample]:
    function = sparse_loss if op.kind.function.sparse else loss
    constants = tf.compat.v1.losses.Reduction
    found = []
    for name in (None, "NONE", "SUM", "SUM_OVER_BATCH_SIZE", "MEAN", "SUM_BY_NONZERO_WEIGHTS"):
        how = (
            {}
            if name is None
            else {"reduction": Literal(getattr(constants, name), f"tensorflow.compat.v1.losses.Reduction.{name}")}
        )
        found += [S(*g.args, **how) for g in function(op)[:2]]
        found += [S(*g.args, weights=0.5, **how) for g in function(op)[:1]]
        found += [
            S(*g.args, weights=batch(f(8) if function is sparse_loss or "softmax" in op.path else f(8, 1)), **how)
            for g in function(op)[:1]
        ]
    return found


BY_KIND: dict[str, Callable[[Op], list[Sample]]] = {
    "Reduces": reduction,
    "Moments": lambda op: [S(f(8, 4, 6), axes=axes) for axes in ([0], [1], [0, 1], [-1])],
    "Along": along,
    "LastAxes": cores,
    "MatrixProduct": matrices,
    "TensorProduct": lambda op: matrices(op)[:1] + matrices(op)[2:4] + [S(f(8), f(8)), S(f(8), f(6))],
    "LossFunction": loss_function,
    "LossObject": loss_object,
    "LossV1": loss_v1,
    "PerSample": per_sample,
    "FloorDivision": binary,
    "Power": lambda op: [*binary(op), S(ROW_COUNT, -1.0), S(f(8, 4), 2), S(f(8, 4), 1)],
    "ListSum": lambda op: [S([f(8, 4), f(8, 4)]), S([f(4), f(4), f(4)])],
    "Ctc": ctc,
    "Cast": lambda op: [S(f(8, 4), dtype("float64")), S(f(8, 4), dtype("int32")), S(ROW_COUNT, dtype("float32"))],
    "Same": unary,
    "Stacked": stacked,
    "Constant": unary,
    "Like": unary,
    "Broadcast": lambda op: [
        S(f(4), [ROW_COUNT, 4]),
        S(f(8, 1), [ROW_COUNT, 4]),
        S(f(8, 4), [8, 4]),
        S(f(4), [6, 4]),
        S(f(8), [3, ROW_COUNT]),
    ],
    "Sizes": lambda op: [S(f(8, 4)), S(f(4, 8)), S(f(8))],
    "Permutes": lambda op: {
        "transpose": [S(f(8, 4, 6)), S(f(8, 4)), S(f(8, 4, 6), (0, 2, 1)), S(f(8, 4, 6), (2, 0, 1))],
        "swap": [S(f(8, 4, 6), 0, 1), S(f(8, 4, 6), 1, -1), S(f(8, 4, 6), -1, -3)],
        "move": [S(f(8, 4, 6), 0, -1), S(f(8, 4, 6), 2, 0), S(f(8, 4, 6), (0, 1), (1, 2))],
        "last two": [S(f(8, 4, 6)), S(f(8, 4)), S(f(4, 8))],
    }[op.kind.how],
    "ExpandDims": lambda op: [S(f(8, 4), axis) for axis in (0, 1, -1, -2, -3)],
    "Squeeze": lambda op: [
        S(f(8, 1, 4), axis=1),
        S(f(8, 1), axis=-1),
        S(f(8, 1)),
        S(f(1, 8), axis=0),
        S(f(1, 8, 1), axis=[0, 2]),
    ],
    "Reshape": lambda op: (
        [S(f(8, 4)), S(f(4, 8)), S(f(8))]
        if op.kind.shape
        else [S(f(8, 4, 6), shape) for shape in ([-1, 6], [-1], [8, 24], [1, -1, 24], [-1, 3], [2, -1], [-1, 4, 6])]
        + [
            S(f(8, 4, 6), [ROW_COUNT, -1]),
            S(f(8, 4, 6), [ROW_COUNT, 24]),
            S(f(4, 8), [-1]),
            S(f(4, 8), [-1, 8]),
            S(f(8), [-1, 1]),
            S(f(4, 8), [-1, ROW_COUNT]),
            S(f(8, 4), [4, ROW_COUNT]),
        ]
    ),
    "Joins": lambda op: (
        [S([f(8, 4), f(8, 4)], axis=axis) for axis in (0, 1, -1)] + [S([f(4, 8), f(4, 8), f(4, 8)], axis=1)]
    ),
    "Splits": lambda op: [
        S(f(8, 4), 4, axis=1),
        S(f(8, 4), 8, axis=0),
        S(f(4, 8), 4, axis=0),
        S(f(8, 6, 4), 6, axis=-2),
    ],
    "Window": lambda op: [
        *(S(f(8, 4), begin, size) for begin in ([0, 0], [0, 1], [1, 1]) for size in ([-1, 2], [8, 2], [3, 2])),
        S(f(8, 4), [0, 1], [ROW_COUNT, 2]),
        S(f(4, 8), [1, 0], [2, ROW_COUNT]),
        S(f(4, 8), [1, 0], [2, 3]),
        S(f(8, 8), [0, 0], [ROW_COUNT, -1]),
    ],
    "Tile": lambda op: [S(f(8, 4), m) for m in ([1, 2], [2, 1], [3, 2], [ROW_COUNT, 1])] + [S(f(1, 4), [ROW_COUNT, 1])],
    "Repeat": lambda op: [S(f(8, 4), 2, axis=a) for a in (0, 1, -1)] + [S(f(8, 4), 2), S(f(4, 8), 2)],
    "Pad": lambda op: (
        [S(f(8, 4), p) for p in ([[0, 0], [1, 2]], [[1, 0], [0, 0]])] + [S(f(8, 4), [[0, 0], [1, 1]], mode="reflect")]
    ),
    "Gather": lambda op: (
        [S(f(10, 4), i(8)), S(f(8, 4), i(3)), S(f(10, 4), i(8, 3))]
        + (
            []
            if "axis" not in op.parameters
            else [S(f(8, 6), i(3), axis=1), S(f(6, 10), i(8), axis=-1), S(f(6, 10), i(8, 3), axis=0)]
        )
        + (
            []
            if "batch_dims" not in op.parameters
            else [S(f(8, 6), i(8), axis=1, batch_dims=1), S(f(8, 6), i(8, 3), batch_dims=1)]
        )
    ),
    "GatherNd": lambda op: [
        S(f(10, 4), i(8, 1)),
        S(f(4, 4), i(8, 2)),
        S(f(8, 6), i(8, 1), batch_dims=1),
        S(f(8, 4), i(3, 1)),
    ],
    "AlongRows": lambda op: [S(f(8, 6), i(8, 3), axis=1), S(f(8, 6), i(8, 3), axis=-1), S(f(8, 6), i(8, 6), axis=0)],
    "Mask": lambda op: [S(f(8, 4), b(8)), S(f(8, 4), b(4), axis=1), S(f(8, 4), b(8, 4))],
    "OneHot": lambda op: [S(i(8), 4), S(i(8), 4, axis=0), S(i(8, 3), 4, axis=1)],
    "Makes": lambda op: [S([ROW_COUNT, 4]), S([3, ROW_COUNT]), S([ROW_COUNT])],
    "Average": lambda op: [*reduction(op)[:4], S(f(8), weights=f(8)), S(f(8, 4), axis=1, weights=f(4))],
    "AverageLoss": lambda op: [
        S(f(8)),
        S(f(8), global_batch_size=8),
        S(f(8), sample_weight=batch(f(8))),
        S(f(8, 4)),
        S(f(8), global_batch_size=ROW_COUNT),
    ],
    "Counts": lambda op: [S(i(8), i(8), num_classes=4)],
    "BatchDot": lambda op: [
        S(f(8, 4), f(8, 4), axes=1),
        S(f(8, 3, 4), f(8, 5, 4), axes=(2, 2)),
        S(f(8, 3, 4), f(8, 4, 5)),
    ],
    "WholeValue": lambda op: [],
    "FlatProduct": lambda op: [S(f(8), f(8))],
    "MatrixVector": lambda op: [
        S(f(8, 4), f(4)),
        S(f(8, 3, 4), f(8, 4)),
        S(f(8, 4), f(8), transpose_a=True),
        S(f(4, 8), f(8)),
        S(f(3, 4), f(8, 4)),
    ],
    "Einsum": lambda op: [
        S("ij,jk->ik", f(8, 4), f(4, 6)),
        S("bi,bj->ij", f(8, 4), f(8, 6)),
        S("bi,ci->bc", f(8, 4), f(8, 4)),
        S("bij,bjk->bik", f(8, 3, 4), f(8, 4, 6)),
        S("bhqd,bhkd->bhqk", f(8, 2, 3, 4), f(8, 2, 5, 4)),
        S("...ij->...ji", f(8, 3, 4)),
        S("ij,ij", f(8, 4), f(8, 4)),
        S("ij->j", f(8, 4)),
        S("i,ij->j", f(8), f(8, 4)),
        S("...d,de->...e", f(8, 3, 4), f(4, 6)),
        S("b...,b...->b", f(8, 4), f(8, 4)),
        S("bi,i", f(8, 4), f(4)),
    ],
    "GetItem": lambda op: (
        [
            S(f(8, 4, 6), Literal(key, key))
            for key in (
                (slice(None), slice(1, None)),
                (Ellipsis, 0),
                (slice(None), None),
                (None,),
                (slice(None), 0),
                (Ellipsis, slice(1, 3), 0),
                0,
                slice(0, 4),
                slice(None, None, -1),
                (slice(None), slice(None), slice(None, None, -1)),
                Ellipsis,
                (None, Ellipsis, None),
                slice(None, None, 2),
                (0, slice(None)),
                (slice(None), -1, None),
            )
        ]
        + [S(f(4, 8), Literal(key, key)) for key in ((0,), (slice(1, None),), (Ellipsis, slice(0, 4)), (0, Ellipsis))]
        + [
            S(f(8, 4), b(8)),
            *(
                [S(SHAPE, Literal(k, k)) for k in (0, 1, 2, slice(1, None), slice(None, 2), slice(0, -1))]
                if op.path == "operator.getitem"
                else []
            ),
            S(f(8, 6), Literal((slice(None), slice(1, 3)), (slice(None), slice(1, NOT_CONSTANT)))),
            S(f(8, 6), Literal((slice(None), 2), (slice(None), NOT_CONSTANT))),
            S(f(6, 8), Literal((2, slice(None)), (NOT_CONSTANT, slice(None)))),
        ]
    ),
}


def elementwise(op: Op) -> list[Sample]:
    if op.kind.law == "select":
        return [
            S(b(8, 4), f(8, 4), f(8, 4)),
            S(b(8, 4), f(8, 4), 0.0),
            S(b(4), f(8, 4), f(4)),
            S(b(), f(4), f(4)),
            S(b(8, 1), f(8, 4), f(8, 4)),
        ]
    return {1: unary, 2: binary, 3: lambda op: [S(f(8, 4), f(8, 4), f(8, 4)), S(f(8, 4), f(4), 1.0)]}[op.kind.arity](op)


BY_KIND["Elementwise"] = elementwise


def retyped(sample: Sample, make: Callable[[Data], Data]) -> Sample:
    def visit(value: Any) -> Any:
        if isinstance(value, Data):
            return make(value) if value is not ROW_COUNT and value.value.dtype == np.float32 else value
        return type(value)(visit(v) for v in value) if isinstance(value, (list, tuple)) else value

    return Sample(tuple(visit(a) for a in sample.args), {k: visit(v) for k, v in sample.kwargs.items()}, sample.made)


def variants(sample: Sample) -> list[Sample]:
    """The sample, and itself with values of other types for ops that take no floats."""
    kinds = [
        lambda d: i(*d.value.shape),
        lambda d: b(*d.value.shape),
        lambda d: c(*d.value.shape),
        lambda d: text(*d.value.shape),
    ]
    return [sample, *(retyped(sample, kind) for kind in kinds)]


IMAGES = f(8, 6, 6, 3)
BATCH = batch(f(8, 4))


def each(names: str, *samples: Sample) -> dict[str, list[Sample]]:
    return {name: list(samples) for name in names.split()}


def pools(dimensions: int, *lead: Any) -> Sample:
    return S(f(8, *[6] * dimensions, 3), *lead)


TENSORFLOW: dict[str, list[Sample]] = {
    **each("clip_by_value", S(f(8, 4), 0.2, 0.8), S(f(8, 4), f(4), f(8, 4))),
    **each("saturate_cast image.convert_image_dtype", S(f(8, 4), dtype("float16"))),
    **each("histogram_fixed_width_bins histogram_fixed_width", S(f(8), [0.0, 1.0], 5)),
    **each("weighted_cross_entropy_with_logits", S(f(8, 4), f(8, 4), 2.0)),
    **each("scalar_mul", S(2.0, f(8, 4)), S(f(), f(8, 4)), S(f(), f(4))),
    **each("ensure_shape", S(f(8, 4), (None, 4))),
    **each("debugging.check_numerics debugging.assert_all_finite", S(f(8, 4), "bad")),
    **each("reverse", S(f(8, 4), axis=[1]), S(f(8, 4), axis=[0])),
    **each("roll", S(f(8, 4), 1, 1), S(f(8, 4), 1, 0), S(f(8, 4), 1, -1)),
    **each(
        "tensordot",
        S(f(8, 4), f(4, 6), 1),
        S(f(8, 4), f(8, 4), 2),
        S(f(8, 4), f(8, 6), [[0], [0]]),
        S(f(8, 4), f(8, 4), [[1], [1]]),
        S(f(8, 4), f(8, 6), 0),
        S(f(8, 3, 4), f(3, 4, 6), 2),
    ),
    **each("band_part", S(f(8, 4, 4), 1, 1), S(f(8, 4), 1, 1)),
    **each("cross", S(f(8, 3), f(8, 3)), S(f(6, 8, 3), f(6, 8, 3))),
    **each("stft", S(f(8, 32), 8, 4), S(f(32, 8), 4, 2)),
    **each("frame", S(f(8, 32), 8, 4)),
    **each("inverse_stft", S(c(8, 6, 5), 8, 4)),
    **each("overlap_and_add", S(f(8, 6, 4), 2)),
    **each("sparse_softmax_cross_entropy_with_logits", S(i(8), f(8, 4)), S(i(8, 3), f(8, 3, 4))),
    **each("in_top_k", S(i(8), f(8, 4), 2)),
    **each("fill", S([ROW_COUNT, 4], 2.0)),
    **each(
        "random.stateless_normal random.stateless_uniform random.stateless_truncated_normal", S([ROW_COUNT, 4], (1, 2))
    ),
    **each("dropout", S(f(8, 4), 0.5)),
    **each("random.categorical", S(f(8, 4), 3)),
    **each("unsorted_segment_sum", S(f(8, 4), i(8), 4), S(f(8), i(8), 4)),
    **each("top_k", S(f(8, 4), 2), S(f(8), 2)),
    **each("conv2d convolution", S(IMAGES, f(3, 3, 3, 5), 1, "SAME")),
    **each("conv1d", S(f(8, 6, 3), f(3, 3, 5), 1, "SAME")),
    **each("conv3d", S(f(8, 4, 4, 4, 3), f(2, 2, 2, 3, 5), [1] * 5, "SAME")),
    **each("depthwise_conv2d", S(IMAGES, f(3, 3, 3, 2), [1] * 4, "SAME")),
    **each("separable_conv2d", S(IMAGES, f(3, 3, 3, 2), f(1, 1, 6, 5), [1] * 4, "SAME")),
    **each("atrous_conv2d", S(IMAGES, f(3, 3, 3, 5), 2, "SAME")),
    **each("dilation2d", S(IMAGES, f(3, 3, 3), [1] * 4, "SAME", "NHWC", [1] * 4)),
    **each("avg_pool max_pool avg_pool2d max_pool2d", pools(2, 2, 2, "SAME")),
    **each("avg_pool1d max_pool1d", pools(1, 2, 2, "SAME")),
    **each("avg_pool3d max_pool3d", pools(3, 2, 2, "SAME")),
    **each("pool", S(IMAGES, [2, 2], "MAX")),
    **each("depth_to_space", S(f(8, 3, 3, 4), 2)),
    **each("space_to_depth", S(IMAGES, 2)),
    **each(
        "local_response_normalization lrn image.flip_left_right image.flip_up_down image.transpose image.rot90 "
        "image.per_image_standardization image.sobel_edges image.image_gradients image.random_flip_left_right "
        "image.random_flip_up_down image.total_variation image.rgb_to_grayscale image.rgb_to_yuv image.yuv_to_rgb "
        "image.rgb_to_yiq image.yiq_to_rgb image.rgb_to_hsv image.hsv_to_rgb",
        S(IMAGES),
    ),
    **each("image.per_image_standardization", S(IMAGES), S(f(8, 6, 3))),
    **each("bias_add", S(f(8, 4), f(4))),
    **each("batch_normalization", S(f(8, 4), f(4), f(4), f(4), f(4), 0.1)),
    **each("image.extract_patches", S(IMAGES, [1, 2, 2, 1], [1, 2, 2, 1], [1] * 4, "VALID")),
    **each("image.resize image.resize_with_pad image.resize_with_crop_or_pad", S(IMAGES, [4, 4]), S(IMAGES, 4, 5)),
    **each("image.central_crop", S(IMAGES, 0.5)),
    **each("image.adjust_contrast", S(IMAGES, 2.0)),
    **each("image.crop_to_bounding_box", S(IMAGES, 1, 1, 3, 3)),
    **each("image.pad_to_bounding_box", S(IMAGES, 1, 1, 9, 9)),
    **each("image.ssim", S(batch(f(8, 12, 12, 3)), batch(f(8, 12, 12, 3)), 1.0)),
    **each("image.psnr", S(batch(IMAGES), batch(f(8, 6, 6, 3)), 1.0)),
    **each("image.adjust_brightness", S(IMAGES, 0.1)),
    **each("image.adjust_hue image.adjust_saturation", S(IMAGES, 0.1)),
    **each("image.grayscale_to_rgb", S(f(8, 6, 6, 1))),
    **each("strings.regex_replace", S(text(8, 4), "1", "2")),
    **each("strings.regex_full_match", S(text(8, 4), "1")),
    **each("strings.to_hash_bucket_fast", S(text(8, 4), 10)),
    **each("strings.to_hash_bucket_strong", S(text(8, 4), 10, [1, 2])),
    **each("strings.substr", S(text(8, 4), 0, 1)),
    **each("fftshift ifftshift", *(S(f(8, 4), axes=axes) for axes in (None, 0, 1, -1, [0, 1]))),
    **each("sequence_mask", S(i(8), 5), S(i(8)), S(i(8, 3), 5)),
    **each("clip_by_norm", *(S(f(8, 4), 0.5, axes=axes) for axes in (None, 0, 1, [1]))),
    **each(
        "constant",
        S(f(8, 4), dtype("float32")),
        S(2.0, shape=[ROW_COUNT, 4]),
        S(2.0, dtype("float32"), [4, ROW_COUNT]),
        S(2.0, shape=[3, 4]),
    ),
    **each("norm", *(S(f(8, 4), axis=axis) for axis in (None, 0, 1, [0, 1])), S(f(8, 4), 1, 1, True)),
    **each("global_norm", S([f(8, 4), f(4)])),
    **each("Tensor.set_shape", S(f(8, 4), (None, 4))),
    **each("zero_fraction l2_loss", S(f(8, 4)), S(f(4, 8))),
    **each("argsort sort crelu", *along(None)),  # type: ignore[arg-type]
    **each("split", S(f(8, 4), 2, axis=1), S(f(8, 4), [1, 3], axis=-1), S(f(8, 4), 2), S(f(4, 8), 2)),
    **each("mfccs_from_log_mel_spectrograms", S(f(8, 6, 5)), S(f(6, 8, 5))),
    **each("fft ifft irfft", S(c(8, 4)), S(c(6, 8, 4)), S(c(8))),
    **each(
        "softmax_cross_entropy_with_logits",
        S(batch(f(8, 4)), batch(f(8, 4))),
        S(batch(f(8, 3, 4)), batch(f(8, 3, 4))),
        S(f(8), f(8)),
    ),
    **each(
        "triangular_solve solve cholesky_solve",
        S(square(8, 4, 4), f(8, 4, 3)),
        S(square(4, 4), f(4, 8)),
        S(square(8, 8), f(8, 3)),
    ),
    **each("set_diag", S(f(8, 4, 4), f(8, 4))),
}
KERAS_OPS: dict[str, list[Sample]] = {
    **each("top_k", S(f(8, 4), 2), S(f(8), 2)),
    **each("clip", S(f(8, 4), 0.2, 0.8)),
    **each("threshold", S(f(8, 4), 0.5, 0.1)),
    **each("saturate_cast", S(f(8, 4), "float16")),
    **each("digitize", S(f(8, 4), np.asarray([0.2, 0.5]))),
    **each("roll", S(f(8, 4), 1, 1), S(f(8, 4), 1, 0), S(f(8, 4), 1)),
    **each("tensordot", *TENSORFLOW["tensordot"]),
    **each("solve", S(square(8, 4, 4), f(8, 4, 3)), S(square(4, 4), f(4, 8))),
    **each("extract_sequences", S(f(8, 32), 8, 4)),
    **each("full_like", S(f(8, 4), 2.0)),
    **each("full", S([ROW_COUNT, 4], 2.0)),
    **each("segment_sum", S(f(8, 4), i(8), 4)),
    **each("one_hot", S(i(8), 4), S(i(8), 4, axis=0), S(i(8, 3), 4, axis=1)),
    **each("categorical_crossentropy", S(batch(f(8, 4)), batch(f(8, 4))), S(f(8), f(8))),
    **each("add", *binary(None)[:-1]),  # type: ignore[arg-type]  # (1, 8) + (8, 1) is wrong in Keras itself
    **each("conv", S(IMAGES, f(3, 3, 3, 5))),
    **each("depthwise_conv", S(IMAGES, f(3, 3, 3, 2))),
    **each("average_pool max_pool", S(IMAGES, 2)),
    **each("dot_product_attention", S(f(8, 6, 2, 4), f(8, 5, 2, 4), f(8, 5, 2, 4))),
    **each("ctc_loss", S(i(8, 2, low=1), batch(f(8, 6, 5)), i(8, low=2, high=3), i(8, low=6, high=7))),
    **each("split", S(f(8, 4), 2, axis=1), S(f(8, 4), [1, 3], axis=-1), S(f(8, 4), 2)),
    **each("logical_not", S(b(8, 4))),
    **each("squeeze", S(f(8, 1, 4), axis=1), S(f(8, 1)), S(f(1, 8), axis=0)),
}
NUMPY: dict[str, list[Sample]] = {
    **each("clip", S(f(8, 4), 0.2, 0.8)),
    **each("digitize", S(f(8, 4), np.asarray([0.2, 0.5]))),
    **each("ndarray.astype", S(f(8, 4), "float64"), S(f(8, 4), "int32")),
    **each("roll", S(f(8, 4), 1, 1), S(f(8, 4), 1, 0), S(f(8, 4), 1)),
    **each("tensordot", *TENSORFLOW["tensordot"]),
    **each("full_like", S(f(8, 4), 2.0)),
    **each("full", S([ROW_COUNT, 4], 2.0)),
    **each("linalg.norm", S(f(8, 4), axis=1), S(f(8, 4), axis=0), S(f(8, 4))),
    **each("ndarray.T", S(f(8, 4)), S(f(4, 8, 3))),
    **each(
        "ndarray.reshape",
        S(f(8, 4), -1, 2),
        S(f(8, 4), -1),
        S(f(8, 4), (-1, 2)),
        S(f(8, 4), 4, 8),
        S(f(8, 4), ROW_COUNT, 4),
    ),
    **each("random.random random.random_sample random.standard_normal random.standard_cauchy", S([ROW_COUNT, 4])),
    **each("random.standard_exponential", S([ROW_COUNT, 4])),
    **each("random.rand random.randn", S(ROW_COUNT, 4)),
    **each("random.exponential random.rayleigh random.poisson", S(1.0, [ROW_COUNT, 4])),
    **each("random.standard_t random.chisquare random.weibull random.pareto", S(2.0, [ROW_COUNT, 4])),
    **each("random.power random.standard_gamma", S(2.0, [ROW_COUNT, 4])),
    **each("random.geometric", S(0.5, [ROW_COUNT, 4])),
    **each("random.vonmises random.wald", S(1.0, 2.0, [ROW_COUNT, 4])),
    **each("random.negative_binomial", S(4, 0.5, [ROW_COUNT, 4])),
    **each("random.uniform random.normal random.laplace random.gumbel", S(0.0, 1.0, [ROW_COUNT, 4])),
    **each("random.logistic random.lognormal", S(0.0, 1.0, [ROW_COUNT, 4])),
    **each("random.beta random.gamma", S(1.0, 2.0, [ROW_COUNT, 4])),
    **each("random.randint", S(0, 5, [ROW_COUNT, 4])),
    **each("random.binomial", S(4, 0.5, [ROW_COUNT, 4])),
    **each("random.choice", S(5, [ROW_COUNT, 4])),
    **each("split", S(f(8, 4), 2, axis=1), S(f(8, 4), [1, 3], axis=-1), S(f(8, 4), 2)),
    **each("squeeze ndarray.squeeze", S(f(8, 1, 4), axis=1), S(f(8, 1)), S(f(1, 8), axis=0)),
    **each("pad", S(f(8, 4), [(0, 0), (1, 2)]), S(f(8, 4), [(1, 0), (0, 0)])),
    **each("take_along_axis", S(f(8, 6), i(8, 3), axis=1), S(f(8, 6), i(8, 6), axis=0)),
}
LAYERS: dict[str, list[Sample]] = {}
for _names, _sample in (
    ("Dense", S(BATCH, made={"units": 3})),
    ("EinsumDense", S(BATCH, made={"equation": "ab,bc->ac", "output_shape": 3})),
    ("Embedding", S(i(8, 3), made={"input_dim": 10, "output_dim": 4})),
    ("Activation", S(BATCH, made={"activation": "relu"})),
    (
        "ELU LeakyReLU PReLU ReLU Flatten Softmax Masking LayerNormalization UnitNormalization Identity "
        "BatchNormalization RMSNormalization",
        S(batch(f(8, 6, 4)), made={}),
    ),
    ("Permute", S(batch(f(8, 6, 4)), made={"dims": (2, 1)})),
    ("RepeatVector", S(BATCH, made={"n": 3})),
    ("Reshape", S(BATCH, made={"target_shape": (2, 2)})),
    (
        "Conv1D Conv1DTranspose SeparableConv1D Convolution1D",
        S(batch(f(8, 6, 3)), made={"filters": 4, "kernel_size": 3}),
    ),
    ("Conv2D Conv2DTranspose SeparableConv2D Convolution2D", S(batch(IMAGES), made={"filters": 4, "kernel_size": 3})),
    ("Conv3D Conv3DTranspose Convolution3D", S(batch(f(8, 4, 4, 4, 3)), made={"filters": 4, "kernel_size": 2})),
    ("DepthwiseConv1D", S(batch(f(8, 6, 3)), made={"kernel_size": 3})),
    ("DepthwiseConv2D", S(batch(IMAGES), made={"kernel_size": 3})),
    ("AveragePooling1D AvgPool1D", S(batch(f(8, 6, 3)), made={"pool_size": 2})),
    ("AveragePooling2D AvgPool2D", S(batch(IMAGES), made={"pool_size": 2})),
    ("AveragePooling3D AvgPool3D", S(batch(f(8, 4, 4, 4, 3)), made={"pool_size": 2})),
    (
        "Cropping1D ZeroPadding1D UpSampling1D MaxPooling1D MaxPool1D GlobalMaxPooling1D GlobalMaxPool1D "
        "GlobalAveragePooling1D GlobalAvgPool1D",
        S(batch(f(8, 6, 3)), made={}),
    ),
    (
        "Cropping2D ZeroPadding2D UpSampling2D MaxPooling2D MaxPool2D GlobalMaxPooling2D GlobalMaxPool2D "
        "GlobalAveragePooling2D GlobalAvgPool2D",
        S(batch(IMAGES), made={}),
    ),
    (
        "Cropping3D ZeroPadding3D UpSampling3D MaxPooling3D MaxPool3D GlobalMaxPooling3D GlobalMaxPool3D "
        "GlobalAveragePooling3D GlobalAvgPool3D",
        S(batch(f(8, 4, 4, 4, 3)), made={}),
    ),
    ("GroupNormalization", S(BATCH, made={"groups": 2})),
    ("Rescaling", S(BATCH, made={"scale": 2.0})),
    ("Resizing CenterCrop", S(batch(IMAGES), made={"height": 4, "width": 4})),
    ("Normalization", S(BATCH, made={"mean": 0.5, "variance": 2.0})),
    ("LSTMCell", S(BATCH, [batch(f(8, 4)), batch(f(8, 4))], made={"units": 4})),
    ("GRUCell SimpleRNNCell", S(BATCH, [batch(f(8, 4))], made={"units": 4})),
    ("LSTM GRU SimpleRNN", S(batch(f(8, 6, 3)), made={"units": 4})),
    ("Add Average Concatenate Maximum Minimum Multiply Subtract", S([BATCH, batch(f(8, 4))], made={})),
    ("Dot", S([BATCH, batch(f(8, 4))], made={"axes": 1})),
    ("Attention AdditiveAttention", S([batch(f(8, 6, 4)), batch(f(8, 5, 4))], made={})),
    ("MultiHeadAttention", S(batch(f(8, 6, 4)), batch(f(8, 5, 4)), made={"num_heads": 2, "key_dim": 3})),
    (
        "MultiHeadAttention",
        S(batch(f(8, 5, 4)), batch(f(8, 5, 4)), use_causal_mask=True, made={"num_heads": 2, "key_dim": 3}),
    ),
    ("Dropout SpatialDropout1D GaussianDropout GaussianNoise AlphaDropout", S(batch(f(8, 6, 4)), made={"rate": 0.5})),
    ("Hashing", S(i(8, 3), made={"num_bins": 3})),
    ("StringLookup", S(text(8, 3), made={"vocabulary": ["1", "2"]})),
    ("IntegerLookup", S(i(8, 3), made={"vocabulary": [1, 2]})),
    ("TextVectorization", S(text(8), made={"vocabulary": ["1", "2"], "output_sequence_length": 4})),
    ("Discretization", S(BATCH, made={"bin_boundaries": [0.2, 0.5]})),
    ("RandomFlip", S(batch(IMAGES), made={})),
    ("RandomRotation RandomContrast RandomBrightness", S(batch(IMAGES), made={"factor": 0.1})),
    ("RandomZoom RandomTranslation", S(batch(IMAGES), made={"height_factor": 0.1, "width_factor": 0.1})),
    ("GaussianNoise", S(BATCH, made={"stddev": 0.5})),
    ("SpatialDropout2D", S(batch(IMAGES), made={"rate": 0.5})),
    ("SpatialDropout3D", S(batch(f(8, 4, 4, 4, 3)), made={"rate": 0.5})),
):
    LAYERS.update(each(_names, _sample))
KERAS_IMAGES: dict[str, list[Sample]] = {
    **each("rgb_to_grayscale rgb_to_hsv hsv_to_rgb gaussian_blur", S(IMAGES)),
    **each("extract_patches", S(IMAGES, 2), S(IMAGES, (2, 3), padding="same")),
    **each("resize", S(IMAGES, (4, 4))),
    **each("crop_images", S(IMAGES, 1, 1, 1, 1)),
    **each("pad_images", S(IMAGES, 1, 1, 2, 2)),
}
KERAS_RANDOM: dict[str, list[Sample]] = {
    **each("normal truncated_normal uniform", S(SHAPE)),
    **each("randint", S(SHAPE, 0, 5)),
    **each("categorical", S(f(8, 5), 3)),
    **each("dropout", S(f(8, 4), 0.5)),
}
PYTHON: dict[str, list[Sample]] = {
    "builtins.sum": [S([f(8, 4), f(8, 4)]), S(f(8, 4))],
    "builtins.float": [S(f())],
    "builtins.int": [S(f())],
    "builtins.bool": [S(f())],
}
NAMED = {
    **{f"tensorflow.{name}": found for name, found in TENSORFLOW.items()},
    **{f"keras.ops.{name}": found for name, found in KERAS_OPS.items()},
    **{
        f"keras.backend.{name}": found
        for name, found in KERAS_OPS.items()
        if name in ("clip", "categorical_crossentropy")
    },
    "keras.backend.ctc_batch_cost": [
        S(i(8, 2, low=1), batch(f(8, 6, 5)), i(8, 1, low=6, high=7), i(8, 1, low=2, high=3))
    ],
    **{f"keras.ops.image.{name}": found for name, found in KERAS_IMAGES.items()},
    **{f"keras.random.{name}": found for name, found in KERAS_RANDOM.items()},
    "keras.applications.imagenet_utils.preprocess_input": [S(IMAGES), S(IMAGES, mode="tf")],
    **{f"numpy.{name}": found for name, found in NUMPY.items()},
    **{f"keras.layers.{name}": found for name, found in LAYERS.items()},
    "keras.metrics.Sum": [S(f(8)), S(f(8, 4))],
    "keras.metrics.Mean": [S(f(8)), S(f(8, 4)), S(f())],
    **{f"keras.metrics.{name}Positives": [S(b(8), f(8)), S(b(8, 1), f(8, 1))] for name in ("True", "False")},
    **{f"keras.metrics.{name}Negatives": [S(b(8), f(8)), S(b(8, 1), f(8, 1))] for name in ("True", "False")},
    "keras.metrics.binary_accuracy": loss(None)[:3],  # type: ignore[arg-type]
    **PYTHON,
}


def samples_for(op: Op) -> list[Sample]:
    if "TensorShape" in op.path:
        return [S(SHAPE)]
    if op.path.startswith("math."):
        return [S(f())]
    if not op.parameters:
        return []
    return NAMED.get(op.path.removeprefix("tf_")) or BY_KIND[type(op.kind).__name__](op)
