"""Ops that make values of a shape, and those that tell one."""

from __future__ import annotations

from collections.abc import Sequence

from migrator.analysis.ops.call import Arg, Bound, NeedsWhole, literal
from migrator.analysis.ops.elementwise import elementwise
from migrator.analysis.ops.moving import first_of, known_sizes, sizes, target
from migrator.analysis.ops.terms import known_rank, one_layout, placed, sharded, term, whole
from migrator.analysis.placement import REPLICATED, ROWS, Partial, Shape, Sharded
from migrator.records import dataclass, replace


@dataclass(frozen=True)
class Like:
    """Zeros, ones or a fill of another value's shape."""

    def __call__(self, bound: Bound) -> Arg:
        value = whole(bound.data())
        return Arg(sharded(value.placement) or REPLICATED, rank=value.rank)


@dataclass(frozen=True)
class Makes:
    """Values of a given shape, sharded where a size is the number of rows. `shape`: that parameter's place."""

    shape: int = 0

    def __call__(self, bound: Bound) -> Arg:
        shape = target(bound, self.shape)
        if isinstance(shape.placement, Shape) and shape.items is None:
            made = Sharded(shape.placement.axis, shape.placement.rows, shape.placement.blocks)
            return Arg(made, least=shape.placement.least)
        wanted = sizes(shape)
        if wanted is None:
            return Arg(REPLICATED)
        if wanted.count(ROWS) > 1:
            raise NeedsWhole("it makes a value for each pair of rows", "all_reduce")
        place = Sharded(wanted.index(ROWS)) if ROWS in wanted else REPLICATED
        rows = first_of(wanted) if place == REPLICATED else None
        return Arg(place, rank=len(wanted), rows=rows, shape=known_sizes(wanted))


@dataclass(frozen=True)
class Draws(Makes):
    """Random numbers that a seed fixes: those of a part of a batch are others than a part of those of the batch.
    `items`: what it draws are items of an array, which may have axes of their own."""

    items: bool = False

    def __call__(self, bound: Bound) -> Arg:
        made = self.made(bound)
        if self.items and any(leaf.placement != REPLICATED for leaf in bound.data(0).leaves()):
            raise NeedsWhole("it draws from the rows of the whole batch", "all_reduce")
        if made.placement != REPLICATED:
            raise NeedsWhole("its seed fixes the numbers of the whole batch", "all_reduce")
        return made

    def made(self, bound: Bound) -> Arg:
        """What so many numbers are that a worker draws for its rows."""
        bound.get("seed")
        if bound.parameters[self.shape] == "size" and not self.items and self._is_one(bound):
            return Arg(REPLICATED, rank=0)
        found = super().__call__(bound)
        if not self.items:
            return found
        axes = known_rank(bound.data(0))  # of an array, or of the number of items
        rank = None if axes is None or found.rank is None else found.rank + max(axes - 1, 0)
        return replace(found, rank=rank, least=found.rank or 0)

    def _is_one(self, bound: Bound) -> bool:
        """Whether it is one number, of a distribution that numbers describe: `rng.uniform(0.5, 2)`."""
        given = [arg for name in bound.parameters[: self.shape] if (arg := bound.get(name)) is not None]
        are_numbers = all(arg.placement == REPLICATED and known_rank(arg) == 0 for arg in given)
        return are_numbers and "size" not in bound.values


@dataclass(frozen=True)
class Broadcast:
    """A whole value repeated for each row, or rows that stay where they are. `shape`: that parameter's place."""

    shape: int = 1

    def __call__(self, bound: Bound) -> Arg:
        value, shape = whole(bound.data()), bound.data(self.shape)
        cut, (base, power) = sharded(value.placement), term(value.placement)
        if isinstance(shape.placement, Shape) and shape.items is None:
            rows = Sharded(shape.placement.axis, shape.placement.rows, shape.placement.blocks)
            if cut and cut.axis == rows.axis:  # with fewer axes its rows would be spread along another one, and not fit
                return Arg(placed(one_layout([cut, rows]), power), rank=value.rank)
            return elementwise([Arg(rows), value], "product")  # as if it were multiplied by ones of that shape
        wanted = sizes(shape)
        if wanted is None or wanted.count(ROWS) > 1:
            raise NeedsWhole("its shape is not seen", "all_gather")
        if cut is None and ROWS in wanted and base == REPLICATED:
            return Arg(placed(Sharded(wanted.index(ROWS)), power), rank=len(wanted))
        if cut is None and ROWS not in wanted:
            return Arg(value.placement, rank=len(wanted), rows=first_of(wanted))
        if cut and value.rank == len(wanted) and wanted[cut.axis] == ROWS:
            return Arg(value.placement, rank=len(wanted))
        raise NeedsWhole("its shape fixes the number of rows, or mixes them with other values", "all_gather")


@dataclass(frozen=True)
class Sizes:
    """What tells sizes: "shape", "size" (all values), "length" (of axis 0), "rank"."""

    what: str = "shape"

    def __call__(self, bound: Bound) -> Arg:
        value = bound.data()
        if value.items is not None and self.what == "length":
            return Arg(REPLICATED, constant=len(value.items), rank=0)
        if isinstance(value.placement, Shape):
            return Arg(REPLICATED, rank=0)
        cut = sharded(whole(value).placement)
        if self.what == "shape":
            least = value.rank or max(value.least, 1)
            place = Shape(cut.axis, cut.rows, cut.blocks, least) if cut else REPLICATED
            return Arg(place, rank=1, rows=value.rank)
        if self.what == "rank" or cut is None or (self.what == "length" and cut.axis):
            return Arg(REPLICATED, rank=0)
        return Arg(Partial("sum") if cut.rows == "ragged" else ROWS, rank=0, integral=True)


@dataclass(frozen=True)
class Same:
    """The value itself, whatever it is."""

    def __call__(self, bound: Bound) -> Arg:
        return bound.data()


@dataclass(frozen=True)
class Stacked:
    """The value itself, as one array: a list of arrays is stacked, and their rows then lie behind its items.

    `fixed`: nothing changes the array afterwards.
    """

    fixed: bool = False

    def __call__(self, bound: Bound) -> Arg:
        value = bound.data()
        placements = {leaf.placement for leaf in value.leaves()}
        if value.items is not None and placements == {REPLICATED}:
            first = _first_row(value.items) if self.fixed else None
            return Arg(REPLICATED, rank=_depth(value), least=1, first=first, rows=len(value.items) or None)
        is_shape = value.items is not None and placements <= {REPLICATED, ROWS}
        return value if is_shape else whole(value)


def _first_row(items: Sequence[Arg]) -> tuple[int, ...] | None:
    """The whole numbers that the first of the items is written as."""
    row = literal(items[0]) if items else None
    return tuple(row) if isinstance(row, list) and all(isinstance(each, int) for each in row) else None


def _depth(value: Arg) -> int | None:
    """The axes of an array of that."""
    if not value.items:
        return value.rank
    inner = _depth(value.items[0])
    return inner + 1 if inner is not None else None


@dataclass(frozen=True)
class Filled(Stacked):
    """`tf.constant`: an array, or with a shape one number as often as that says, or the array's numbers in it."""

    def __call__(self, bound: Bound) -> Arg:
        value = super().__call__(bound)
        shape = bound.get("shape")
        if shape is None or literal(shape) is None:
            return value
        if known_rank(value) == 0:
            return Broadcast(shape=2)(bound)
        wanted = sizes(shape)
        if value.placement != REPLICATED or wanted is None or ROWS in wanted:
            raise NeedsWhole("its shape fixes the number of rows", "all_gather")
        return Arg(REPLICATED, rank=len(wanted), rows=first_of(wanted), shape=known_sizes(wanted))


@dataclass(frozen=True)
class Constant:
    """The same on all workers, whatever it is asked of: a name, a dtype, a small number."""

    def __call__(self, bound: Bound) -> Arg:
        for name in bound.values:
            bound.get(name)
        return Arg(REPLICATED)


@dataclass(frozen=True)
class Counts:
    """A table of fixed size that each row adds to (`needed`: the parameter that fixes it): a sum over the workers."""

    rows: int = 1
    needed: str = ""

    def __call__(self, bound: Bound) -> Arg:
        values = [whole(arg) for arg in (bound.get(name) for name in bound.parameters[: self.rows]) if arg is not None]
        cuts = [sharded(value.placement) for value in values]
        fixed = bound.get(self.needed) if self.needed else None
        if not any(cuts):
            for value in values:
                if term(value.placement) != (REPLICATED, 0):
                    raise NeedsWhole("it counts values that are not reduced yet", "all_reduce")
            if fixed is not None and fixed.placement != REPLICATED:
                raise NeedsWhole("the size of its table depends on the rows of the batch", "all_reduce")
            return Arg(REPLICATED)
        if None in cuts or any(v.placement != cuts[0] for v in values):
            raise NeedsWhole("its arguments stand in different places", "all_gather")
        if self.needed and (fixed is None or literal(fixed) is None or fixed.placement != REPLICATED):
            raise NeedsWhole("the size of its table depends on the rows of the batch", "all_gather")
        if cuts[0] and cuts[0].axis:
            raise NeedsWhole("it takes axis 0 for the rows", "all_gather")
        return Arg(Partial("sum"))
