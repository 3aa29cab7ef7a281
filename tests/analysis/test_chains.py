"""Several ops in a row, as losses and steps are written: the placement of the end holds and is as expected."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tensorflow as tf
from proving import PARTS, holds, parts, plain, resolved

from migrator.analysis.ops import Arg, OpCall, lookup
from migrator.analysis.placement import (
    ALL_GATHER,
    ALL_REDUCE,
    REPLICATED,
    Either,
    Partial,
    Placement,
    Sharded,
    Unknown,
    settled,
)

MEAN, SUM, ROWS_OF_BATCH = Partial("mean"), Partial("sum"), Sharded(0)


class Traced:
    """A value in the run on one device and on each worker, with what the tables know of it."""

    def __init__(self, arg: Arg, runs: list[Any]) -> None:
        self.arg = arg
        self.runs = runs


def given(value: np.ndarray, place: Placement, ranked: bool) -> Traced:
    runs = [tf.constant(v) for v in (value, *parts(value, place))]
    return Traced(Arg(place, rank=value.ndim if ranked else None), runs)


def op(path: str, *args: Any, **kwargs: Any) -> Traced:
    row = lookup(path)
    assert row is not None, path
    known = row.infer(OpCall([_known(a) for a in args], {k: _known(v) for k, v in kwargs.items()}))
    call = _call(path)
    runs = [
        call(*(_run(a, w) for a in args), **{k: _run(v, w) for k, v in kwargs.items()}) for w in range(len(PARTS) + 1)
    ]
    return Traced(known, runs)


def _call(path: str) -> Callable[..., Any]:
    return tf.shape if path == "tensorflow.Tensor.shape" else resolved(path)


def _known(value: Any) -> Arg:
    if isinstance(value, Traced):
        return value.arg
    if isinstance(value, (list, tuple)):
        return Arg(items=tuple(_known(v) for v in value))
    return Arg(constant="float32" if value is tf.float32 else value)


def _run(value: Any, worker: int) -> Any:
    if isinstance(value, Traced):
        return value.runs[worker]
    return [_run(v, worker) for v in value] if isinstance(value, (list, tuple)) else value


def item(value: Traced, at: int) -> Traced:
    return op("operator.getitem", value, at)


def add(a: Any, b: Any) -> Traced:
    return op("operator.add", a, b)


def mul(a: Any, b: Any) -> Traced:
    return op("operator.mul", a, b)


def sub(a: Any, b: Any) -> Traced:
    return op("operator.sub", a, b)


def div(a: Any, b: Any) -> Traced:
    return op("operator.truediv", a, b)


def mean(x: Any, **axis: Any) -> Traced:
    return op("tensorflow.reduce_mean", x, **axis)


def total(x: Any, **axis: Any) -> Traced:
    return op("tensorflow.reduce_sum", x, **axis)


def square(x: Any) -> Traced:
    return op("tensorflow.square", x)


def count(x: Any) -> Traced:
    return op("tensorflow.cast", item(op("tensorflow.shape", x), 0), tf.float32)


def joined(x: Traced, y: Traced) -> Traced:
    return op("tensorflow.concat", [x, y], 0)


# x, y: (8, 4) cut along the batch; w: (4, 4) the same everywhere.
CHAINS: dict[str, tuple[Placement, Callable[[Traced, Traced, Traced], Traced]]] = {
    "mean of squares": (MEAN, lambda x, y, w: mean(square(sub(x, y)))),
    "mean of means": (MEAN, lambda x, y, w: mean(mean(square(sub(x, y)), axis=-1))),
    "sum over count": (MEAN, lambda x, y, w: div(total(square(sub(x, y))), count(x))),
    "sum of rows over count": (MEAN, lambda x, y, w: total(div(square(sub(x, y)), count(x)))),
    "sum over size": (MEAN, lambda x, y, w: div(total(x), op("tensorflow.cast", op("tensorflow.size", x), tf.float32))),
    "product with one over count": (MEAN, lambda x, y, w: mul(div(1.0, count(x)), total(x))),
    "mean times count": (SUM, lambda x, y, w: mul(mean(x), count(x))),
    "mean and penalty": (MEAN, lambda x, y, w: add(mean(square(x)), mul(0.1, total(square(w))))),
    "penalty over count beside a sum over count": (
        MEAN,
        lambda x, y, w: div(add(total(square(x)), mul(count(x), total(square(w)))), count(x)),
    ),
    "linear layer": (ROWS_OF_BATCH, lambda x, y, w: op("tensorflow.nn.relu", op("operator.matmul", x, w))),
    "gradient by hand": (SUM, lambda x, y, w: op("tensorflow.matmul", op("tensorflow.transpose", x), sub(x, y))),
    "gradient by hand over count": (
        MEAN,
        lambda x, y, w: div(op("tensorflow.matmul", x, sub(x, y), transpose_a=True), count(x)),
    ),
    "real and fake": (MEAN, lambda x, y, w: mean(mul(joined(x, y), joined(square(y), square(x))))),
    "real and fake apart": (
        ROWS_OF_BATCH,
        lambda x, y, w: sub(*(item(op("tensorflow.split", joined(x, y), 2, axis=0), i) for i in (0, 1))),
    ),
    "labels of real and fake": (
        MEAN,
        lambda x, y, w: mean(sub(joined(x, y), joined(op("tensorflow.ones_like", x), op("tensorflow.zeros_like", y)))),
    ),
    "flattened": (
        MEAN,
        lambda x, y, w: mean(op("tensorflow.reshape", x, [item(op("tensorflow.shape", x), 0), -1])),
    ),
    "root of a mean": (Unknown("", ALL_REDUCE), lambda x, y, w: op("tensorflow.sqrt", mean(square(x)))),
    "ratio of sums": (Unknown("", ALL_REDUCE), lambda x, y, w: div(total(mul(x, y)), add(total(x), total(y)))),
    "sum and penalty": (Unknown("", ALL_REDUCE), lambda x, y, w: add(total(square(x)), total(square(w)))),
    "mean beside a sum": (Unknown("", ALL_REDUCE), lambda x, y, w: add(total(square(x)), mean(square(y)))),
    "softmax over the batch": (Unknown("", ALL_GATHER), lambda x, y, w: op("tensorflow.nn.softmax", x, axis=0)),
    "pairs of samples": (Unknown("", ALL_GATHER), lambda x, y, w: op("tensorflow.matmul", x, y, transpose_b=True)),
    "off its mean": (Unknown("", ALL_REDUCE), lambda x, y, w: sub(x, mean(x, axis=0))),
    "mean of the rows that a mask keeps": (
        Unknown("", ALL_GATHER),
        lambda x, y, w: mean(op("operator.getitem", x, op("operator.gt", item_column(y), 0.5))),
    ),
    "sum of the rows that a mask keeps": (
        SUM,
        lambda x, y, w: total(op("operator.getitem", x, op("operator.gt", item_column(y), 0.5))),
    ),
    "both of whole": (REPLICATED, lambda x, y, w: mean(square(w))),
}


def item_column(x: Traced) -> Traced:
    return op("operator.getitem", x, (slice(None), 0))


@pytest.mark.parametrize("ranked", [True, False], ids=["ranks", "no ranks"])
@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_ends_where_it_is_said_to(name: str, ranked: bool) -> None:
    random = np.random.default_rng(3)
    x, y = (given(random.uniform(0.1, 0.9, (8, 4)).astype("float32"), Sharded(0), ranked) for _ in range(2))
    w = given(random.uniform(0.1, 0.9, (4, 4)).astype("float32"), REPLICATED, ranked)
    wanted, chain = CHAINS[name]

    end = chain(x, y, w)

    place = end.arg.placement
    if not ranked and isinstance(place, Either):
        place = settled(place) if isinstance(wanted, Unknown) else _likeliest(place)
    if isinstance(wanted, Unknown):
        assert isinstance(place, Unknown)
        assert not ranked or place.repair == wanted.repair
        return
    if not isinstance(place, Unknown):
        assert not holds(place, plain(end.runs[0]), [plain(run) for run in end.runs[1:]])
    assert not ranked or place == wanted


def _likeliest(place: Either) -> Placement:
    """The first of its options that is seen."""
    return next((option for option in place.options if not isinstance(option, Unknown)), place.options[0])
