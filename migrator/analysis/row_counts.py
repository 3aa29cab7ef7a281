"""Of which batch values have a row each, so that what is put together of several batches can be taken apart again.

`z = model(tf.concat([a, b], axis=0))` holds on each worker its rows of `a`, then its rows of `b`: `z[:len(a)]` is a
worker's part of the former, whatever the batches' sizes. Batches are told apart by the place where each gets its name;
what a dataset makes batches of has equally many rows in each of its parts, and is one, read at one place.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.frames import Names
from migrator.analysis.ops.call import Op
from migrator.analysis.ops.moving import Joins, Tile
from migrator.analysis.placement import ROWS, Shape, Sharded, options
from migrator.analysis.same_batch import OF_ANY_SIZE, OF_ONE_ROW
from migrator.analysis.values import Data, Site, Slice, Value
from migrator.facts.program.tree import Tree
from migrator.records import replace

Counts = tuple[Site, ...]


def named(value: Value, site: Site) -> Value:
    """The value where it is given a name: rows of a batch that has none are those of this one."""
    data = value.data
    if data is None or value.objects or data.counts or data.whole or data.placement != Sharded(0):
        return value
    return Value(replace(data, counts=(site,)))


def blocks(data: Data) -> int:
    """Of how many batches it is made, one behind the other."""
    return max((p.blocks for p in options(data.placement) if isinstance(p, (Sharded, Shape))), default=1)


def batched(element: Value, site: Site, size: Value | None = None, told_by: int = 0) -> Value:
    """The elements of a dataset that makes batches here. told_by: what the size is told by, where it is not known; it
    may be one then."""
    if size is not None and size.constant == 1:
        site = Site(site.node, (*site.context, OF_ONE_ROW))
    elif size is None or not isinstance(size.constant, int):
        site = Site(site.node, (*site.context, told_by, OF_ANY_SIZE))
    return v.mapped(element, lambda d: replace(d, counts=(site,), batch=frozenset((site,))))


def read(data: Data, reader: cst.CSTNode) -> Data:
    """What the elements of a dataset hold, where one is read."""
    return replace(data, counts=tuple(Site(reader, (id(s.node), *s.context)) for s in data.counts))


def in_next_turn(names: Names, loop: cst.CSTNode, tree: Tree) -> Names:
    """The names where the loop begins a turn: what it has read of a batch in the turn before may have other rows."""

    def older(data: Data) -> Data:
        is_kept = not any(tree.contains(loop, site.node) for site in data.counts)
        return data if is_kept else replace(data, counts=())

    return {name: v.mapped(value, older) for name, value in names.items()}


def are_unlike(data: Data) -> bool:
    """Whether it is made of several batches that are not proven to be dealt out alike: each worker has its part of
    each, and a mean weighs a worker's parts by other numbers than those of all rows where some do not divide."""
    return blocks(data) > 1 and not data.batch


def common(given: Sequence[Data]) -> Counts:
    """The batches of which all of these have the rows; empty where that is not seen."""
    apart = {d.counts for d in given if isinstance(d.placement, (Sharded, Shape)) or d.placement == ROWS}
    return apart.pop() if len(apart) == 1 else ()


def compared(left: Value, right: Value) -> Value | None:
    """What comes of comparing two numbers of rows, or two shapes, of the same batch: whatever part of it a worker has,
    it has that twice. None for others."""
    one, other = left.data, right.data
    if one is None or other is None or left.objects or right.objects:
        return None
    is_exact = _is_exact(one) and _is_exact(other)
    is_alike = _measured(one) is not None and _measured(one) == _measured(other)
    if not (is_exact and is_alike and len(one.counts) == 1 and one.counts == other.counts):
        return None
    return Value(Data(needs=one.needs | other.needs))


def _is_exact(data: Data) -> bool:
    """Whether the number, or shape, is that of one batch, and nothing is added to it."""
    return not (data.several or data.multiple_of or data.masked) and blocks(data) == 1


def taken_apart(data: Data, sizes: Sequence[Value]) -> list[Data] | None:
    """`tf.split(z, [n, m])` where these are the numbers of rows of the batches in it, in their order; None for other
    sizes."""
    cut, told = data.placement, [size.data for size in sizes if size.data is not None and not size.objects]
    if not isinstance(cut, Sharded) or cut.axis or cut.rows != "one" or not 1 < cut.blocks == len(sizes) == len(told):
        return None
    if len(data.counts) != cut.blocks or any(
        size.placement != ROWS or not _is_exact(size) or size.counts != (count,)
        for size, count in zip(told, data.counts)
    ):
        return None
    needs = data.needs.union(*(size.needs for size in told))
    return [
        replace(
            data,
            placement=replace(cut, blocks=1),
            counts=size.counts,
            needs=needs,
            batch=size.batch or data.batch,
            shape=None,
            rows=None,
        )
        for size in told
    ]


def _measured(data: Data) -> int | str | None:
    """The axis of the samples in a shape, or that the value is their number; None where it is neither."""
    if isinstance(data.placement, Shape):
        return data.placement.axis
    return "number" if data.placement == ROWS else None


def kept(op: Op | None, given: Sequence[Data], items: Sequence[Value] | None, result: Value) -> Value:
    """The result of the op with the batches whose rows it has. items: of the list that the op is given first."""
    data = result.data
    if data is None or op is None or result.objects:
        return result
    place, counts = data.placement, common(given)
    if isinstance(op.kind, Joins) and not op.kind.new_axis and items is not None and isinstance(place, Sharded):
        parts = [item.data.counts if item.data is not None else () for item in items]
        counts = tuple(site for part in parts for site in part) if all(parts) and place.blocks > 1 else counts
    if isinstance(op.kind, Tile) and isinstance(place, Sharded) and len(counts) == 1:
        counts = counts * place.blocks
    is_exact = place == ROWS and not data.several
    blocks = 1 if is_exact else place.blocks if isinstance(place, (Sharded, Shape)) and place.rows == "one" else 0
    return Value(replace(data, counts=counts)) if counts and blocks == len(counts) else result


def picked(data: Data, index: Value) -> Data | None:
    """`z[:n]` and `z[n:]` for the number of rows of the first batch that is in it; None for other slices."""
    cut, bounds = data.placement, index.constant
    if not isinstance(cut, Sharded) or cut.axis or cut.blocks < 2 or not data.counts or not isinstance(bounds, Slice):
        return None
    if bounds.step not in (None, 1) or bounds.cut_at != data.counts[:1]:
        return None
    counts = data.counts[:1] if bounds.lower is None else data.counts[1:] if bounds.upper is None else ()
    needs = data.needs | (index.data.needs if index.data is not None else frozenset())
    if not counts:
        return None
    of_block = index.data.batch if index.data is not None and bounds.lower is None else frozenset[Site]()
    return replace(
        data, placement=replace(cut, blocks=len(counts)), counts=counts, needs=needs, batch=of_block or data.batch
    )
