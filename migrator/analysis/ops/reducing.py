"""Ops that take some axes away, or work along one."""

from __future__ import annotations

from typing import Any

from migrator.analysis.ops.call import Arg, Bound, NeedsWhole
from migrator.analysis.ops.terms import (
    SUM,
    SomeAxes,
    axes_given,
    axes_in,
    moved,
    over_ranks,
    placed,
    plain,
    sharded,
    term,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, REPLICATED, Placement
from migrator.records import dataclass, replace


@dataclass(frozen=True)
class Reduces:
    """`over` says what a reduction of the sharded axis is a part of: "mean", "sum", or None: it needs all rows.

    `linear`: means and sums of values that are not reduced yet stay what they are. `axis`: the default.
    """

    over: str | None = None
    linear: bool = False
    axis: Any = None

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        axes = axes_given(bound, self.axis)
        result = reduced(value, self, axes, bool(bound.constant("keepdims", default=False)))
        return replace(result, integral=value.integral and self.over == "sum")


def reduced(value: Arg, how: Reduces, axes: Any, keepdims: bool) -> Arg:
    """The result of a reduction over literal axes, or over some behind the first."""
    if not sharded(value.placement) and value.rank is None and axes is not None:
        return Arg(_kept(value.placement, how))

    def place(rank: int) -> Arg:
        cut = sharded(value.placement)
        gone = axes_in(axes, rank, cut)
        left = rank if keepdims else None if isinstance(axes, SomeAxes) else rank - len(set(gone))
        rows = 1 if keepdims and 0 in gone else None
        if cut is None:
            return Arg(_kept(value.placement, how), rank=left, rows=rows)
        if cut.axis not in gone:
            place = _kept(value.placement, how)
            return Arg(moved(place, cut.axis - (0 if keepdims else sum(g < cut.axis for g in set(gone)))), rank=left)
        _, power = term(value.placement)
        if how.over is None or (power and not how.linear):
            raise NeedsWhole("it reduces all rows of the batch at once", ALL_GATHER)
        if how.over == "sum":
            return Arg(placed(SUM, power), rank=left, rows=rows)
        if cut.rows == "ragged":
            raise NeedsWhole("it is a mean over the rows that a mask left", ALL_GATHER)
        return Arg(placed(SUM, power - 1), rank=left, rows=rows)

    return over_ranks([value], place)


def _kept(placement: Placement, how: Reduces) -> Placement:
    return placement if how.linear else plain(placement)


@dataclass(frozen=True)
class Moments:
    """Mean and variance."""

    def __call__(self, bound: Bound) -> Arg:
        value, axes = whole(bound.data()), axes_given(bound, None)
        keepdims = bool(bound.constant("keepdims", default=False))
        items = []
        for how in (Reduces("mean", linear=True), Reduces()):
            try:
                items.append(reduced(value, how, axes, keepdims))
            except NeedsWhole as error:
                items.append(Arg(error.unknown))
        return Arg(items=tuple(items))


@dataclass(frozen=True)
class Along:
    """Works along axes and keeps the shape. `none`: what axis=None means: "last", or "all" axes at once."""

    axis: Any = -1
    none: str = "all"
    linear: bool = False
    outputs: int = 1

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        axes = axes_given(bound, self.axis)
        if axes is None and self.none == "last":
            axes = -1
        flat = axes is None and self.none == "flat"

        def place(rank: int) -> Arg:
            cut = sharded(value.placement)
            if cut and cut.axis in axes_in(axes, rank, cut):
                raise NeedsWhole("it works along the rows of the batch", ALL_GATHER)
            return Arg(value.placement if self.linear else plain(value.placement), rank=1 if flat else rank)

        result = over_ranks([value], place)
        return result if self.outputs == 1 else Arg(items=(result,) * self.outputs)


@dataclass(frozen=True)
class WholeValue:
    """A single number of all values, such as a norm, which no part of the batch gives."""

    def __call__(self, bound: Bound) -> Arg:
        if any(leaf.placement != REPLICATED for arg in bound.values.values() for leaf in arg.leaves()):
            raise NeedsWhole("it needs all rows of the batch at once", ALL_GATHER)
        return Arg(REPLICATED, rank=0)


@dataclass(frozen=True)
class Average:
    """`average(values, axis, weights)`: without weights a mean; with per-sample weights a ratio of sums."""

    def __call__(self, bound: Bound) -> Arg:
        weights = bound.get("weights")
        if weights is not None and weights.constant is not None:
            value = whole(bound.data())
            if sharded(value.placement) or sharded(weights.placement):
                raise NeedsWhole("it divides by the sum of the weights of all rows", ALL_GATHER)
            plain(weights.placement)
        return Reduces("mean", linear=True)(bound)
