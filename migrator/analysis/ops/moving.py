"""Ops that lay the same values out anew. All are linear."""

from __future__ import annotations

import math
from typing import Any

from migrator.analysis.ops.call import NOT_CONSTANT, SIZE, Arg, Bound, NeedsWhole, literal
from migrator.analysis.ops.terms import (
    ImpossibleRank,
    added,
    axes_in,
    axis_in,
    known_rank,
    moved,
    one_layout,
    over_ranks,
    placed,
    sharded,
    term,
    unknown_constant,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, REPLICATED, ROWS, Partial, Replicated, Shape, Sharded
from migrator.records import dataclass, replace


@dataclass(frozen=True)
class Permutes:
    """Axes in another order: `how` is "transpose", "swap", "move", "last two", or "permute" (axis 0 stays)."""

    how: str = "transpose"

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        cut = sharded(value.placement)
        first = literal(bound.data(1)) if len(bound.parameters) > 1 and bound.get(bound.parameters[1]) else None
        second = literal(bound.data(2)) if self.how in ("swap", "move") else None
        if cut and (unknown_constant(first) or unknown_constant(second)):
            raise NeedsWhole("the order of the axes is not seen", ALL_GATHER)

        def place(rank: int) -> Arg:
            assert cut is not None
            return Arg(moved(value.placement, self.order(rank, first, second).index(cut.axis)), rank=rank)

        if cut is None:
            return Arg(value.placement, rank=value.rank, least=value.least, dtype=value.dtype, integral=value.integral)
        return over_ranks([value], place)

    def order(self, rank: int, first: Any, second: Any) -> list[int]:
        order = list(range(rank))
        if self.how == "transpose":
            if first is not None and len(axes_in(first, rank)) != rank:
                raise ImpossibleRank
            return order[::-1] if first is None else axes_in(first, rank)
        if self.how == "move":
            taken = axes_in(first, rank)
            order = [axis for axis in order if axis not in taken]
            for place, axis in sorted(zip(axes_in(second, rank), taken)):
                order.insert(place, axis)
            return order
        i, j = (-2, -1) if self.how == "last two" else (first, second)
        i, j = axis_in(i, rank), axis_in(j, rank)
        order[i], order[j] = order[j], order[i]
        return order


@dataclass(frozen=True)
class ExpandDims:
    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        axes = bound.constant(bound.parameters[1])
        if value.placement == ROWS and axes in (0, -1):
            return Arg(Shape(0), rank=1)

        def place(rank: int) -> Arg:
            new = axes_in(axes, rank + (len(axes) if isinstance(axes, (list, tuple)) else 1))
            cut = sharded(value.placement)
            if cut is None:
                return Arg(value.placement, rank=rank + len(new), rows=1 if 0 in new else None)
            return Arg(
                moved(value.placement, [i for i in range(rank + len(new)) if i not in new][cut.axis]),
                None,
                rank + len(new),
            )

        return replace(over_ranks([value], place), constant=NOT_CONSTANT)


@dataclass(frozen=True)
class Squeeze:
    """Without an axis it may take away any axis of size one but the batch's."""

    def __call__(self, bound: Bound) -> Arg:
        value, axes = whole(bound.data()), bound.constant("axis", "axes", default=None)
        cut = sharded(value.placement)
        if cut is None and (axes is None or value.rank is None):
            return replace(value, rank=None, least=0, rows=None)
        if cut is not None and axes is None:
            if cut.axis:
                raise NeedsWhole("which axes it takes away is not seen", ALL_GATHER)
            is_seen = value.rank == 2 and value.width is not None
            return Arg(value.placement, rank=(1 if value.width == 1 else 2) if is_seen else None)

        def place(rank: int) -> Arg:
            gone = axes_in(axes, rank)
            if cut is None:
                return Arg(value.placement, rank=rank - len(gone))
            if cut.axis in gone:
                raise NeedsWhole("it takes the axis of the batch away", ALL_GATHER)
            return Arg(moved(value.placement, cut.axis - sum(g < cut.axis for g in gone)), rank=rank - len(gone))

        return over_ranks([value], place)


def target(bound: Bound, position: int) -> Arg:
    """A shape: one argument, or all that follow (`x.reshape(-1, 4)`)."""
    if bound.parameters[position] != "*shape":
        return bound.data(position)
    given = [bound.data(i) for i, name in enumerate(bound.parameters) if i >= position and name in bound.values]
    return given[0] if len(given) == 1 else Arg(items=tuple(given))


def sizes(shape: Arg) -> list[Any] | None:
    """The sizes that a shape gives: numbers, ROWS, NOT_CONSTANT for others that all workers share; None: not seen."""
    if isinstance(shape.placement, Shape) and shape.items is None:
        return None
    items = shape.items
    if items is None:
        value = shape.constant
        if value is NOT_CONSTANT:
            if shape.placement == REPLICATED and shape.rank == 0 and not shape.many:
                return [NOT_CONSTANT]  # `len(x)`: one size
            return [ROWS] if shape.placement == ROWS else None
        return list(value) if isinstance(value, (list, tuple)) else [value]
    found = []
    for item in items:
        if item.placement != REPLICATED and item.placement != ROWS:
            raise NeedsWhole("its shape is not the same on all workers")
        found.append(ROWS if item.placement == ROWS else item.constant)
    return found


def known_sizes(wanted: list[Any]) -> tuple[int | None, ...]:
    """The sizes that are known numbers; None for others."""
    return tuple(size if isinstance(size, int) and size >= 0 else None for size in wanted)


def first_of(wanted: list[Any]) -> int | None:
    """The first of several sizes, where it is a known one above zero."""
    return wanted[0] if wanted and isinstance(wanted[0], int) and wanted[0] > 0 else None


@dataclass(frozen=True)
class Reshape:
    """Rows stay one after the other where the first size is left open, or is a number of rows."""

    shape: tuple[Any, ...] | None = None

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        cut = sharded(value.placement)
        shape = Arg(constant=self.shape) if self.shape else target(bound, 1)
        wanted = sizes(shape)
        rank = None if wanted is None else len(wanted)
        if cut is None:
            if any(not isinstance(leaf.placement, Replicated) for leaf in shape.leaves()):
                raise NeedsWhole("a value that is no batch gets the shape of one")
            if wanted is None:
                return Arg(value.placement)
            return Arg(value.placement, rank=rank, rows=first_of(wanted), shape=known_sizes(wanted))
        if isinstance(shape.placement, Shape) and shape.items is None and shape.placement.axis == cut.axis == 0:
            return self._like_rows(value, cut, shape, shape.placement)
        if wanted is None:
            raise NeedsWhole("its shape is not seen", ALL_GATHER)
        if cut.axis or cut.blocks > 1:
            place = self._same_place(cut, wanted)
        else:
            place = next((i for i, size in enumerate(wanted) if size != 1), None)
            if place is None or not (wanted[place] == -1 or wanted[place] == ROWS) or ROWS in wanted[place + 1 :]:
                raise NeedsWhole("its shape fixes the number of rows, or mixes them with other values", ALL_GATHER)
        if place is None:
            raise NeedsWhole("its shape moves the rows of the batch", ALL_GATHER)
        may_join = wanted[place] == -1 and _may_join_rows(value, wanted[place + 1 :])
        if may_join:
            raise NeedsWhole("its shape may put several rows into one", ALL_GATHER)
        rows = cut.rows if cut.rows == "ragged" or known_rank(value) == rank == 1 else "even"
        sizes_of_rows = known_sizes(wanted) if place == 0 else None
        made = moved(value.placement, place, rows)
        return Arg(made, rank=rank, shape=sizes_of_rows, on_trust=SIZE if may_join is None else "")

    @staticmethod
    def _like_rows(value: Arg, cut: Sharded, shape: Arg, like: Shape) -> Arg:
        """With as many rows as others have; those of several blocks have to stay what they are."""
        are_single = cut.rows == like.rows == "one"
        if cut.blocks > 1 and not (are_single and cut.blocks == like.blocks):
            raise NeedsWhole("its shape may put several rows into one", ALL_GATHER)
        rows = "ragged" if cut.rows == "ragged" else "one" if are_single else "even"
        return Arg(moved(value.placement, 0, rows), rank=shape.shape[0] if shape.shape else None)

    def _same_place(self, cut: Sharded, wanted: list[Any]) -> int | None:
        """Rows in several blocks stay rows as long as none is split: only flat rows are sure."""
        return 0 if cut.axis == 0 and cut.blocks == 1 and wanted[0] == -1 else None


def _may_join_rows(value: Arg, sizes: list[int]) -> bool | None:
    """Whether what becomes one row may be more than one was; None where nobody knows.

    Nobody does of numbers that are written out where no size of the rows is seen: `(-1, 784)` would then have to gather
    where pictures are flattened, as nearly all that is written so does. Other numbers, as in `[-1, k, x.shape[-1]]`,
    are taken on trust of rows that have several axes."""
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return True if sum(size != 1 for size in sizes) > 1 and value.rank == 2 else None
    joined = math.prod(sizes)
    cut = sharded(value.placement)
    is_row = cut is not None and cut.rows == "one"
    whole_row = 1 if value.rank == 1 and is_row else value.width if value.rank == 2 else None
    size = next((n for n in (value.sample, whole_row, value.width) if n is not None), None)
    if size is None:
        return None if joined > 1 else False
    return size % joined != 0


@dataclass(frozen=True)
class Joins:
    """concat: along the batch each worker joins its own rows of each part, which then stand in blocks."""

    axis: Any = 0
    new_axis: bool = False

    def __call__(self, bound: Bound) -> Arg:
        parts = bound.data()
        if parts.listed and sharded(parts.placement):
            return self._of_rows(parts, bound.constant("axis", default=self.axis))
        if parts.many or parts.items is None:
            if not sharded(parts.placement):
                # The items of a list, or of an array.
                rank = parts.rank if parts.many or parts.rank is None else parts.rank - 1
                return Arg(parts.placement, rank=None if rank is None else rank + self.new_axis)
            if not self.new_axis:
                return self._joined_beside(parts, bound.constant("axis", default=self.axis))
        items = [parts] if parts.items is None else [whole(item) for item in parts.items]
        axis = bound.constant("axis", default=self.axis)
        if any(isinstance(item.placement, Shape) for item in items):
            return _joined_sizes(items)
        cuts = [sharded(item.placement) for item in items]
        if not any(cuts):
            placement = placed(*added([term(item.placement) for item in items]))
            rank = next((item.rank for item in items if item.rank is not None), None)  # all have as many axes
            if rank is None:
                return Arg(placement)
            rank += self.new_axis
            is_behind = isinstance(axis, int) and -rank < axis < rank and axis != 0
            rows = next((item.rows for item in items if item.rows is not None), None) if is_behind else None
            if self.new_axis and axis == 0 and parts.items is not None:
                rows = len(items)
            return Arg(placement, rank=rank, rows=rows if placement == REPLICATED else None)
        if None in cuts:
            raise NeedsWhole("it joins rows of the batch with a value that is whole", ALL_GATHER)
        layout = one_layout([cut for cut in cuts if cut])
        _, power = added([term(item.placement) for item in items])

        def place(rank: int) -> Arg:
            along = axis_in(axis, rank + self.new_axis)
            if self.new_axis:
                return Arg(placed(replace(layout, axis=layout.axis + (along <= layout.axis)), power), rank=rank + 1)
            if along != layout.axis:
                return Arg(placed(layout, power), rank=rank)
            if layout.rows == "ragged" or layout.blocks > 1:
                raise NeedsWhole("it joins rows of the batch with other rows", ALL_GATHER)
            rows = "even" if any(cut and cut.rows != "one" for cut in cuts) else "one"
            return Arg(placed(replace(layout, rows=rows, blocks=len(items)), power), rank=rank)

        # All have as many axes.
        rank = next((i.rank for i in items if i.rank is not None), None)
        return over_ranks([replace(items[0], rank=rank, least=max(i.least for i in items))], place)

    def _of_rows(self, parts: Arg, axis: Any) -> Arg:
        """A list with an item for each row: stacked, it is an array of them."""
        cut = sharded(parts.placement)
        if not self.new_axis or cut is None or cut.axis:
            raise NeedsWhole("how many parts it joins is not seen", ALL_GATHER)
        return over_ranks([parts], lambda rank: Arg(moved(parts.placement, axis_in(axis, rank)), rank=rank))

    @staticmethod
    def _joined_beside(parts: Arg, axis: Any) -> Arg:
        """However many parts, along another axis than the batch's."""

        def place(rank: int) -> Arg:
            cut = sharded(parts.placement)
            if cut is None or axis_in(axis, rank) == cut.axis:
                raise NeedsWhole("how many parts it joins is not seen", ALL_GATHER)
            return Arg(parts.placement, rank=rank)

        return over_ranks([replace(parts, many=False)], place)


def _joined_sizes(items: list[Arg]) -> Arg:
    """`concat([tf.shape(x)[:1], [3]], 0)`: sizes again."""
    before = 0
    for item in items:
        if isinstance(item.placement, Shape):
            others = [i for i in items if i is not item]
            if any(i.placement != REPLICATED for i in others):
                break
            return Arg(replace(item.placement, axis=item.placement.axis + before), rank=1)
        value = item.constant
        if not isinstance(value, (list, tuple)):
            break
        before += len(value)
    raise NeedsWhole("it joins sizes that are not seen")


@dataclass(frozen=True)
class Splits:
    """split, along another axis than the batch's, or the blocks that a concat made.

    `unstack`: the axis goes. `positions`: a list says where to cut, and not how long the parts are.
    """

    unstack: bool = False
    positions: bool = False

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        number = bound.get(bound.parameters[1])
        axis = bound.constant("axis", default=0)
        if number is not None and any(leaf.placement != REPLICATED for leaf in number.leaves()):
            raise NeedsWhole("into how many parts it is split differs from worker to worker")
        count = None if number is None or (self.unstack and number.constant is None) else literal(number)
        length = len(count) + self.positions if isinstance(count, (list, tuple)) else count

        def place(rank: int) -> Arg:
            cut, along = sharded(value.placement), axis_in(axis, rank)
            left = rank - self.unstack
            if cut is None:
                return Arg(value.placement, rank=left)
            if along != cut.axis:
                return Arg(moved(value.placement, cut.axis - (self.unstack and along < cut.axis)), rank=left)
            if not self.unstack and cut.blocks > 1 and cut.blocks == count and cut.rows == "one":
                return Arg(placed(replace(cut, blocks=1), term(value.placement)[1]), rank=left)
            raise NeedsWhole("it takes the rows of the batch apart", ALL_GATHER)

        item = over_ranks([value], place)
        if not isinstance(length, int):
            return replace(item, many=True)
        return Arg(items=(item,) * length)


@dataclass(frozen=True)
class Tile:
    """Repeats along axes. `broadcasts`: missing numbers, or axes, are ones; else each axis has a number."""

    broadcasts: bool = False

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        cut, given = sharded(value.placement), bound.data(1)
        times = sizes(given)
        if value.rank is None and times is not None and not self.broadcasts:
            value = replace(value, rank=len(times))
        if isinstance(given.placement, Shape) and times is None and value.placement == REPLICATED and value.rank:
            return Arg(Sharded(given.placement.axis, "even"), rank=value.rank)
        if times is None:
            raise NeedsWhole("how often it repeats the values is not seen", ALL_GATHER)
        if cut is None:
            if self.broadcasts and value.rank is not None:
                value = replace(value, rank=max(value.rank, len(times)))
            if ROWS not in times:
                often = first_of(times) if value.rank == len(times) else None
                rows = value.rows * often if value.rows is not None and often is not None else None
                return Arg(value.placement, rank=value.rank, rows=rows)
            if value.rank == len(times) and times.count(ROWS) == 1:
                base, power = term(value.placement)
                if base == REPLICATED:
                    return Arg(placed(Sharded(times.index(ROWS), "even"), power), rank=value.rank)
            raise NeedsWhole("a value that is no batch is repeated for each row")
        if cut.axis < len(times) and times[cut.axis] == 1 and ROWS not in times and value.rank == len(times):
            return Arg(value.placement, rank=value.rank)
        count = times[cut.axis] if cut.axis < len(times) else None
        whole_axes = value.rank == len(times) and all(size != ROWS for size in times)
        if whole_axes and isinstance(count, int) and cut.rows == "one" and cut.blocks == 1 and count > 0:
            return Arg(placed(replace(cut, blocks=count), term(value.placement)[1]), rank=value.rank)
        raise NeedsWhole("it repeats the rows of the batch", ALL_GATHER)


@dataclass(frozen=True)
class Repeat:
    """Each value so many times in a row. `flat`: without an axis it lays out all values in one row."""

    flat: bool = True

    def __call__(self, bound: Bound) -> Arg:
        value, axis = whole(bound.data()), bound.constant("axis", default=None)
        cut = sharded(value.placement)
        times = bound.data(1)
        if times.placement != REPLICATED:
            raise NeedsWhole("how often it repeats the values is not the same on all workers")
        if cut is None:
            return Arg(value.placement, rank=1 if axis is None else value.rank)
        # One number holds for each row; a list may have another one for each.
        is_one = isinstance(times.constant, int) or (times.constant is NOT_CONSTANT and times.rank == 0)

        def place(rank: int) -> Arg:
            if axis is None and (cut.axis or cut.blocks > 1):
                raise NeedsWhole("it lays out all values in one row", ALL_GATHER)
            along = 0 if axis is None else axis_in(axis, rank)
            if along == cut.axis and not is_one:
                raise NeedsWhole("how often it repeats each row is not seen", ALL_GATHER)
            rows = "even" if along == cut.axis and cut.rows == "one" else cut.rows
            if cut.blocks > 1 and along == cut.axis:
                raise NeedsWhole("it repeats rows of several blocks", ALL_GATHER)
            return Arg(moved(value.placement, cut.axis, rows), rank=1 if axis is None else rank)

        return over_ranks([value], place)


@dataclass(frozen=True)
class Pad:
    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        cut, pads = sharded(value.placement), bound.data(1)
        mode, filled = bound.get("mode"), bound.get("constant_values")
        zeros = filled is None or filled.constant in (0, None)
        term(value.placement)
        if isinstance(value.placement, Partial) and not (zeros and mode is None):
            raise NeedsWhole("it pads a value that is not reduced yet", "all_reduce")
        if cut is None:
            return Arg(value.placement, rank=value.rank)
        if not _leaves_alone(pads, cut.axis):
            raise NeedsWhole("it pads the rows of the batch", ALL_GATHER)
        if filled is not None and filled.placement != REPLICATED:
            raise NeedsWhole("it pads with a value that is not the same on all workers")
        if term(value.placement)[1] and not (zeros and mode is None):
            raise NeedsWhole("it pads values that are divided by a number of rows")
        return Arg(value.placement, rank=value.rank)


def _leaves_alone(pads: Arg, axis: int) -> bool:
    """Whether a list of paddings has none of that axis, whatever it has of others."""
    if any(leaf.placement != REPLICATED for leaf in pads.leaves()):
        return False
    if pads.first is not None:
        return axis == 0 and pads.first == (0, 0)
    each = pads.constant if pads.items is None else [literal(item) for item in pads.items]
    return isinstance(each, (list, tuple)) and len(each) > axis and each[axis] in ([0, 0], (0, 0))


@dataclass(frozen=True)
class Window:
    """A part of a value by where it begins and how large it is: of all rows, `-1` or as many as there are, from the
    first one on."""

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        begins, extents = sizes(bound.data(1)), sizes(bound.data(2))
        cut, rank = sharded(value.placement), next((len(told) for told in (begins, extents) if told), value.rank)
        if cut is None:
            if any(leaf.placement != REPLICATED for at in (1, 2) for leaf in bound.data(at).leaves()):
                raise NeedsWhole("how much it takes of a value depends on the rows of the batch", "all_reduce")
            return Arg(value.placement, rank=rank)
        if begins is None or extents is None or len(begins) != len(extents) or cut.axis >= len(extents):
            raise NeedsWhole("which rows of the batch it takes is not seen", ALL_GATHER)
        first, extent = begins[cut.axis], extents[cut.axis]
        others = [told[at] for told in (begins, extents) for at in range(len(told)) if at != cut.axis]
        are_all = extent == -1 or (extent == ROWS and cut.rows == "one" and cut.blocks == 1)
        if first is NOT_CONSTANT or first != 0 or not are_all or ROWS in others:
            raise NeedsWhole("it picks rows of the batch by their position", ALL_GATHER)
        return Arg(value.placement, rank=rank)
