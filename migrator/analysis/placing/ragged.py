"""Ragged tensors, whose samples may have unequally many values: a worker's share of these is not its share of those."""

from __future__ import annotations

from migrator.analysis import values as v
from migrator.analysis.ops.call import Op
from migrator.analysis.ops.making import Sizes
from migrator.analysis.ops.reducing import Average, Moments, Reduces
from migrator.analysis.ops.sampling import PerSample
from migrator.analysis.placement import Placement, Sharded
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.ranks import TAKES_FEATURES
from migrator.analysis.placing.views import View
from migrator.analysis.values import Data, Value
from migrator.records import replace

# Attributes: as many rows as a worker's samples have values, and where these stand among all.
VALUES = frozenset({"values", "flat_values"})
STRUCTURE = frozenset({"indices", "row_splits", "nested_row_splits", "dense_shape"})


def counts_values(row: Op | None) -> bool:
    """Whether it counts on so many values a sample, if it works along the samples."""
    kind = row.kind if row is not None else None
    return isinstance(kind, (Reduces, Moments, Average)) or (isinstance(kind, Sizes) and kind.what == "size")


def unevenly(view: View, data: Data) -> Placement:
    """A worker's share of the values is not its share of the samples, where these may have unequally many."""
    cut = view(data)
    return replace(cut, rows="ragged") if data.ragged and isinstance(cut, Sharded) else cut


def kept(op: Operation, result: Value) -> Value:
    """The result, which may be ragged where that is made of which it is: not of what has one number for each sample,
    nor of what layers and losses give, which take no ragged tensors, or make dense ones of them."""
    row = op.row
    if row is None or isinstance(row.kind, PerSample) or op.path.startswith(TAKES_FEATURES):
        return result
    if not any(d.ragged for d in op.leaves):
        return result

    def ragged(data: Data) -> Data:
        cut = data.placement
        if isinstance(cut, Sharded) and counts_values(row) and cut.rows == "ragged":
            cut = replace(cut, rows="one")  # it was not reduced along the samples
        return replace(data, placement=cut, ragged=isinstance(cut, Sharded))

    return v.mapped(result, ragged)
