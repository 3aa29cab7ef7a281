"""Rows that are changed in place: row by row, or by their place in the batch.

A worker may change its part of a batch where each row is changed by itself. Where positions, or an order, among all
rows decide, the array has to hold all of them before: it is put together where it is made, so that whatever else is
another name, or a view, of it holds the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.ops.call import NOT_CONSTANT, Op
from migrator.analysis.ops.elementwise import Cast, Elementwise
from migrator.analysis.ops.making import Draws, Like, Makes, Same, Stacked
from migrator.analysis.ops.moving import Joins, Repeat, Tile
from migrator.analysis.ops.picking import OneHot
from migrator.analysis.ops.reducing import Reduces
from migrator.analysis.placement import ROWS, Local, Shape, Sharded, Unknown, options
from migrator.analysis.values import Data, External, Made, Method, Operand, Repair, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.calls import Arguments
    from migrator.analysis.run import Run

_WHY = "rows of the batch are changed in place by their position"
_BLOCKED = "make a new array of them right before, as in `rows = np.array(rows)`: all rows are put together there"
_WHY_GIVEN = "this function changes an array that it is given by what a worker has of the batch"
_UNNAMED = "give the array under its name, so that it is seen which one it is"
# These make a new array of their first operand; so do all ops of these kinds, unless they are told where to put it.
_COPIES = frozenset({"numpy", "copy", "astype", "array", "tolist"})
_MAKES_NEW = (Elementwise, Cast, Makes, Like, Draws, Joins, OneHot, Repeat, Tile, Reduces)
_KEEPS_OLD = frozenset({"copy", "out", "where"})
_HARMLESS = ("numpy.save", "numpy.testing.", "numpy.set_", "numpy.seterr", "numpy.random.seed")
# What arrays and lists are changed by; of what is not seen to be one of these, other methods are its own.
_CHANGES = frozenset({
    "fill", "sort", "partition", "put", "itemset", "resize", "byteswap", "setfield", "reverse", "insert", "append",
    "extend", "remove", "__setitem__", "__delitem__",
})  # fmt: skip
_VARIABLE = "tensorflow.Variable"
_DEEPEST = 12


# -- items ------------------------------------------------------------------------------------------------------------


def store_rows(run: Run, array: Data, index: Value, value: Value, target: cst.Subscript) -> bool:
    """`array[index] = value`, where the array is a worker's part of the batch. False where it is none, or the change
    is to be followed as that of any other array."""
    if isinstance(index.constant, str):  # a column
        return all(_is_alike(d, array) and not d.needs for d in run.objects.leaves(value))
    if isinstance(array.placement, Local):
        return False
    if not any(isinstance(p, Sharded) for p in options(array.placement)):
        if _is_part_of_rows(run, target.value) or (_has_sizes(array) and not _keeps_sizes(array, index, value)):
            _change(run, target, target.value)
        return False
    if array.nested and isinstance(index.constant, int):  # of a tuple of batches, or of a list of them
        array = replace(array, nested=False)
    if not _is_row_by_row(run, array, index, value, target):
        _change(run, target, target.value)
    return True


def delete(run: Run, owner: Value, target: cst.Subscript) -> None:
    """`del rows[0]`"""
    if owner.data is not None and not owner.data.nested and isinstance(owner.data.placement, (Sharded, Shape)):
        _change(run, target, target.value)


def _has_sizes(data: Data) -> bool:
    return any(isinstance(p, Shape) for p in options(data.placement))


def _keeps_sizes(sizes: Data, index: Value, value: Value) -> bool:
    """Whether the number of rows stays where it is among the sizes of a worker's part: another size is set."""
    cut, at = sizes.placement, index.constant
    others = isinstance(cut, Shape) and isinstance(at, int) and at >= 0 and at != cut.axis
    return others and value.data is not None and not value.objects and value.data.is_replicated


def _is_row_by_row(run: Run, array: Data, index: Value, value: Value, target: cst.Subscript | None) -> bool:
    entries = index.only.items if isinstance(index.only, Tuple) else (index,)
    first = entries[0] if entries else index
    own = _own_places(run, target) if target is not None and len(entries) > 1 else False
    given = [d for x in (*entries[own:], value) for d in run.objects.leaves(x)]
    if any(d.whole or isinstance(d.placement, (Unknown, Local)) for d in given):
        return False
    if _is_mask(first, array) or own:
        others = [d for x in entries[1:] for d in run.objects.leaves(x)]
        if not own and not all(d.is_replicated for d in others):
            return False
        fits = all(d.is_replicated or _is_alike(d, array) for d in others)
        # Values for the rows that are marked come in these rows' order.
        return fits and all(_is_number(d) or _is_alike(d, array) for d in run.objects.leaves(value))
    if any(not d.is_replicated for d in run.objects.leaves(index)):
        return False
    places = run.placing.inferred("operator.getitem", Value(array), index)
    if len(places) != 1 or not isinstance(places[0], Sharded):
        return False
    part = Value(replace(array, placement=places[0], rank=_rank_of_part(array, entries), constant=NOT_CONSTANT))
    return run.placing.inferred("operator.add", part, value) == places


def _rank_of_part(array: Data, entries: tuple[Value, ...]) -> int | None:
    """How many axes are left of the array behind the index, as far as that is seen."""
    constants = [e.constant for e in entries]
    is_seen = all(isinstance(c, (v.Slice, int)) or c is None or c is Ellipsis for c in constants)
    if array.rank is None or not is_seen:
        return None
    return array.rank - sum(isinstance(c, int) for c in constants) + sum(c is None for c in constants)


def _is_mask(index: Value, array: Data) -> bool:
    data = index.data if not index.objects else None
    return data is not None and data.mask and _is_alike(data, array)


def _is_alike(data: Data, array: Data) -> bool:
    """Whether it is rows of the batches that the array is of."""
    ours, its = array.placement, data.placement
    return (
        isinstance(ours, Sharded) and isinstance(its, Sharded) and ours.axis == its.axis == 0 and
        ours.blocks == its.blocks == 1 and ours.rows == "one"
    )  # fmt: skip


def _is_number(data: Data) -> bool:
    return data.is_replicated and (data.rank == 0 or isinstance(data.constant, (int, float, bool)))


def _own_places(run: Run, target: cst.Subscript) -> bool:
    """`table[np.arange(len(labels)), labels] = 1`: each row's own place."""
    place = target.slice[0].slice
    call = place.value if isinstance(place, cst.Index) else None
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].keyword or call.args[0].star:
        return False
    function, count = run.seen.get(call.func), run.seen.get(call.args[0].value)
    is_range = function is not None and function.only in (External("numpy.arange"), External("tensorflow.range"))
    return is_range and count is not None and count.data is not None and count.data.placement == ROWS


# -- calls ------------------------------------------------------------------------------------------------------------


def taken_out(function: Value, args: Arguments) -> tuple[cst.BaseExpression | None, Value] | None:
    """Takes what NumPy is told to put the result into out of the arguments: its place in the text, and what it is."""
    only = function.only
    if isinstance(only, External) and only.path.startswith("numpy."):
        row = ops.lookup(only.path)
        at = len(row.parameters) if row is not None and isinstance(row.kind, Elementwise) else 0
        if at and len(args.positional) == at + 1:  # as all such functions of NumPy's have it
            return args.nodes.pop(at, None), args.positional.pop()
    elif not isinstance(only, Method) or only.owner.objects:
        return None
    if "out" not in args.keywords:
        return None
    return args.nodes.pop("out", None), args.keywords.pop("out")


def note(
    run: Run,
    function: Value,
    args: Arguments,
    out: tuple[cst.BaseExpression | None, Value] | None,
    result: Value,
    node: cst.Call,
) -> None:
    """Notes which of its arguments, or its object, a call of NumPy's or of an array's changes."""
    if out is not None:
        _put_out(run, *out, result, node)
    for atom in function:  # what a list of sizes loses is used, too
        data = atom.owner.data if isinstance(atom, Method) and atom.name == "pop" else None
        if data is not None and _has_sizes(data) and isinstance(node.func, cst.Attribute):
            _change(run, node, node.func.value)
    if type(run.tree.parent.get(node)) is not cst.Expr:
        return
    for atom in function:
        if isinstance(atom, External) and atom.path.startswith(("numpy.", "random.")):
            _note_function(run, atom.path, args, node)
        elif isinstance(atom, Method):
            _note_method(run, atom, args, node)


def _put_out(run: Run, place: cst.BaseExpression | None, out: Value, result: Value, node: cst.Call) -> None:
    if _is_part_of_rows(run, place):
        _change(run, node, place)
        return
    targets, made = list(run.objects.leaves(out)), list(run.objects.leaves(result))
    if all(d.is_replicated and not d.needs for d in (*targets, *made)):
        return
    is_alike = {d.placement for d in targets} == {d.placement for d in made}
    if is_alike and not any(d.whole for d in (*targets, *made)):
        return
    if any(isinstance(d.placement, Sharded) for d in (*targets, *made)):
        _change(run, node, place)


def _note_function(run: Run, path: str, args: Arguments, node: cst.Call) -> None:
    if not args.positional or not _fills(path):
        return
    target, rest = args.positional[0], args.positional[1:]
    array = target.data
    if _is_part_of_rows(run, args.nodes.get(0)):
        _change(run, node, args.nodes.get(0))
        return
    if array is None or not _has_rows(run, target):
        return
    if path == "numpy.copyto" and len(rest) == 1 and not args.keywords:
        everything = Value(Data(constant=v.Slice(None, None, None)))
        if _is_row_by_row(run, array, everything, rest[0], None):
            return
    if path == "numpy.putmask" and len(rest) == 2 and not args.keywords:
        numbers = all(_is_number(d) for d in run.objects.leaves(rest[1]))
        if numbers and _is_row_by_row(run, array, rest[0], rest[1], None):
            return
    _change(run, node, args.nodes.get(0))


def may_change(function: External | Method) -> bool:
    """Whether it may be called for what it does to the array that it is given first, or is a method of."""
    if isinstance(function, External):
        return _fills(function.path)
    data = function.owner.data
    if data is None or function.owner.objects or data.foreign or data.nested:
        return False
    return all(ops.lookup(f"{owner}.{function.name}") is None for owner in ("tensorflow.Tensor", "numpy.ndarray"))


def _fills(path: str) -> bool:
    return path.startswith("numpy.") and not path.startswith(_HARMLESS) and ops.lookup(path) is None


def _note_method(run: Run, method: Method, args: Arguments, node: cst.Call) -> None:
    place = node.func.value if isinstance(node.func, cst.Attribute) else None
    if method.name == "shuffle" and args.positional:
        if _has_rows(run, args.positional[0]) or _is_part_of_rows(run, args.nodes.get(0)):
            _change(run, node, args.nodes.get(0))
        return
    if any(isinstance(a, Made) and a.path == _VARIABLE for a in method.owner):
        if _has_rows(run, method.owner) and "scatter" in method.name:
            _change(run, node, None)
        return
    array = method.owner.data
    if array is None or method.owner.objects or (array.nested and method.name not in _CHANGES):
        return
    if any(ops.lookup(f"{owner}.{method.name}") for owner in ("tensorflow.Tensor", "numpy.ndarray")):
        return
    if isinstance(array.placement, Shape) and method.name.startswith("assert_"):
        return
    if _is_part_of_rows(run, place):
        _change(run, node, place)
        return
    if not _has_rows(run, method.owner):
        return
    if method.name == "fill" and all(_is_number(d) for x in args.positional for d in run.objects.leaves(x)):
        return
    if method.name == "sort" and isinstance(array.placement, Sharded):
        axis = args.get("axis", 0) or v.constant(-1)
        if run.placing.inferred("numpy.sort", method.owner, axis) == [array.placement]:
            return
    _change(run, node, place)


def _has_rows(run: Run, value: Value) -> bool:
    """Whether it is an array, or a variable, of a worker's rows."""
    held = [run.heap.load(a, "content") for a in value if isinstance(a, Made) and a.path == _VARIABLE]
    if any(_has_rows(run, content) for content in held):
        return True
    data = value.data
    if data is None or data.symbolic or data.layer:
        return False
    return any(isinstance(p, (Sharded, Shape)) for p in options(data.placement))


def _is_part_of_rows(run: Run, node: cst.BaseExpression | None) -> bool:
    """Whether it is a part, or a view, of which nobody sees that a worker's rows are: `rows[0]`, `rows.flat`."""
    if not isinstance(node, (cst.Subscript, cst.Attribute, cst.Call)):
        return False
    value = run.seen.get(node)
    if value is not None and _has_rows(run, value):
        return False
    values = (run.seen.get(name) for name in _seen_through(run, node))
    return any(value is not None and _has_rows(run, value) for value in values)


# -- where all rows are put together ----------------------------------------------------------------------------------


def _change(run: Run, node: cst.CSTNode, array: cst.BaseExpression | None) -> None:
    """Notes that what the expression gives is changed as only all rows can be."""
    source = None
    if array is not None:
        names = list(_seen_through(run, array))
        if not names and not isinstance(array, cst.Name):
            return  # a new array, which nobody sees again
        source = _origin(run, array, 0)
    operands = frozenset((Operand(array, "gather"),)) if array is not None else frozenset()
    run.changed[node] = Repair(node, operands, _WHY, run.placing.repairing.blocked or _BLOCKED)
    if source is not None:
        run.lost_at[node].add(run.placing.repairing.unlisted(source))


def note_unnamed(run: Run, call: cst.CSTNode) -> None:
    """Notes that a function changes an array that it is given there, by no name that tells which one it is."""
    run.changed[call] = Repair(call, frozenset(), _WHY_GIVEN, _UNNAMED)


def _origin(run: Run, node: cst.BaseExpression, depth: int) -> cst.BaseExpression | None:
    """The expression that makes the array of which this is a name or a view, if nothing else is one before."""
    names = list(_seen_through(run, node))
    if not names:
        return node
    if len(names) > 1 or depth > _DEEPEST:
        return None
    made = last_assigned(run, names[0])
    return _origin(run, made, depth + 1) if made is not None else None


def seen_through(run: Run, name: cst.Name) -> Iterator[cst.Name]:
    """The name, and those of arrays that it surely is another name, or a view, of."""
    for _ in range(_DEEPEST):
        yield name
        made = last_assigned(run, name)
        names = list(_seen_through(run, made)) if made is not None else []
        if len(names) != 1:
            return
        name = names[0]


def last_assigned(run: Run, name: cst.Name) -> cst.BaseExpression | None:
    """What the name was given last, on all ways to this place."""
    tree = run.tree
    scope = tree.scope_of(name).lookup(name.value)
    if scope is None or scope is not tree.scope_of(name):
        return None
    bindings = scope.bindings.get(name.value, ())
    child: cst.CSTNode = name
    for owner in tree.ancestors(name):
        if isinstance(owner, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            return None
        if isinstance(owner, (cst.IndentedBlock, cst.Module, cst.SimpleStatementLine)):
            before = owner.body[: next(i for i, s in enumerate(owner.body) if s is child)]
            for statement in reversed(before):
                bound = [b for b in bindings if tree.contains(statement, b.node)]
                if bound:
                    return _given(statement, name.value, len(bound))
        elif isinstance(owner, (cst.For, cst.While)) and any(tree.contains(owner, b.node) for b in bindings):
            return None
        child = owner
    return None


def _given(statement: cst.CSTNode, name: str, bindings: int) -> cst.BaseExpression | None:
    """The value of a plain assignment to the name."""
    small = statement
    if isinstance(statement, cst.SimpleStatementLine):
        small = statement.body[0] if len(statement.body) == 1 else statement
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or bindings != 1:
        return None
    target = small.targets[0].target
    return small.value if isinstance(target, cst.Name) and target.value == name else None


def _seen_through(run: Run, node: cst.BaseExpression) -> Iterator[cst.Name]:
    """The names of arrays of which the expression may be another name, or a view."""
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, (cst.Subscript, cst.Attribute)):
        yield from _seen_through(run, node.value)
    elif isinstance(node, cst.Call):
        if not _makes_new(run, node):
            if isinstance(node.func, cst.Attribute) and not _is_function(run, node.func):
                yield from _seen_through(run, node.func.value)
            for arg in node.args:
                yield from _seen_through(run, arg.value)
    elif not isinstance(
        node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BaseNumber, cst.BaseString)
    ):
        yield from run.tree.names_in(node)


def _is_function(run: Run, func: cst.Attribute) -> bool:
    value = run.seen.get(func)
    return value is not None and isinstance(value.only, External)


def _makes_new(run: Run, call: cst.Call) -> bool:
    """Whether the call surely gives an array of its own."""
    if any(a.star or (a.keyword is not None and a.keyword.value in _KEEPS_OLD) for a in call.args):
        return False
    function = run.seen.get(call.func)
    only = function.only if function is not None else None
    if isinstance(only, External) and only.path.startswith("numpy."):
        paths = [only.path]
    elif isinstance(only, Method) and only.owner.data is not None and not only.owner.objects:
        paths = [f"tensorflow.Tensor.{only.name}", f"numpy.ndarray.{only.name}"]
    else:
        return False
    if paths[-1].rpartition(".")[2] in _COPIES:
        return True
    rows = [row for row in map(ops.lookup, paths) if row is not None]
    return bool(rows) and all(isinstance(row.kind, _MAKES_NEW) and not _may_be_old(row) for row in rows)


def _may_be_old(row: Op) -> bool:
    return isinstance(row.kind, (Same, Stacked))
