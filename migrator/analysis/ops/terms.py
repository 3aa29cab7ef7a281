"""Sums, products and quotients of placements, and what all kinds ask of an argument.

Each value is taken as base * rows ** power, where the base is replicated, sharded or a partial sum: a partial mean is
a partial sum over the rows. So a quotient of a sum by a number of rows is a mean, and a mean times it a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Callable

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Bound, NeedsWhole, literal
from migrator.analysis.placement import (
    ALL_GATHER,
    ALL_REDUCE,
    REPLICATED,
    ROWS,
    Either,
    Partial,
    Placement,
    Replicated,
    Scaled,
    Sharded,
    Unknown,
    either,
)
from migrator.records import dataclass, replace

SUM = Partial("sum")
Term = tuple[Placement, int]
MOST_AXES = 5
_CUT_OTHERWISE = "its arguments are cut along different axes or in a different order"
PAIRS = "it pairs each row of the batch with each"
# Why an operation needs all rows of which the result has a value for each pair.
PAIRING = frozenset({PAIRS, _CUT_OTHERWISE})


def term(placement: Placement) -> Term:
    """Base and power."""
    if isinstance(placement, Partial):
        return SUM, -1 if placement.reduction == "mean" else 0
    if isinstance(placement, Scaled):
        return placement.base, placement.power
    if isinstance(placement, (Replicated, Sharded)):
        return placement, 0
    raise NeedsWhole("it computes with the sizes of a batch", ALL_REDUCE)


def placed(base: Placement, power: int) -> Placement:
    """The placement of base * rows ** power."""
    if base == SUM and power == -1:
        return Partial("mean")
    return base if power == 0 else Scaled(base, power)


def plain(placement: Placement) -> Placement:
    """A placement that goes through any function of each value: replicated or sharded, by no power of the rows."""
    base, power = term(placement)
    if base == SUM or (base == REPLICATED and power):
        raise NeedsWhole("it is not linear in a value that is not reduced yet", ALL_REDUCE)
    if power:
        raise NeedsWhole("per-sample values were divided by a worker's own number of rows")
    return base


def added(terms: Sequence[Term]) -> Term:
    """The sum: of equal powers, or a partial sum and replicated terms of one power more: each worker adds its share."""
    partial = [power for base, power in terms if base == SUM]
    if partial:
        if all(t == (SUM, partial[0]) or t == (REPLICATED, partial[0] + 1) for t in terms):
            return SUM, partial[0]
        raise NeedsWhole("sums and means, or sums and whole terms, are added", ALL_REDUCE)
    if len({power for _, power in terms}) > 1:
        raise NeedsWhole("terms that are divided by the number of rows are added to others", ALL_REDUCE)
    return one_base([base for base, _ in terms]), terms[0][1]


def multiplied(terms: Sequence[Term]) -> Term:
    """The product: at most one factor may be a sum over the workers."""
    bases = [base for base, _ in terms if base != REPLICATED]
    if SUM in bases and len(bases) > 1:
        raise NeedsWhole("a value that is not reduced yet is multiplied by another", ALL_REDUCE)
    return one_base([base for base, _ in terms]), sum(power for _, power in terms)


def divided(terms: Sequence[Term]) -> Term:
    """The quotient of two."""
    top, (base, power) = terms
    if base == SUM:
        raise NeedsWhole("it is divided by a value that is not reduced yet", ALL_REDUCE)
    return multiplied([top, (base, -power)])


def one_base(bases: Iterable[Placement]) -> Placement:
    """What is not replicated among them, which is one."""
    others = list(dict.fromkeys(base for base in bases if base != REPLICATED))
    if not others:
        return REPLICATED
    if len(others) > 1 and all(isinstance(base, Sharded) for base in others):
        return one_layout([base for base in others if isinstance(base, Sharded)])
    if len(others) > 1:
        raise NeedsWhole("its arguments stand in different places", ALL_GATHER)
    return others[0]


def one_layout(parts: Sequence[Sharded]) -> Sharded:
    """The rows of values that meet row by row: as many of them, in the same order."""
    if len({(part.axis, part.blocks) for part in parts}) > 1:
        raise NeedsWhole(_CUT_OTHERWISE, ALL_GATHER)
    rows = {part.rows for part in parts}
    return replace(parts[0], rows=next(r for r in ("ragged", "one", "even") if r in rows))


def whole(arg: Arg) -> Arg:
    """The argument as one tensor: a list of tensors is what it is stacked to."""
    if arg.items is None:
        if not arg.many:
            return arg
        return replace(arg, many=False, placement=_behind(arg.placement), rank=_more(arg.rank), least=arg.least + 1)
    if not arg.items:
        return Arg(REPLICATED, rank=1)
    items = [whole(item) for item in arg.items]
    base, power = added([term(item.placement) for item in items])
    ranks = {item.rank for item in items}
    placement = _behind(placed(base, power))
    rows = len(items) if placement == REPLICATED else None
    rank = _more(ranks.pop() if len(ranks) == 1 else None)
    return Arg(placement, rank=rank, rows=rows, as_batch=arg.as_batch and rows is not None)


def _behind(placement: Placement) -> Placement:
    if isinstance(placement, Scaled):
        return Scaled(_behind(placement.base), placement.power)
    return replace(placement, axis=placement.axis + 1) if isinstance(placement, Sharded) else placement


def _more(rank: int | None) -> int | None:
    return None if rank is None else rank + 1


def known_rank(arg: Arg) -> int | None:
    """A number has no axes."""
    return 0 if isinstance(arg.constant, (int, float)) or arg.placement == ROWS else arg.rank


def over_ranks(args: Sequence[Arg], place: Callable[..., Arg]) -> Arg:
    """`place(*ranks)` for the ranks of the arguments, or for all that they may have, where one is not known."""
    ways: list[tuple[int, ...]] = [()]
    for arg in args:
        rank, base = known_rank(arg), _base(arg.placement)
        least = max(base.axis + 1 if isinstance(base, Sharded) else 0, arg.least)
        possible = range(least, max(MOST_AXES, least) + 1) if rank is None else (rank,)
        ways = [(*way, r) for way in ways for r in possible]
    ways.sort(key=_likeliness)
    results: list[Arg] = []
    for way in ways:
        try:
            results.append(place(*way))
        except ImpossibleRank:
            continue
        except NeedsWhole as error:
            results.append(Arg(error.unknown))
    return merged(results)


def by_option(arg: Arg, place: Callable[[Arg], Arg]) -> Arg:
    """`place` of each way in which a value may stand."""
    if not isinstance(arg.placement, Either):
        return place(arg)
    results: list[Arg] = []
    for option in arg.placement.options:
        try:
            results.append(Arg(option) if isinstance(option, Unknown) else place(replace(arg, placement=option)))
        except NeedsWhole as error:
            results.append(Arg(error.unknown))
    return merged(results)


def merged(results: list[Arg]) -> Arg:
    """One result out of those of several ways."""
    if not results:
        raise NeedsWhole("its arguments do not have the axes that it works on", ALL_GATHER)
    if len(results) == 1 and isinstance(results[0].placement, Unknown):
        raise NeedsWhole(results[0].placement.why, results[0].placement.repair)
    ranks = {result.rank for result in results}
    least = min(r.least if r.rank is None else r.rank for r in results)
    rank = ranks.pop() if len(ranks) == 1 else None
    rows = {result.rows for result in results}
    return Arg(
        either([r.placement for r in results]),
        rank=rank,
        least=0 if rank is not None else least,
        rows=rows.pop() if len(rows) == 1 else None,
        dtype=results[0].dtype,
    )


def _likeliness(ranks: tuple[int, ...]) -> tuple[int, bool]:
    """Equal ranks first, and single rows of numbers last."""
    return max(ranks, default=0) - min(ranks, default=0), max(ranks, default=0) < 2


class ImpossibleRank(ValueError):
    """Raised by a `place` of `over_ranks`: the op itself fails on so many axes."""


def _base(placement: Placement) -> Placement:
    return placement.base if isinstance(placement, Scaled) else placement


def sharded(placement: Placement) -> Sharded | None:
    """The cut of a value that is sharded, by whatever power of the rows."""
    base = _base(placement)
    return base if isinstance(base, Sharded) else None


def moved(placement: Placement, axis: int, rows: str | None = None) -> Placement:
    """The placement with the sharded axis elsewhere."""
    if isinstance(placement, Scaled):
        return Scaled(moved(placement.base, axis, rows), placement.power)
    assert isinstance(placement, Sharded)
    return replace(placement, axis=axis, rows=rows or placement.rows)


def axis_in(axis: Any, rank: int) -> int:
    """An axis counted from the front; raises ImpossibleRank where the value has no such axis."""
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ImpossibleRank
    return axis % rank


@dataclass(frozen=True)
class SomeAxes:
    """Axes of which all that is known is whether the first is one of them."""

    first: bool


AXES = ("axis", "axes", "dim")


def axes_given(bound: Bound, default: Any) -> Any:
    """The axes that an op is told, as a literal or SomeAxes."""
    given = bound.get(*AXES)
    if given is not None and literal(given) is NOT_CONSTANT:
        if given.from_zero:
            return SomeAxes(True)
        if all(leaf.positive for leaf in given.leaves()):
            return SomeAxes(False)
    return bound.constant(*AXES, default=default)


def axes_in(axes: Any, rank: int, cut: Sharded | None = None) -> list[int]:
    """Several axes, or all of them for None; of SomeAxes the first, which `cut` has to lie along."""
    if isinstance(axes, SomeAxes):
        if cut is not None and cut.axis:
            raise NeedsWhole("which axes it works along is not known", ALL_GATHER)
        return [0] if axes.first else []
    if axes is None:
        return list(range(rank))
    return [axis_in(axis, rank) for axis in (axes if isinstance(axes, (list, tuple)) else [axes])]


def unknown_constant(value: Any) -> bool:
    """Whether a literal, or a part of it, is not known."""
    if isinstance(value, (list, tuple)):
        return any(unknown_constant(v) for v in value)
    if isinstance(value, slice):
        return any(unknown_constant(v) for v in (value.start, value.stop, value.step))
    return value is NOT_CONSTANT
