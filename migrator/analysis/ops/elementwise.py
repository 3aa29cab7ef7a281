"""Ops that compute each value from the values at its place, with NumPy's broadcasting."""

from __future__ import annotations

from typing import Callable

from migrator.analysis.ops.call import Arg, Bound, NeedsWhole
from migrator.analysis.ops.reducing import Reduces, reduced
from migrator.analysis.ops.terms import (
    ImpossibleRank,
    Term,
    added,
    divided,
    known_rank,
    moved,
    multiplied,
    one_layout,
    over_ranks,
    placed,
    plain,
    sharded,
    term,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, ALL_REDUCE, REPLICATED
from migrator.records import dataclass, replace


def _any(terms: list[Term]) -> Term:
    return multiplied([(plain(placed(*t)), 0) for t in terms])


def _sign(terms: list[Term]) -> Term:
    """The number of rows does not change it."""
    return plain(terms[0][0]), 0


def _linear(terms: list[Term]) -> Term:
    return terms[0]


def _selected(terms: list[Term]) -> Term:
    """By a condition: each worker's is the same, or it selects among per-sample and whole values only."""
    if terms[0] == (REPLICATED, 0):
        return added(terms[1:])
    base, power = added(terms[1:])
    return multiplied([(plain(placed(*terms[0])), 0), (plain(base), power)])


LAWS: dict[str, Callable[[list[Term]], Term]] = {
    "any": _any,
    "sign": _sign,
    "linear": _linear,
    "sum": added,
    "product": multiplied,
    "quotient": divided,
    "select": _selected,
}


# What these laws make of whole numbers is whole.
_INTEGRAL = frozenset({"sign", "linear", "sum", "product"})


@dataclass(frozen=True)
class Elementwise:
    """The first `arity` parameters are the operands, the others the same for all values.

    `strict`: it gives an answer, and no error, for shapes that do not fit, such as a part beside a whole batch.
    `alike`: it broadcasts none of these; operands of different ranks are an error. What follows them weighs them.
    """

    arity: int = 1
    law: str = "any"
    dtype: str | None = None
    strict: bool = False
    alike: bool = False

    def __call__(self, bound: Bound) -> Arg:
        operands = self.operands(bound)
        made = elementwise(operands, self.law, strict=self.strict, alike=self.alike)
        weights = bound.get(bound.parameters[self.arity]) if self.alike and len(bound.parameters) > self.arity else None
        if weights is not None:
            made = elementwise([made, whole(weights)], self.law)
        integral = self.dtype == "bool" or (self.law in _INTEGRAL and all(map(_is_integral, operands)))
        return replace(made, dtype=self.dtype, integral=integral)

    def operands(self, bound: Bound) -> list[Arg]:
        return [whole(bound.data(position)) for position in range(self.arity)]


def elementwise(operands: list[Arg], law: str, *, strict: bool = False, alike: bool = False) -> Arg:
    """The result of operands that are broadcast against each other."""
    cuts = [sharded(arg.placement) for arg in operands]
    if not any(cuts):
        ranks = [known_rank(arg) for arg in operands]
        rank = None if None in ranks else max((r for r in ranks if r is not None), default=0)
        rows = _common_rows([a.rows for a, r in zip(operands, ranks) if r == rank])
        return Arg(placed(*LAWS[law]([term(arg.placement) for arg in operands])), rank=rank, rows=rows)
    if len(operands) == 1:
        return Arg(placed(*LAWS[law]([term(operands[0].placement)])), rank=operands[0].rank)

    is_seen = all(known_rank(arg) is not None for arg, cut in zip(operands, cuts) if cut)

    def beside(arg: Arg) -> bool:
        """Whether a value that all workers have may have as many rows as the batch: else it could not be broadcast."""
        is_certain = is_seen
        return arg.rows != 1 and (is_certain or arg.as_batch)

    def place(*ranks: int) -> Arg:
        most = max(ranks)
        if alike and most != min(ranks):
            raise ImpossibleRank
        terms = [
            term(moved(arg.placement, cut.axis + most - rank) if cut else arg.placement)
            for arg, cut, rank in zip(operands, cuts, ranks)
        ]
        layout = one_layout([replace(cut, axis=cut.axis + most - rank) for cut, rank in zip(cuts, ranks) if cut])
        if strict and any(rank > most - layout.axis - 1 for cut, rank in zip(cuts, ranks) if not cut):
            raise NeedsWhole("it compares rows of the batch with a whole value", ALL_GATHER)
        if any(not cut and most - rank == layout.axis and beside(arg) for arg, cut, rank in zip(operands, cuts, ranks)):
            raise NeedsWhole("a value for each row of the batch stands beside a worker's rows", ALL_GATHER)
        _, power = LAWS[law](terms)
        return Arg(placed(layout, power), rank=most)

    return over_ranks(operands, place)


def _common_rows(several: list[int | None]) -> int | None:
    """The size of the first axis of what is broadcast, of those that reach so far: one of more than one decides."""
    return next((rows for rows in several if rows not in (None, 1)), 1 if set(several) == {1} else None)


def _is_integral(arg: Arg) -> bool:
    return arg.integral or isinstance(arg.constant, int)


@dataclass(frozen=True)
class Cast:
    """Linear, unless it rounds: numbers that are not whole, to a dtype that is no float's, or by itself, as `int`."""

    rounds: bool = False

    def __call__(self, bound: Bound) -> Arg:
        value, dtype = whole(bound.data()), bound.get("dtype")
        name = dtype.constant if dtype is not None and isinstance(dtype.constant, str) else None
        rounds = self.rounds or (dtype is not None and (name is None or "int" in name or "bool" in name))
        if rounds and not (value.integral and not (name and "bool" in name)):
            plain(value.placement)
        return replace(
            value,
            constant=Arg().constant,
            dtype=name.rpartition(".")[2] if name else None,
            integral=value.integral or (rounds and name is not None) or self.rounds,
        )


@dataclass(frozen=True)
class Power:
    """A known whole exponent keeps a power of the rows one."""

    def __call__(self, bound: Bound) -> Arg:
        value, exponent = whole(bound.data(0)), bound.data(1)
        base, power = term(value.placement)
        if power and exponent.constant in (-2, -1, 1, 2) and (base == REPLICATED or sharded(base)):
            return Arg(placed(base, power * int(exponent.constant)), rank=value.rank)
        if exponent.constant == 1:
            return value
        return elementwise([value, whole(exponent)], "any")


@dataclass(frozen=True)
class FloorDivision:
    """Of numbers of rows by each other it is the same on all workers only where the rows go out evenly: not assumed."""

    def __call__(self, bound: Bound) -> Arg:
        for position in (0, 1):
            if not sharded(bound.data(position).placement) and bound.data(position).placement != REPLICATED:
                raise NeedsWhole("it rounds a value that is not reduced yet", ALL_REDUCE)
        return elementwise([whole(bound.data(0)), whole(bound.data(1))], "any")


@dataclass(frozen=True)
class ListSum:
    """The sum of a list of values; of one value that is no list, over axis 0."""

    def __call__(self, bound: Bound) -> Arg:
        values = bound.data()
        if values.items is not None:
            start = bound.get("start")
            return elementwise([whole(item) for item in values.items] + ([start] if start else []), "sum")
        if values.many:
            return replace(values, many=False)
        return reduced(values, Reduces("sum", linear=True), 0, keepdims=False)
