"""What else is known of an op's result than where it stands: its width, whether it is a mask, and of which rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import lookups, row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.ops.contracting import MatrixProduct
from migrator.analysis.ops.elementwise import Cast, Elementwise
from migrator.analysis.ops.making import Same, Sizes, Stacked
from migrator.analysis.ops.moving import ExpandDims, Joins, Splits
from migrator.analysis.ops.picking import GetItem
from migrator.analysis.placement import ROWS, Partial, Sharded
from migrator.analysis.placing import ragged, shapes
from migrator.analysis.placing.inference import infer
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.views import as_batch
from migrator.analysis.values import Data, Tuple, Value
from migrator.facts.program.syntax import dotted, imported_modules
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_MASKS = frozenset({"operator.invert", "operator.and_", "operator.or_", "operator.xor"})
_MAKING = frozenset({"numpy.array", "numpy.asarray"})
_PADDING = frozenset({"tensorflow", "keras", "numpy"})
_MULTIPLYING = ("product", "quotient")
_TELLING_WIDTHS = (Elementwise, MatrixProduct, ExpandDims, GetItem)
_KEEPING_COUNTS = (Sizes, Cast, GetItem, Splits, Same, Stacked)


def kept(run: Run, op: Operation, result: Value) -> Value:
    """The result with what it keeps of that which is known of the arguments."""
    result = _widened(run, op, _masking(op, result))
    result = shapes.kept(op, result)
    result = _multiplied(op, _counting(op, ragged.kept(op, result)))
    if op.path.endswith(".tolist") and result.data is not None:
        result = Value(replace(result.data, listed=True), result.objects)
    result = _mixed(op, _written(run, op, result))
    items = run.objects.sequence_items(op.args.positional[0]) if op.args.positional else None
    result = same_batch.kept(op.row, op.leaves, row_counts.kept(op.row, op.leaves, items, result))
    return lookups.kept(run, op, _as_many(run, op, _prepared(run, op, result)))


def _as_many(run: Run, op: Operation, result: Value) -> Value:
    """What all workers have keeps its number of rows through all that works row by row. As many as a batch has do not
    fit beside a worker's part of that."""
    data = result.data
    if op.whole or op.row is None or data is None or result.objects or not data.is_replicated or data.rows is not None:
        return result
    sizes = {d.rows for d in op.leaves if d.is_replicated} - {None}
    if len(sizes) != 1:
        return result
    (size,) = sizes
    made = infer(run, op.row, op.args, op.made, lambda d: Sharded(0) if d.rows == size else d.placement)
    return Value(replace(data, rows=size)) if made.placement == Sharded(0) else result


def _prepared(run: Run, op: Operation, result: Value) -> Value:
    """What a function that prepares the batches of a dataset makes, of the same one where it has a row for each row of
    that: it is dealt out behind the function, and so unlike where it has several."""
    data = result.data
    if op.whole or op.row is None or data is None or result.objects or not data.is_replicated:
        return result
    if not any(d.batch for d in op.leaves):
        return result
    if infer(run, op.row, op.args, op.made, as_batch).placement != Sharded(0):
        return result
    given = [replace(d, placement=as_batch(d)) for d in op.leaves]
    return Value(replace(data, batch=same_batch.of_one(given, aligned=not isinstance(op.row.kind, Joins))))


def _written(run: Run, op: Operation, result: Value) -> Value:
    """The result with the whole numbers that its first row is written as, of an array that only tells paddings."""
    data = result.data
    if op.path not in _MAKING or data is None or result.objects or not data.is_replicated or not op.args.positional:
        return result
    rows = run.objects.sequence_items(op.args.positional[0])
    first = run.objects.sequence_items(rows[0]) if rows else None
    numbers = [each.constant for each in first or ()]
    if not numbers or not all(isinstance(n, int) for n in numbers) or not _is_padding(run, op.node):
        return result
    return Value(replace(data, first=tuple(numbers)))


def _is_padding(run: Run, node: cst.CSTNode) -> bool:
    """Whether the array has no name, or one that it alone has, and which nothing reads but what pads by it."""
    parent = run.tree.parent.get(node)
    if not isinstance(parent, cst.Assign):
        return _pads_by(run, node)
    target = parent.targets[0].target
    if len(parent.targets) != 1 or not isinstance(target, cst.Name):
        return False
    names = [name for name in run.tree.names.get(target.value, ()) if name is not target]
    return all(_pads_by(run, name) for name in names)


def _pads_by(run: Run, node: cst.CSTNode) -> bool:
    """Whether it is what `tf.pad` is given, by which arrays are padded, and which changes none."""
    argument = run.tree.parent.get(node)
    call = run.tree.parent.get(argument) if isinstance(argument, cst.Arg) and argument.value is node else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or call.func.attr.value != "pad":
        return False
    owner = dotted(call.func).partition(".")[0]
    scope = run.tree.scope_of(call).lookup(owner) if owner else None
    bindings = scope.bindings[owner] if scope is not None else []
    imports = [b.node for b in bindings if isinstance(b.node, (cst.Import, cst.ImportFrom))]
    modules = [name.partition(".")[0] for each in imports for name in imported_modules(each)]
    return bool(modules) and len(imports) == len(bindings) and set(modules) <= _PADDING


def _masking(op: Operation, result: Value) -> Value:
    """What is made of masks alone by `~`, `&`, `|` and `^`, which are also the operators of whole numbers."""
    if op.path not in _OF_MASKS or result.data is None or result.objects:
        return result
    is_mask = all(x.data is not None and x.data.mask and not x.objects for _, x in op.args.all())
    return Value(replace(result.data, mask=True)) if is_mask else result


def _widened(run: Run, op: Operation, result: Value) -> Value:
    """The result with the size of its last axis, where what it is made of tells it."""
    if result.data is None or op.row is None or not isinstance(op.row.kind, _TELLING_WIDTHS):
        return result
    kind, given = op.row.kind, [d for _, x in op.args.all() for d in run.objects.leaves(x)]
    width = None
    if isinstance(kind, Elementwise):
        width = _common_width(given)
    elif isinstance(kind, MatrixProduct) and len(given) == 2 and not op.args.keywords:
        width = given[1].size_of_last if given[1].axes > 1 else None
    elif isinstance(kind, ExpandDims) and any(d.constant == -1 for d in given[1:]):
        width = 1
    elif isinstance(kind, GetItem) and len(op.args.positional) > 1:
        width = 1 if _adds_a_last_axis(op.args.positional) else None
    return result if width is None else Value(replace(result.data, width=width), result.objects)


def _adds_a_last_axis(given: Sequence[Value]) -> bool:
    """Whether `x[index]` is one such as `y[:, None]` of a vector, or `y[..., None]`."""
    owner, index = given[0].data, given[1].only
    if owner is None or not isinstance(index, Tuple) or not index.items or not index.items[-1].is_none:
        return False
    axes = sum(not item.is_none for item in index.items)
    return axes == owner.rank or any(item.constant is Ellipsis for item in index.items)


def _common_width(given: Sequence[Data]) -> int | None:
    """That of values that are broadcast: one of more than one decides, and else it is one if each has that."""
    widths = {d.size_of_last for d in given if d.rank != 0}
    known = widths - {1, None}
    return known.pop() if len(known) == 1 else 1 if widths == {1} else None


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


def _mixed(op: Operation, result: Value) -> Value:
    """The result, where all that makes it a worker's is the same on all workers on another way; or one of the terms or
    parts which are added up, or stand one behind the other, in it."""
    parts = [d for d in op.leaves if not d.is_replicated]
    is_sum = all(isinstance(d.placement, Partial) for d in parts) or (op.row and isinstance(op.row.kind, Joins))
    if not parts or not (any if is_sum else all)(d.mixed for d in parts):
        return result
    return v.mapped(result, lambda d: d if d.is_replicated else replace(d, mixed=True))


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
