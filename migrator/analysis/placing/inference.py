"""What the op tables tell of a call: its values put as they know arguments, and their result as a value again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import libcst as cst

from migrator.analysis import shortened
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.libraries import runtime
from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Op, OpCall
from migrator.analysis.placement import Partial, Placement, Replicated, Shape, Unknown
from migrator.analysis.placing import ragged, ranks, shapes
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.results import RESULTS
from migrator.analysis.placing.views import View, as_it_is
from migrator.analysis.values import Container, Data, External, Made, Repair, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def infer(run: Run, row: Op | None, args: Arguments, made: Arguments | None, view: View) -> Arg:
    """The result of the op, where its arguments' data stand as the view says."""
    if row is None:
        return Arg(Unknown(ranks.UNKNOWN))
    if args.rest is not v.NOTHING:
        return Arg(Unknown("not all of its arguments are seen"))
    if ragged.counts_values(row):
        view = partial(ragged.unevenly, view)
    call = _call(run, args, view)
    call.made = _call(run, made, as_it_is) if made is not None else None
    return RESULTS.of(row, call)


def as_value(run: Run, op: Operation, arg: Arg, needs: frozenset[Repair], *, whole: bool = False) -> Value:
    """The result of the operation as a value, which holds only once the `needs` are met."""
    if arg.items is not None:
        run.lists.add(op.node)
        return v.of(Tuple(tuple(as_value(run, op, item, needs, whole=whole) for item in arg.items)))
    if arg.many and not op.symbolic:
        return list_of(run, op.node, as_value(run, op, replace(arg, many=False), needs, whole=whole))
    is_whole = whole and isinstance(arg.placement, Replicated)
    constant = arg.constant if isinstance(arg.constant, (int, float, str)) else NOT_CONSTANT
    return Value(
        Data(
            arg.placement,
            constant,
            arg.rank,
            is_whole,
            arg.many,
            op.symbolic,
            arg.least,
            arg.width,
            arg.masked,
            needs,
            rows=None if is_whole else arg.rows,
            integral=arg.integral,
            mask=arg.dtype == "bool",
            shape=arg.shape,
            first=arg.first,
        )
    )


def list_of(run: Run, node: cst.CSTNode, item: Value) -> Value:
    """A list of so many of these as nobody has counted, which is another one of a worker's rows than of all."""
    made = Container("list", Site(node, (hash(item.data),)))
    run.heap.store(made, None, item)
    run.lists.add(node)
    return v.of(made)


def _call(run: Run, args: Arguments, view: View) -> OpCall:
    return OpCall(
        [_arg(run, x, view) for x in args.positional],
        {name: _arg(run, x, view) for name, x in args.keywords.items()},
    )


def _arg(run: Run, value: Value, view: View) -> Arg:
    if value.data is not None and not value.objects:
        return _arg_of_data(run, value.data, view)
    items = run.objects.sequence_items(value)
    if items is not None:
        is_batch = len(items) in run.batch_sizes
        return Arg(items=tuple(_arg(run, item, view) for item in items), as_batch=is_batch)
    only = value.only
    if isinstance(only, External):
        return Arg(constant=only.path.rpartition(".")[2] if _is_dtype(only.path) else only.path)
    if isinstance(only, Made) and only.path.startswith(("keras.losses.", "keras.layers.", "keras.regularizers.")):
        return Arg(constant=only.path)
    data = list(run.objects.leaves(value))
    if not data:
        return Arg()
    many = any(isinstance(o, Container) for o in value)
    placements = list(dict.fromkeys(view(d) for d in data))
    placement = placements[0] if len(placements) == 1 else _joined(data, view)
    constant = _constant(data[0]) if len(data) == 1 and not many else NOT_CONSTANT
    rows = next((d.rows for d in data if d.is_replicated and not d.whole), None) if len(data) == 1 else None
    least, masked = min(d.axes for d in data), any(d.masked for d in data)
    return Arg(
        placement,
        constant,
        None if many and _holds_lists(run, value) else _only(d.rank for d in data),
        many=many,
        least=least,
        width=_only(d.size_of_last for d in data),
        dtype="bool" if all(d.mask for d in data) else None,
        masked=masked,
        rows=rows,
        as_batch=rows in run.batch_sizes,
        integral=all(d.integral for d in data) and not many,
        positive=all(d.is_positive for d in data),
        from_zero=isinstance(only, Container) and shortened.begins_at_zero(run, only),
    )


def _arg_of_data(run: Run, data: Data, view: View) -> Arg:
    has_first_axis = isinstance(data.placement, (Replicated, Partial))
    rows = data.rows if has_first_axis and (not data.whole or data.rows == 1) else None
    return Arg(
        view(data),
        _constant(data),
        data.rank,
        least=data.axes,
        width=data.size_of_last,
        dtype="bool" if data.mask else None,
        masked=data.masked,
        rows=rows,
        as_batch=rows in run.batch_sizes,
        integral=data.integral,
        positive=data.is_positive,
        shape=(data.rows,) if isinstance(data.placement, Shape) else None,
        sample=shapes.of_a_row(data),
        first=data.first,
        choices=data.choices,
        listed=data.listed,
    )


def _holds_lists(run: Run, value: Value) -> bool:
    """Whether an item of a list may be a list itself: an array of that has more axes than its numbers tell."""
    return any(run.objects.container_item(o, v.NUMBER).objects for o in value if isinstance(o, Container))


def _constant(data: Data) -> Any:
    constant = data.constant
    if constant == runtime.SIZE:
        return NOT_CONSTANT
    return slice(constant.lower, constant.upper, constant.step) if isinstance(constant, v.Slice) else constant


def _only(sizes: Iterable[int | None]) -> int | None:
    found = set(sizes)
    return found.pop() if len(found) == 1 else None


def _joined(data: Sequence[Data], view: View) -> Placement:
    joined = Data(view(data[0]))
    for d in data[1:]:
        joined = v.join_data(joined, Data(view(d)))
    return joined.placement


def _is_dtype(path: str) -> bool:
    return path.startswith(("tensorflow.", "numpy.")) and path.rpartition(".")[2].rstrip("0123456789_") in (
        "float", "int", "uint", "bool", "complex", "string", "bfloat", "half", "double", "str",
    )  # fmt: skip
