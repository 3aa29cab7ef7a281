"""Numbers and text that are made of values: `float`, `int`, `round`, `sum`, `str`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Partial, Scaled, Sharded
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, External, Made, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Methods of a text that give another one.
GIVING_TEXTS = frozenset({
    "format", "format_map", "join", "lower", "upper", "title", "capitalize", "casefold", "swapcase", "strip", "lstrip",
    "rstrip", "replace", "removeprefix", "removesuffix", "zfill", "ljust", "rjust", "center",
})  # fmt: skip


def _cast_to(path: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`np.float32(x)`"""
        if len(args.positional) != 1 or args.keywords or args.rest is not NOTHING:
            return run.placing.unknown(args, node)
        given = Arguments([args.positional[0], v.of(External(path))], nodes=args.nodes)
        return run.placing.op("numpy.ndarray.astype", given, node)

    return handler


def _sum(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`sum(…)` of a list is that of its terms; of an array, what the table says."""
    value = args.positional[0] if args.positional else NUMBER
    items = run.objects.sequence_items(value)
    if items:
        total = items[0]
        nodes = _element_nodes(node, len(items))
        for i, item in enumerate(items[1:], 1):
            total = run.operator("operator.add", (total, item), (nodes[0] if i == 1 else None, nodes[i]), node)
        return total
    if any(isinstance(a, (Container, Made)) for a in value):
        element = run.objects.elements(value, node, node)
        if element is NOTHING:
            return v.constant(0)
        data = element.data
        if data is not None and data.listed:  # `sum(lists, [])`
            return run.operator("operator.add", (element, element), (None, None), node)
        # As many terms as there are, each of one kind.
        return (
            Value(replace(data, constant=NOT_CONSTANT))
            if data is not None
            else run.placing.opaque([element], "a sum of this")
        )
    return run.placing.op("builtins.sum", args, node)


def _element_nodes(node: cst.CSTNode, count: int) -> Sequence[cst.CSTNode | None]:
    first = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    if isinstance(first, (cst.List, cst.Tuple)) and len(first.elements) == count:
        return [e.value for e in first.elements]
    return [None] * count


def _scalar(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`float(x)`, `int(x)`, `str(x)`: as x is."""
    value = args.positional[0] if args.positional else NUMBER
    data = value.data
    if data is None:
        if not any(isinstance(atom, Made) for atom in value):
            return NUMBER
        held = run.placing.opaque([value], "it is a number of what this holds")  # as a variable does
        return v.mapped(held, lambda d: replace(d, rank=0))
    if data.is_text:
        return Value(Data(data.placement, rank=0, needs=data.needs, behind=data.behind))
    if isinstance(data.placement, Sharded) and not data.symbolic:
        return run.placing.parts.part(replace(data, nested=False))
    return Value(replace(data, constant=NOT_CONSTANT, rank=0)) if data.constant is NOT_CONSTANT else value


def _rounded(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`int(x)`, `round(x, 2)`, `bool(x)`: linear in nothing that the workers have yet to put together."""
    data = args.positional[0].data if args.positional else None
    if data is not None and isinstance(data.placement, (Partial, Scaled)):
        # However it rounds, and to how many digits.
        return run.placing.op("builtins.int", Arguments(args.positional[:1], nodes=args.nodes), node)
    return _scalar(run, args, node, frame)


def _whole_number(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`int(x)`"""
    value = _rounded(run, args, node, frame)
    return v.mapped(value, lambda d: replace(d, integral=True) if d.is_replicated and d.rank == 0 else d)


def _text(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return run.placing.text([x for _, x in args.all()])


def _slice(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`slice(a, b)`, as `a:b` is in a subscript."""
    bounds = list(args.positional)
    if not 0 < len(bounds) <= 3 or args.keywords or args.rest is not NOTHING:
        return run.placing.unknown(args, node)
    bounds = [v.NONE, *bounds] if len(bounds) == 1 else bounds
    return run.placing.parts.slice([*bounds, v.NONE][:3])


FUNCTIONS: dict[str, Handler] = {
    "builtins.sum": _sum,
    "builtins.float": _scalar,
    "builtins.int": _whole_number,
    "builtins.bool": _rounded,
    "builtins.round": _rounded,
    "builtins.str": _text,
    "builtins.repr": _text,
    "builtins.slice": _slice,
    "builtins.format": _text,
    **{f"numpy.{name}": _cast_to(f"numpy.{name}") for name in ("float16", "float32", "float64", "int32", "int64")},
}
