"""Functions of Keras's that are no ops of the tables: inputs, layers that are made and called at once, activations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import registered
from migrator.analysis.libraries.keras.names import SYMBOLIC
from migrator.analysis.libraries.keras.objects import activation
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Sharded
from migrator.analysis.values import NONE, NOTHING, Data, Made, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_MERGING = ("Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract")


def _input(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    shape = args.get("shape", 0)
    items = run.objects.sequence_items(shape) if shape is not None else None
    if items is None:
        return Value(Data(Sharded(0), symbolic=True))
    sizes = (None, *(item.constant if isinstance(item.constant, int) else None for item in items))
    return Value(Data(Sharded(0), rank=len(sizes), symbolic=True, shape=sizes))


def _loaded(sample: tuple[int, ...], labels: tuple[int, ...]) -> Callable[..., Value]:
    """`(x, y), (x_test, y_test) = keras.datasets.mnist.load_data()`, of so large samples."""

    def load(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        both = v.of(Tuple(tuple(Value(Data(rank=len(s) + 1, shape=(None, *s))) for s in (sample, labels))))
        return v.of(Tuple((both, both)))

    return load


def _merge(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame, *, path: str) -> Value:
    """`keras.layers.concatenate([a, b], axis=1)`, a layer that is made and called at once."""
    made = Made(path, Site(node, frame.context))
    for name, value in args.keywords.items():
        run.heap.store(made, ("argument", name), value)
    return run.libraries.keras.call(made, Arguments(args.positional[:1], {}, args.rest, args.nodes), node, frame)


def _unpacked(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`keras.utils.unpack_x_y_sample_weight(data)`: always three, of which the last ones may be None."""
    data = args.get("data", 0)
    if data is None:
        return v.unseen("what is unpacked is not seen")
    items = run.objects.sequence_items(data)
    if items is None:
        part = v.mapped(data, lambda d: replace(d, constant=NOT_CONSTANT, rank=None))
        items = [part] * 3
    return v.of(Tuple(tuple([*items, NONE, NONE][:3])))


def _activation(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    given = args.get("identifier", 0)
    return activation(run, given) if given is not None else v.unseen("which activation this is cannot be seen")


# Of what Keras loads: the sizes of a sample, and of its label.
_LOADED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "mnist": ((28, 28), ()),
    "fashion_mnist": ((28, 28), ()),
    "cifar10": ((32, 32, 3), (1,)),
    "cifar100": ((32, 32, 3), (1,)),
    "boston_housing": ((13,), ()),
    "california_housing": ((8,), ()),
}


def _metric(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`keras.metrics.get(name)`, `keras.metrics.deserialize(config)`: a metric of whichever class."""
    return v.of(Made("keras.metrics.Metric", Site(node, frame.context)))


def _regularizer(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`keras.regularizers.get(identifier)`: what is one already, or one of Keras's by its name."""
    given = args.get("identifier", 0)
    if given is None:
        return v.unseen("which regularizer this is cannot be seen")
    own = registered.looked_up(run, given) if not given.objects else NOTHING
    if own is not NOTHING:
        return own
    is_name = isinstance(given.constant, str) and not given.objects
    return v.of(Made("keras.regularizers.Regularizer", Site(node, frame.context))) if is_name else given


FUNCTIONS: dict[str, Callable[[Run, Arguments, cst.CSTNode, Frame], Value]] = {
    **registered.FUNCTIONS,
    "keras.activations.get": _activation,
    "keras.metrics.get": _metric,
    "keras.regularizers.get": _regularizer,
    "keras.metrics.deserialize": _metric,
    "keras.utils.unpack_x_y_sample_weight": _unpacked,
    **dict.fromkeys(SYMBOLIC, _input),
    **{f"keras.datasets.{name}.load_data": _loaded(*sizes) for name, sizes in _LOADED.items()},
    **{f"keras.layers.{name.lower()}": partial(_merge, path=f"keras.layers.{name}") for name in _MERGING},
}
