"""The kinds of ops by name, and how a table is read.

A table holds, for each kind, `kind (parameters): names`, where more names follow on indented lines and a line
`# note` may stand in front. A name may be followed by parameters of its own, `name(a,b)`, and a class by those that its
objects are made with, `Name[a,b]`.
`last 2,1->2 linear` works on the last axes: two of the first operand and one of the second make two, linearly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from migrator.analysis.ops.call import Kind, Op
from migrator.analysis.ops.contracting import BatchDot, Einsum, FlatProduct, MatrixProduct, MatrixVector, TensorProduct
from migrator.analysis.ops.elementwise import Cast, Elementwise, FloorDivision, ListSum, Power
from migrator.analysis.ops.making import Broadcast, Constant, Counts, Draws, Filled, Like, Makes, Same, Sizes, Stacked
from migrator.analysis.ops.moving import (
    ExpandDims,
    Joins,
    Pad,
    Permutes,
    Repeat,
    Reshape,
    Splits,
    Squeeze,
    Tile,
    Window,
)
from migrator.analysis.ops.picking import AlongRows, Gather, GatherNd, GetItem, Mask, OneHot
from migrator.analysis.ops.reducing import Along, Average, Moments, Reduces, WholeValue
from migrator.analysis.ops.sampling import (
    AverageLoss,
    Ctc,
    LastAxes,
    LossFunction,
    LossObject,
    LossV1,
    Masking,
    PerSample,
)

KINDS: dict[str, Kind] = {
    "elementwise": Elementwise(),
    "mask": Elementwise(1, dtype="bool"),
    "elementwise-2": Elementwise(2),
    "elementwise-alike": Elementwise(2, alike=True),
    "mask-2": Elementwise(2, dtype="bool"),
    "elementwise-3": Elementwise(3),
    "sign": Elementwise(1, "sign"),
    "linear": Elementwise(1, "linear"),
    "sum": Elementwise(2, "sum"),
    "product": Elementwise(2, "product"),
    "quotient": Elementwise(2, "quotient"),
    "floor-division": FloorDivision(),
    "power": Power(),
    "select": Elementwise(3, "select"),
    "cast": Cast(),
    "rounds": Cast(rounds=True),
    "sum-of-list": ListSum(),
    "same": Same(),
    "stacked": Stacked(),
    "stacked-tensor": Stacked(fixed=True),
    "filled": Filled(fixed=True),
    "reduces-mean": Reduces("mean", linear=True),
    "reduces-sum": Reduces("sum", linear=True),
    "counts": Reduces("sum"),
    "counts-mean": Reduces("mean"),
    "reduces": Reduces(),
    "reduces-axis-0": Reduces(axis=0),
    "moments": Moments(),
    "needs-whole": WholeValue(),
    "along-last": Along(axis=-1, none="last"),
    "along-all": Along(None),
    "cumulates-0-linear": Along(0, linear=True),
    "cumulates-0": Along(0),
    "moves-along": Along(None, linear=True),
    "top-k": Along(-1, outputs=2),
    "transforms-last": Along(-1, linear=True),
    "matrix-product": MatrixProduct(vectors=False),
    "matrix-vector": MatrixVector(),
    "tensordot": TensorProduct("tensordot"),
    "einsum": Einsum(),
    "transpose": Permutes("transpose"),
    "swap-last": Permutes("last two"),
    "expand": ExpandDims(),
    "squeeze": Squeeze(),
    "reshape": Reshape(),
    "joins": Joins(),
    "stacks": Joins(new_axis=True),
    "splits": Splits(),
    "unstacks": Splits(unstack=True),
    "tile": Tile(),
    "window": Window(),
    "tile-broadcast": Tile(broadcasts=True),
    "repeat": Repeat(),
    "pad": Pad(),
    "gather": Gather(None),
    "table": Gather(),
    "gather-nd": GatherNd(),
    "keeps-marked": Mask(),
    "one-hot": OneHot(),
    "row-masks": OneHot("maxlen"),
    "broadcast": Broadcast(),
    "like": Like(),
    "makes": Makes(),
    "draws": Draws(),
    "draws-second": Draws(shape=1),
    "draws-third": Draws(shape=2),
    "draws-items": Draws(shape=1, items=True),
    "per-sample": PerSample(),
    "per-sample-behind-1": PerSample(behind=1),
    "shape": Sizes("shape"),
    "size": Sizes("size"),
    "rank": Sizes("rank"),
    "table-of-classes": Counts(2, "num_classes"),
    "table-of-segments": Counts(2, "num_segments"),
    "histogram": Counts(1),
    "counts-pairs": Counts(2),
    "average-loss": AverageLoss(),
    "images": PerSample(least=4, drops=0),
    "images-derived": PerSample(least=4),
    "image-pairs": PerSample(2, least=4),
    "loss-v1": LossV1(LossFunction("mean")),
    "loss-v1-classes": LossV1(LossFunction(None)),
    "loss-v1-sparse": LossV1(LossFunction(None, sparse=True)),
    "getitem": GetItem(),
    "constant": Constant(),
    "average": Average(),
    "along": Along(-1),
    "cumulates-flat-linear": Along(axis=None, none="flat", linear=True),
    "cumulates-flat": Along(axis=None, none="flat"),
    "matrix-or-vector-product": MatrixProduct(),
    "dot": TensorProduct("dot"),
    "inner": TensorProduct("inner"),
    "outer": TensorProduct("outer"),
    "swap": Permutes("swap"),
    "move": Permutes("move"),
    "flatten": Reshape(shape=(-1,)),
    "splits-at": Splits(positions=True),
    "take": Gather(None, flat=True),
    "take-along": AlongRows(),
    "masks": Masking(),
    "per-sample-3": PerSample(3),
    "per-sample-4": PerSample(4),
    "ctc": Ctc(),
    "step": PerSample(2, states=1),
    "step-of-two-states": PerSample(2, states=2),
    "reduces-last": Reduces(axis=-1),
    "backend-dot": TensorProduct("backend dot"),
    "batch-dot": BatchDot(),
    "batch-flatten": PerSample(least=2),
    "joins-last": Joins(axis=-1),
    "loss": LossFunction("mean"),
    "loss-sum": LossFunction("sum"),
    "loss-classes": LossFunction(None),
    "loss-sparse": LossFunction(None, sparse=True),
    "loss-object": LossObject(LossFunction("mean")),
    "loss-object-sum": LossObject(LossFunction("sum")),
    "loss-object-classes": LossObject(LossFunction(None)),
    "loss-object-sparse": LossObject(LossFunction(None, sparse=True)),
    "per-sample-2": PerSample(2, least=2),
    "per-sample-axis": PerSample(axis=True),
    "encoding": PerSample(refused=(("output_mode", "int"),)),
    "encoding-of-texts": PerSample(refused=(("output_mode", "int"),), length="output_sequence_length"),
    "recurrent": PerSample(refused=(("stateful", False),)),
    "vdot": FlatProduct(),
    "equality": Elementwise(2, dtype="bool", strict=True),
    "length": Sizes("length"),
}


def kind_named(name: str) -> Kind:
    """A kind of the table, or one of the last axes."""
    if not name.startswith("last "):
        return KINDS[name]
    _, cores, *linear = name.split()
    given, made = ([int(n) for n in side.split(",")] for side in cores.split("->"))
    return LastAxes(tuple(given), tuple(made), linear=bool(linear))


def read(table: str, prefix: str) -> Iterator[Op]:
    """The rows of a table whose names stand under `prefix`."""
    kind, shared, note, noted = "", "", "", ""
    for line in filter(None, table.splitlines()):
        if line.startswith("#"):
            noted = line[2:]
            continue
        names = line
        if not line.startswith(" "):
            kind, shared, names = re.fullmatch(r"(.*?) \((.*?)\): ?(.*)", line).groups()  # type: ignore[union-attr]
            note, noted = noted, ""
        for name, own, made in re.findall(r"([\w.]+)(?:\(([^)]*)\))?(?:\[([^]]*)\])?", names):
            parameters = tuple(p for p in (own or shared).split(",") if p)
            yield Op(
                prefix + name,
                parameters,
                kind_named(kind),
                kind,
                note,
                tuple(made.split(",")) if made else (),
            )
