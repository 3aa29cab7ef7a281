"""Which values are proven to be of one batch: sums over its rows, and numbers of them, that meet in a mean.

Workers deal a batch out into as many parts as its number of rows allows, so that `sum(a) / len(b)` is on each of them
what it is on one device only where `a` and `b` are dealt out alike. What is not proven to be counts as of several
batches. The proof goes by names for the rows of a batch, each of which stands for one batch at a time: the place where
it was read, or got a name. What meets row by row has equally many rows, and the names of all of these. A name means
another batch as soon as it is read again, so what is left of the turn before of a loop loses it; so does what an object
or a frame keeps that outlives the call; and what a function gives has the name of the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.frames import Names
from migrator.analysis.ops.call import Arg, Op
from migrator.analysis.ops.moving import Joins, Reshape
from migrator.analysis.placement import Scaled, Sharded, options
from migrator.analysis.values import Data, Site, Value
from migrator.facts.program.tree import FunctionLike, Tree
from migrator.records import replace

# Of the size that the batches are made with: what is cut there is cut so that it fits.
OF_ALL = frozenset({Site(cst.Pass(), ())})
_NONE: frozenset[Site] = frozenset()
# These mark the name of what may have parts, each of a batch of its own; of batches of one row; of batches of a size
# that is not known, behind what tells it.
_OF_PARTS, OF_ONE_ROW, OF_ANY_SIZE = -1, -2, -3
_MARKS = ((_OF_PARTS,), (OF_ONE_ROW,))


def named(value: Value, site: Site) -> Value:
    """The value where it gets a name: rows of a batch that is not known are those that have this one."""
    data = value.data
    if data is None or value.objects or data.batch or data.whole or not isinstance(data.placement, Sharded):
        return value
    if data.placement.blocks > 1 or data.placement.rows == "ragged":
        return value
    site = Site(site.node, (*site.context, _OF_PARTS)) if data.nested else site
    return Value(replace(data, batch=frozenset((site,))))


def of_parts(data: Data) -> Data:
    """The value where it is a part of what may have several: of one batch, if that was made as a whole."""
    return replace(data, batch=_NONE) if any(site.context[-1:] == (_OF_PARTS,) for site in data.batch) else data


def read(value: Value, reader: cst.CSTNode, place: int = 0) -> Value:
    """What is read there, of what may be read again; place: which of several that are read together."""

    def again(data: Data) -> Data:
        if data.batch in (_NONE, OF_ALL):
            return data
        return replace(data, batch=frozenset(_read_at(site, reader, place) for site in data.batch))

    return v.mapped(value, again)


def returned(value: Value, function: FunctionLike, call: cst.CSTNode, tree: Tree) -> Value:
    """What a function gives: the batches that it has read are those of this call."""

    def outside(data: Data) -> Data:
        if data.batch == OF_ALL or not any(tree.contains(function, site.node) for site in data.batch):
            return data
        inside = (_read_at(s, call, 0) if tree.contains(function, s.node) else s for s in data.batch)
        return replace(data, batch=frozenset(inside))

    return v.mapped(value, outside)


def _read_at(site: Site, reader: cst.CSTNode, place: int) -> Site:
    mark = site.context[-1:] if site.context[-1:] in _MARKS else _size_of(site)
    return Site(reader, (hash((id(site.node), site.context)), place, *mark))


def in_next_turn(names: Names, loop: cst.CSTNode, tree: Tree) -> Names:
    """The names where the loop begins a turn: what it has read in the turn before is of another batch now. Rows of that
    are told by the name which has them."""

    def older(data: Data) -> Data:
        kept = frozenset(site for site in data.batch if not tree.contains(loop, site.node))
        return data if len(kept) == len(data.batch) else replace(data, batch=kept)

    older_names = {name: v.mapped(value, older) for name, value in names.items()}
    return {name: named(value, Site(loop, (hash(name),))) for name, value in older_names.items()}


def of_one(given: Sequence[Data], *, aligned: bool = True) -> frozenset[Site]:
    """The names of the one batch of which all of these are; empty where that is not proven. Rows that meet are as many,
    if they are `aligned` and do not stand one behind the other."""
    apart = [d for d in given if not d.is_replicated]
    told = [d for d in apart if d.batch != OF_ALL]
    if apart and not told:
        return OF_ALL
    if any(d.placement.blocks > 1 and not d.batch for d in told if isinstance(d.placement, Sharded)):
        return _NONE
    rows = [d for d in told if aligned and _has_rows(d)]
    found = _of_rows(rows) if rows else told[0].batch if told else _NONE
    rest = [d for d in told if not rows or not _has_rows(d)]
    while rest:
        met = [d for d in rest if d.batch & found]
        if not met:
            return _NONE
        found = found.union(*(d.batch for d in met))
        rest = [d for d in rest if d not in met]
    return found


def _of_rows(rows: Sequence[Data]) -> frozenset[Site]:
    """The names of all rows that meet, but for those of what may be one row that each row of another batch meets."""

    def names(one: Data) -> frozenset[Site]:
        if not any(_may_be_of_one_row(one, other) for other in rows):
            return one.batch
        return frozenset(site for site in one.batch if not _size_of(site))

    return _NONE.union(*map(names, rows))


def _may_be_of_one_row(one: Data, other: Data) -> bool:
    """Whether it is of a size that is not known, and not proven to be of as many rows as the other."""
    sizes = {_size_of(site) for site in one.batch} - {()}
    return bool(sizes) and not one.batch & other.batch and sizes.isdisjoint(map(_size_of, other.batch))


def _size_of(site: Site) -> tuple[int, ...]:
    """What marks a batch of a size that is not known; empty for others."""
    return site.context[-2:] if site.context[-1:] == (OF_ANY_SIZE,) else ()


def may_be_repeated(op: Op | None, given: Sequence[Data]) -> bool:
    """Whether the one row of a batch may meet each row of another there, which has more."""
    if op is None or isinstance(op.kind, Joins):
        return False
    rows = [d for d in given if not d.is_replicated and isinstance(d.placement, Sharded) and d.batch]
    ones = [d for d in rows if any(site.context[-1:] == (OF_ONE_ROW,) for site in d.batch)]
    if any(not (one.batch & other.batch) for one in ones for other in rows):
        return True
    told = [d for d in rows if d.batch != OF_ALL]
    return any(_may_be_of_one_row(one, other) for one in told for other in told)


def _has_rows(data: Data) -> bool:
    """Whether it has a value for each row, perhaps divided by the number of rows."""
    place = data.placement.base if isinstance(data.placement, Scaled) else data.placement
    return isinstance(place, Sharded)


def _lies_flat(op: Op | None, given: Iterable[Arg | Value]) -> bool:
    """Whether the op lays all numbers in one row, however it is told their count: more than there are it cannot be."""
    ranks = {x.rank if isinstance(x, Arg) else x.data.rank if x.data is not None else None for x in given}
    return op is not None and isinstance(op.kind, Reshape) and ranks == {1}


def kept(op: Op | None, given: Sequence[Data], result: Value) -> Value:
    """The result of the op with the batch that it is of."""
    if _lies_flat(op, [result]) and len(list(filter(_has_rows, given))) == 1:
        given = [*filter(_has_rows, given)]  # and not what tells the shape
    batch = of_one(given, aligned=op is None or not isinstance(op.kind, Joins))
    return v.mapped(result, lambda d: replace(d, batch=_NONE if d.is_replicated else batch))


def are_of_several(op: Op | None, given: Sequence[Data], result: Arg) -> bool:
    """Whether a number of rows meets there what is not proven to be of the same batch, other than to be added to it."""
    if _lies_flat(op, result.leaves()):
        return False
    apart = [d for d in given if not d.is_replicated]
    if len(apart) < 2 or not any(isinstance(p, Scaled) for d in apart for p in options(d.placement)):
        return False
    if all(map(_has_rows, apart)):
        return False
    placements = {d.placement for d in apart}
    if len(placements) == 1 and all(leaf.placement in placements for leaf in result.leaves()):
        return False
    return not of_one(apart)
