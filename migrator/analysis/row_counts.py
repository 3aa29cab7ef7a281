"""Of which batch values have a row each, so that what is put together of several batches can be taken apart again.

`z = model(tf.concat([a, b], axis=0))` holds on each worker its rows of `a`, then its rows of `b`: `z[:len(a)]` is a
worker's part of the former, whatever the batches' sizes. Batches are told apart by the place where each gets its name.
"""

from __future__ import annotations

from collections.abc import Sequence

from migrator.analysis.ops.call import Op
from migrator.analysis.ops.moving import Joins
from migrator.analysis.placement import ROWS, Shape, Sharded, options
from migrator.analysis.records import replace
from migrator.analysis.values import Data, Site, Slice, Value

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


def common(given: Sequence[Data]) -> Counts:
    """The batches of which all of these have the rows; empty where that is not seen."""
    apart = {d.counts for d in given if isinstance(d.placement, (Sharded, Shape)) or d.placement == ROWS}
    return apart.pop() if len(apart) == 1 else ()


def kept(op: Op | None, given: Sequence[Data], items: Sequence[Value] | None, result: Value) -> Value:
    """The result of the op with the batches whose rows it has. items: of the list that the op is given first."""
    data = result.data
    if data is None or op is None or result.objects:
        return result
    place, counts = data.placement, common(given)
    if isinstance(op.kind, Joins) and not op.kind.new_axis and items is not None and isinstance(place, Sharded):
        parts = [item.data.counts if item.data is not None else () for item in items]
        counts = tuple(site for part in parts for site in part) if all(parts) and place.blocks > 1 else counts
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
    return replace(data, placement=replace(cut, blocks=len(counts)), counts=counts, needs=needs) if counts else None
