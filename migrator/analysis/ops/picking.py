"""Ops that pick some of the values, or one for each of them. All are linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Bound, NeedsWhole
from migrator.analysis.ops.terms import (
    ImpossibleRank,
    axis_in,
    moved,
    one_layout,
    over_ranks,
    placed,
    sharded,
    term,
    unknown_constant,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, REPLICATED, ROWS, Partial, Shape
from migrator.records import dataclass, replace

OF_UNSEEN_RANK = "whether that is the number of rows depends on a rank that is not seen"
FULL = (slice(None), slice(None, None, 1), slice(0, None), slice(0, None, 1))


@dataclass(frozen=True)
class GetItem:
    """`x[index]` with literal, sliced and None axes; a mask along the batch leaves ragged rows."""

    def __call__(self, bound: Bound) -> Arg:
        value, index = bound.data(0), bound.data(1)
        if value.items is not None:
            return self._of_list(value, index)
        value = replace(value, many=False) if value.many else value
        entries = list(index.items) if index.items is not None else [index]
        if index.items is None and isinstance(index.constant, tuple):
            entries = [Arg(constant=entry) for entry in index.constant]
        if isinstance(value.placement, Shape):
            return self._of_sizes(value.placement, entries)
        literals = [_entry(entry) for entry in entries]
        if sharded(value.placement) is None and all(entry.placement == REPLICATED for entry in entries):
            rank = _rank_of_picked(value.rank, entries, literals)
            least = _least_of_picked(literals) if rank is None else 0
            return Arg(value.placement, rank=rank, least=least, rows=_rows_of_picked(value, literals))
        if len(entries) == 1 and literals[0] is NOT_CONSTANT:
            return self._by_tensor(value, entries[0])
        if any(entry.placement != REPLICATED for entry in entries):
            raise NeedsWhole("it picks by an index that is not the same on all workers", ALL_GATHER)
        return over_ranks([value], lambda rank: _picked(value, literals, rank))

    def _of_list(self, value: Arg, index: Arg) -> Arg:
        assert value.items is not None
        try:
            found = value.items[index.constant]
        except (TypeError, IndexError):
            raise NeedsWhole("which item it picks is not seen") from None
        return Arg(items=found) if isinstance(found, tuple) else found

    def _of_sizes(self, shape: Shape, entries: list[Arg]) -> Arg:
        at = _entry(entries[0]) if len(entries) == 1 else NOT_CONSTANT
        if isinstance(at, int) and at >= 0:
            if at != shape.axis:
                return Arg(REPLICATED, rank=0)
            return Arg(Partial("sum") if shape.rows == "ragged" else ROWS, rank=0, integral=True)
        if isinstance(at, int) and shape.axis == 0 and -at < shape.least:
            return Arg(REPLICATED, rank=0)
        if isinstance(at, slice) and not unknown_constant(at) and at.step in (None, 1):
            start, stop = at.start or 0, at.stop
            if start > shape.axis >= 0:
                return Arg(REPLICATED, rank=1)
            if stop is not None and 0 <= stop <= shape.axis:
                return Arg(REPLICATED, rank=1)
            if start >= 0 and (stop is None or stop > shape.axis):
                return Arg(replace(shape, axis=shape.axis - start), rank=1)
        if shape.axis == 0 and (at == -1 or (isinstance(at, slice) and at.start in (-1, -2) and at.stop is None)):
            raise NeedsWhole(OF_UNSEEN_RANK, "all_reduce")
        raise NeedsWhole("which sizes it picks is not seen", "all_reduce")

    def _by_tensor(self, value: Arg, index: Arg) -> Arg:
        cut, by = sharded(value.placement), sharded(index.placement)
        if cut and by and index.dtype == "bool" and cut.axis == by.axis == 0 and cut.blocks == by.blocks:
            return Arg(moved(value.placement, 0, "ragged"), rank=_rank_of_masked(value, index))
        if by and not cut and index.dtype != "bool" and index.placement == by:
            term_base, power = term(value.placement)
            if term_base == REPLICATED:
                rank = None if value.rank is None or index.rank is None else value.rank - 1 + index.rank
                return Arg(placed(by, power), rank=rank)
        raise NeedsWhole("it picks rows of the batch by their position", ALL_GATHER)


def _least_of_picked(literals: Sequence[Any]) -> int:
    """So many axes `x[entries]` has for its slices and the new axes among them, however many `x` has."""
    return sum(each is None or isinstance(each, slice) for each in literals)


def _rows_of_picked(value: Arg, literals: Sequence[Any]) -> int | None:
    """The size of the first axis of `x[entries]`, which may be a new one; None where it is not known."""
    first = literals[0] if literals else NOT_CONSTANT
    if not isinstance(first, slice) or unknown_constant(first):
        return 1 if first is None else None
    if value.rows is not None:
        return len(range(*first.indices(value.rows)))
    # Of a million, one is left; of fewer there may be none, which is an error on one device, too.
    return 1 if len(range(*first.indices(1_000_000))) == 1 else None


def _rank_of_picked(rank: int | None, entries: Sequence[Arg], literals: Sequence[Any]) -> int | None:
    """How many axes `x[entries]` has. All arrays and numbers among the entries pick one value together."""
    arrays = [entry for entry, literal_ in zip(entries, literals) if literal_ is NOT_CONSTANT]
    numbers = sum(isinstance(entry, int) for entry in literals)
    # A mask of one axis takes one away and gives one, as positions do.
    if rank == len(arrays) == 1 and arrays[0].dtype == "bool" and arrays[0].least == 1:
        return 1 - numbers + sum(entry is None for entry in literals)  # a mask has no more axes than what it marks
    if rank is None or any(array.rank != 1 and (array.rank is None or array.dtype == "bool") for array in arrays):
        return None
    if any(array.rank != 1 and not array.integral for array in arrays):
        return None
    if sum(entry is not None and entry is not Ellipsis for entry in literals) > rank:
        return None  # of a text, say
    picked = max((array.rank or 0 for array in arrays), default=0)
    return rank - len(arrays) - numbers + picked + sum(entry is None for entry in literals)


def _rank_of_masked(value: Arg, mask: Arg) -> int | None:
    """How many axes are left where a mask marks some along its own."""
    return None if value.rank is None or mask.rank is None else value.rank - mask.rank + 1


def _entry(arg: Arg) -> Any:
    return tuple(_entry(item) for item in arg.items) if arg.items is not None else arg.constant


def _picked(value: Arg, entries: list[Any], rank: int) -> Arg:
    """Where the sharded axis comes to lie; entries are ints, slices, None, Ellipsis, or NOT_CONSTANT for an index."""
    cut = sharded(value.placement)
    assert cut is not None
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > max(rank, 1):
        raise ImpossibleRank
    if Ellipsis not in entries:
        entries = [*entries, Ellipsis]
    source = place = 0
    for at, entry in enumerate(entries):
        if entry is None:
            place += 1
            continue
        step = rank - used if entry is Ellipsis else 1
        if source <= cut.axis < source + step:
            if entry is not Ellipsis and not (isinstance(entry, slice) and entry in FULL):
                raise NeedsWhole("it picks rows of the batch by their position", ALL_GATHER)
            several = entries.count(NOT_CONSTANT) > 1 or any(isinstance(e, int) for e in entries)
            if NOT_CONSTANT in entries[:at] or (NOT_CONSTANT in entries and several):
                raise NeedsWhole("an index may be several: where the rows come to lie is not seen", ALL_GATHER)
            new = sum(e is None for e in entries) - sum(isinstance(e, int) for e in entries)
            left = None if NOT_CONSTANT in entries else rank + new
            return Arg(moved(value.placement, place + cut.axis - source), rank=left)
        source += step
        place += 0 if isinstance(entry, int) else step
    raise NeedsWhole("it has more indices than axes")


@dataclass(frozen=True)
class Gather:
    """Rows of a table by indices. `axis`: the default; None is `batch_dims`; `flat`: None is all values in one row."""

    axis: Any = 0
    flat: bool = False

    def __call__(self, bound: Bound) -> Arg:
        table, index = whole(bound.data(0)), whole(bound.data(1))
        axis, batches = bound.constant("axis", default=self.axis), bound.constant("batch_dims", default=0)
        cut, by = sharded(table.placement), sharded(index.placement)
        if not cut and not by:
            if index.placement != REPLICATED:
                raise NeedsWhole("its index is not the same on all workers")
            is_plain = batches == 0 and not (axis is None and self.flat)
            if table.rank is None or index.rank is None or not is_plain:
                return Arg(table.placement)
            return Arg(table.placement, rank=table.rank - 1 + index.rank)

        def place(rank: int, depth: int) -> Arg:
            batch = batches + depth if batches < 0 else batches  # from the end of the indices' axes
            if axis is None and self.flat:
                if cut:
                    raise NeedsWhole("it picks among all values laid out in one row", ALL_GATHER)
                rank = 1
            along = axis_in(batch if axis is None else axis, rank)
            if batch:
                if cut and by and cut == by and cut.axis < batch <= along and index.placement == by:
                    return Arg(table.placement, rank=rank + depth - 1 - batch)
            elif by and not cut and index.placement == by:
                base, power = term(table.placement)
                if base == REPLICATED:
                    return Arg(placed(replace(by, axis=by.axis + along), power), rank=rank - 1 + depth)
            elif cut and not by and index.placement == REPLICATED and cut.axis != along:
                return Arg(moved(table.placement, cut.axis + (depth - 1) * (cut.axis > along)), rank=rank - 1 + depth)
            raise NeedsWhole("it picks rows of the batch by their position", ALL_GATHER)

        return over_ranks([table, index], place)


@dataclass(frozen=True)
class GatherNd:
    """Indices of several axes: of a whole table, or per sample with `batch_dims`."""

    def __call__(self, bound: Bound) -> Arg:
        table, index = whole(bound.data(0)), whole(bound.data(1))
        batch, cut, by = bound.constant("batch_dims", default=0), sharded(table.placement), sharded(index.placement)
        if not cut and not by and index.placement == REPLICATED:
            return Arg(table.placement)
        if by and index.placement == by and by.axis == 0 and (cut == by if batch else table.placement == REPLICATED):
            return over_ranks([index], lambda depth: Arg(by) if depth > 1 + batch - bool(batch) else _by_position())
        return _by_position()


def _by_position() -> Arg:
    raise NeedsWhole("it picks rows of the batch by their position", ALL_GATHER)


@dataclass(frozen=True)
class AlongRows:
    """take_along_axis: table and indices side by side."""

    def __call__(self, bound: Bound) -> Arg:
        table, index = whole(bound.data(0)), whole(bound.data(1))
        axis = bound.constant("axis", default=None)
        cut, by = sharded(table.placement), sharded(index.placement)
        if not cut and not by and index.placement == REPLICATED:
            return Arg(table.placement, rank=table.rank)

        def place(rank: int) -> Arg:
            if axis is None or not cut or not by or index.placement != by or axis_in(axis, rank) == cut.axis:
                return _by_position()
            return Arg(placed(one_layout([cut, by]), term(table.placement)[1]), rank=rank)

        return over_ranks([replace(table, rank=index.rank if table.rank is None else table.rank)], place)


@dataclass(frozen=True)
class Mask:
    """boolean_mask: rows that a per-sample mask leaves are ragged."""

    def __call__(self, bound: Bound) -> Arg:
        value, mask = whole(bound.data(0)), whole(bound.data(1))
        axis = bound.constant("axis", default=None)
        cut, by = sharded(value.placement), sharded(mask.placement)
        rank = _rank_of_masked(value, mask)
        if not cut and not by and mask.placement == REPLICATED:
            return Arg(value.placement, rank=rank)
        if cut and by and not axis and cut.axis == by.axis == 0 and cut.blocks == by.blocks and mask.placement == by:
            return Arg(moved(value.placement, 0, "ragged"), rank=rank)
        if cut and not by and axis and 0 <= cut.axis < axis and mask.placement == REPLICATED:
            return Arg(value.placement, rank=rank)
        return _by_position()


@dataclass(frozen=True)
class OneHot:
    """Adds an axis of classes. `needed`: the parameter that fixes how many, where it may be left out."""

    needed: str = ""

    def __call__(self, bound: Bound) -> Arg:
        fixed = bound.get(self.needed) if self.needed else Arg()
        if fixed is None or fixed.constant is None or fixed.placement != REPLICATED:
            raise NeedsWhole("the size of its new axis depends on the rows of the batch", ALL_GATHER)
        value, axis = whole(bound.data()), bound.constant("axis", default=-1)
        if not sharded(value.placement):
            term_base, power = term(value.placement)
            if term_base != REPLICATED or power:
                raise NeedsWhole("it is not linear in a value that is not reduced yet", "all_reduce")
            return Arg(REPLICATED, rank=None if value.rank is None else value.rank + 1)

        def place(rank: int) -> Arg:
            cut, new = sharded(value.placement), axis_in(-1 if axis is None else axis, rank + 1)
            if cut is None or value.placement != cut:
                raise NeedsWhole("its classes are no classes")
            return Arg(moved(cut, cut.axis + (new <= cut.axis)), rank=rank + 1)

        return over_ranks([value], place)
