"""The sizes of arrays, as far as they are written in the script: of so many values each row of a batch has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.ops.elementwise import Cast, Elementwise
from migrator.analysis.ops.making import Same, Stacked
from migrator.analysis.ops.making import Sizes as TellsSizes
from migrator.analysis.ops.moving import ExpandDims, Permutes
from migrator.analysis.ops.picking import GetItem
from migrator.analysis.placement import Sharded
from migrator.analysis.placing.operation import Operation
from migrator.analysis.values import Data, Slice, Value
from migrator.records import replace

Sizes = tuple["int | None", ...]


def of_a_row(data: Data) -> int | None:
    """How many values each row has."""
    sizes = data.sizes
    known = [size for size in sizes[1:] if size is not None] if sizes else []
    return math.prod(known) if sizes and len(known) == len(sizes) - 1 else None


def told(data: Data) -> Sizes:
    """The last of the sizes of its rows, as far as they are known; never how many rows there are."""
    if data.is_replicated and data.rows == 1 and data.rank:
        return (1, *[None] * (data.rank - 1))  # of a batch of one, the size of which is no other on any worker
    if not isinstance(data.placement, Sharded) or data.placement.axis or data.nested or data.ragged:
        return ()
    sizes = data.sizes
    rest = sizes[1:] if sizes else ()
    if rest and rest[-1] is not None:
        return rest
    return (*rest[:-1], data.width) if data.width is not None and data.axes > 1 else rest


def size_at(data: Data, index: Any) -> Any:
    """The size that the shape of a batch has at this place, where it is known."""
    rank, is_number = data.rows, isinstance(index, int) and not isinstance(index, bool)
    if not is_number or (index >= 0 and rank is None):
        return NOT_CONSTANT
    place = index if index < 0 else index - (rank or 0)
    size = data.tells[place] if -len(data.tells) <= place < 0 else None
    return NOT_CONSTANT if size is None else size


def kept(op: Operation, result: Value) -> Value:
    """The result with the sizes that it has of what it is made of."""
    data = result.data
    if data is None or result.objects or op.row is None or data.shape is not None:
        return result
    given = op.args.positional[0].data if op.args.positional and not op.args.positional[0].objects else None
    if given is not None and op.row.kind == TellsSizes("shape"):
        return Value(replace(data, tells=told(given)))
    if given is not None and given.tells and isinstance(op.row.kind, GetItem) and data.is_replicated and data.rank == 0:
        index = op.args.positional[1].constant if len(op.args.positional) > 1 else NOT_CONSTANT
        return Value(replace(data, constant=size_at(given, index)))
    shape = _shape(op)
    if shape is None:
        return result
    rows = shape[0] if shape and data.is_replicated and not data.whole else None
    return Value(replace(data, shape=shape, rank=len(shape), rows=data.rows if rows is None else rows))


def _shape(op: Operation) -> Sizes | None:
    kind = op.row.kind if op.row is not None else None
    # What stands behind the operands, as the `tf.float32` of `tf.cast`, is no array.
    arity = kind.arity if isinstance(kind, Elementwise) else 1
    operands = op.args.positional[:arity]
    if len(operands) < arity or any(value.objects for value in operands):
        return None
    given = [None if value.objects else value.data for value in op.args.positional]
    first = given[0] if given else None
    sizes = first.sizes if first is not None else None
    if isinstance(kind, Elementwise):
        several = [d for d in given[:arity] if d is not None and d.rank != 0]
        return several[0].sizes if len(several) == 1 else None
    if sizes is None or len(sizes) == 0:
        return None
    if isinstance(kind, (Cast, Same, Stacked)):
        return sizes
    by = op.args.get("axis", 1) if isinstance(kind, ExpandDims) else given[1] if len(given) > 1 else None
    if isinstance(kind, ExpandDims):
        axis = by.constant if isinstance(by, Value) else None
        if not isinstance(axis, int):
            return None
        place = axis + len(sizes) + 1 if axis < 0 else axis
        return (*sizes[:place], 1, *sizes[place:])
    if kind == Permutes():
        order = _order(op, len(sizes))
        return tuple(sizes[axis] for axis in order) if order is not None else None
    if isinstance(kind, GetItem) and isinstance(by, Data) and (isinstance(by.constant, Slice) or by.rank == 1):
        return (None, *sizes[1:])  # some of the rows
    return None


def _order(op: Operation, rank: int) -> Sequence[int] | None:
    """That of the axes in what is transposed; None where it is not seen."""
    asked = next((value for name in ("perm", "axes") if (value := op.args.get(name, 1)) is not None), None)
    if asked is None or asked.is_none:
        return range(rank)[::-1]
    order = asked.constant
    return [axis % rank for axis in order] if isinstance(order, (list, tuple)) and len(order) == rank else None
