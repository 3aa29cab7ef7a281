"""What else is known of an op's result than where it stands: its width, whether it is a mask, and of which rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import row_counts
from migrator.analysis.ops.elementwise import Cast, Elementwise
from migrator.analysis.ops.making import Same, Sizes, Stacked
from migrator.analysis.ops.moving import GetItem, Splits
from migrator.analysis.placement import ROWS, Partial
from migrator.analysis.placing import ragged, shapes
from migrator.analysis.placing.operation import Operation
from migrator.analysis.values import Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_MASKS = frozenset({"operator.invert", "operator.and_", "operator.or_", "operator.xor"})
_MULTIPLYING = ("product", "quotient")
_KEEPING_COUNTS = (Sizes, Cast, GetItem, Splits, Same, Stacked)


def kept(run: Run, op: Operation, result: Value) -> Value:
    """The result with what it keeps of that which is known of the arguments."""
    result = _widened(op, _masking(op, result))
    result = shapes.kept(op, result)
    result = _multiplied(op, _counting(op, ragged.kept(op, result)))
    if op.path.endswith(".tolist") and result.data is not None:
        result = Value(replace(result.data, listed=True), result.objects)
    items = run.objects.sequence_items(op.args.positional[0]) if op.args.positional else None
    return row_counts.kept(op.row, op.leaves, items, result)


def _masking(op: Operation, result: Value) -> Value:
    """What is made of masks alone by `~`, `&`, `|` and `^`, which are also the operators of whole numbers."""
    if op.path not in _OF_MASKS or result.data is None or result.objects:
        return result
    is_mask = all(x.data is not None and x.data.mask and not x.objects for _, x in op.args.all())
    return Value(replace(result.data, mask=True)) if is_mask else result


def _widened(op: Operation, result: Value) -> Value:
    """The result of an elementwise op with the width of its operands: one of more than one decides."""
    if op.row is None or not isinstance(op.row.kind, Elementwise) or result.data is None:
        return result
    widths = {x.data.width for _, x in op.args.all() if x.data is not None and x.data.width is not None}
    known = widths - {1} if len(widths) > 1 else widths
    several = [x for _, x in op.args.all() if x.data is not None and x.data.rank != 0]
    if len(known) != 1 or (known == {1} and len(several) > 1):
        return result
    return Value(replace(result.data, width=known.pop()), result.objects)


def _counting(op: Operation, result: Value) -> Value:
    """The result, where it may be another number than that of the rows: twice as many, say."""
    data = result.data
    if data is None or data.placement != ROWS:
        return result
    kept = op.row is not None and isinstance(op.row.kind, _KEEPING_COUNTS)
    if op.row is not None and op.row.kind == Sizes("size"):
        kept = all(d.rank == 1 for d in op.leaves)
    if kept and not any(d.several or row_counts.blocks(d) > 1 for d in op.leaves):
        return result
    return Value(replace(data, several=True), result.objects)


def _multiplied(op: Operation, result: Value) -> Value:
    """The result with the whole numbers, such as that of the rows, of which it is a rounded multiple."""
    data = result.data
    if data is None or result.objects or data.integral or data.placement not in (ROWS, Partial("sum")):
        return result
    found: set[cst.BaseExpression] = set()
    multiplies = op.row is not None and isinstance(op.row.kind, Elementwise) and op.row.kind.law in _MULTIPLYING
    for node, value in op.args.all():
        given = value.data
        if given is not None and given.placement == data.placement:
            is_whole = multiplies and given.integral and node is not None
            found |= {node} if is_whole and node is not None else given.multiple_of
    return Value(replace(data, multiple_of=frozenset(found))) if found else result
