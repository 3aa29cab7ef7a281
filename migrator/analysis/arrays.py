"""`array[rows] = values`: what a worker's part of a batch puts into an array in place, all workers have to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import in_place
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Partial
from migrator.analysis.values import NOTHING, Container, Data, External, Method, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# What NumPy's functions call the array that they fill, which they are given first.
_FILLED = ("dst", "arr", "a")


def store(run: Run, array: Data, index: Value, value: Value, target: cst.Subscript, frame: Frame) -> None:
    """Has the name, or the attribute, of the array hold what it holds from here on."""
    where, what = list(run.objects.leaves(index)), list(run.objects.leaves(value))
    if all(d.is_replicated for d in where) and all(isinstance(d.placement, Partial) for d in what):
        needs = array.needs.union(*(d.needs for d in (*where, *what)))
        numbers = (Value(replace(d, constant=NOT_CONSTANT, needs=needs)) for d in what)
        hold(run, target.value, v.join_all([Value(array), *numbers]), frame)
    else:
        _put(run, target.value, array, _as_arguments(run, target, index, value), target, frame)


def fill(run: Run, call: cst.Call, frame: Frame) -> None:
    """`np.add.at(counts, labels, 1)`, `counts.fill(n)`, `np.add(counts, n, out=counts)`: a call that is a statement is
    there for what it does to an array: the one that it is given first, or is a method of, or told to put it into."""
    function = run.seen.get(call.func, NOTHING)
    only = function.only
    if not isinstance(only, (External, Method)):
        return
    args = run.calls.arguments(call, frame)
    out = in_place.taken_out(function, args)
    if out is not None:
        place = out[0]
    elif not in_place.may_change(only):
        return
    elif isinstance(only, Method):
        place = call.func.value if isinstance(call.func, cst.Attribute) else None
    else:
        place = next((args.nodes[key] for key in (0, *_FILLED) if key in args.nodes), None)
    array = run.seen.get(place, NOTHING) if place is not None else NOTHING
    if place is not None and array.data is not None and not array.objects and array.data.is_replicated:
        given = [(node, value) for node, value in args.all() if node is not place]
        nodes: dict[int | str, cst.BaseExpression] = {i: n for i, (n, _) in enumerate(given) if n is not None}
        _put(run, place, array.data, Arguments([value for _, value in given], nodes=nodes), call, frame)


def augment(run: Run, node: cst.AugAssign, before: Value, after: Value, frame: Frame) -> None:
    """`target *= rate`, of an array that a function is given: the caller's is changed with it."""
    array = before.data
    if not isinstance(node.target, cst.Name) or array is None or before.objects or array.rank == 0:
        return
    known = (array.placement, array.needs)
    # What a list holds may be known to be changed from the last time that the program was run.
    is_changed = array.is_replicated and bool(array.needs)
    is_changed = is_changed or any((d.placement, d.needs) != known for d in run.objects.leaves(after))
    if array.constant is NOT_CONSTANT and is_changed:
        _note_filled(node.target.value, v.join(before, after), frame)
        _hold_elsewhere(run, node.target, v.join(before, after), frame)


def hold(run: Run, place: cst.BaseExpression, stored: Value, frame: Frame) -> None:
    """Has what is written there, or is a view of an array, hold what was put into it."""
    place = _place_of(run, place)
    if isinstance(place, cst.Name):
        run.bindings.change(place.value, stored, frame)
        _note_filled(place.value, stored, frame)
        _hold_elsewhere(run, place, stored, frame)
    elif isinstance(place, cst.Attribute):
        run.statements.bind(place, stored, frame)
    else:
        _hold_in_parts(run, place, stored, frame)


def _hold_elsewhere(run: Run, name: cst.Name, stored: Value, frame: Frame) -> None:
    """The same of other names that the array has, and of those among which a loop has found it."""
    last = name
    for last in in_place.seen_through(run, name):
        if last.value != name.value:
            run.bindings.change(last.value, stored, frame)
            _note_filled(last.value, stored, frame)
    for owner in run.tree.ancestors(last):
        if isinstance(owner, cst.For) and any(n.value == last.value for n in run.tree.names_in(owner.target)):
            _hold_in_parts(run, owner.iter, stored, frame)


def _hold_in_parts(run: Run, place: cst.BaseExpression, stored: Value, frame: Frame) -> None:
    """What is written there is one of several arrays, which are all taken to hold it: `f if slow else g`, `[f, g]`,
    `part(f)`. What is left of a starred parameter is one that a caller has given."""
    for name in run.tree.names_in(place):
        held = run.seen.get(name)
        if held is None or not run.tree.is_read(name):
            continue
        for atom in held.objects:
            if isinstance(atom, Container) and atom.kind == "list":
                run.heap.store(atom, None, stored)
        is_array = held.data is not None and not held.objects and held.data.is_replicated and held.data.rank != 0
        if held.objects or is_array:
            _note_filled(name.value, stored, frame)
        if is_array and held.constant is NOT_CONSTANT:
            run.bindings.change(name.value, v.join(held, stored), frame)


def _note_filled(name: str, stored: Value, frame: Frame) -> None:
    if frame.scope.lookup(name) is frame.scope and isinstance(frame.scope.node, (cst.FunctionDef, cst.Lambda)):
        frame.filled[name] = stored


def _put(run: Run, place: cst.BaseExpression, array: Data, given: Arguments, node: cst.CSTNode, frame: Frame) -> None:
    """Has the array hold what all workers together have of what is given."""
    data = [d for x in given.positional for d in run.objects.leaves(x)]
    if all(d.is_replicated and not d.needs for d in data):
        return
    needs = array.needs.union(*(d.needs for d in data))
    if not all(d.is_replicated for d in data):
        needs |= {run.placing.repairing.put_together(given, node)}
    hold(run, place, Value(replace(array, constant=NOT_CONSTANT, needs=needs)), frame)


def _place_of(run: Run, node: cst.BaseExpression) -> cst.BaseExpression:
    """The name, or attribute, of the array of which this is a part or a view: `rows.flat`, `rows[0]`."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        owner = run.seen.get(node.value)
        if owner is None or owner.data is None or owner.objects:
            break
        node = node.value
    return node


def _as_arguments(run: Run, target: cst.Subscript, index: Value, value: Value) -> Arguments:
    """Index and value, with the expressions that they are."""
    found = Arguments([index, value])
    assigned = run.tree.parent.get(run.tree.parent.get(target, target))
    if isinstance(assigned, cst.Assign) and len(assigned.targets) == 1:
        found.nodes[1] = assigned.value
    if len(target.slice) == 1 and isinstance(target.slice[0].slice, cst.Index):
        found.nodes[0] = target.slice[0].slice.value
    return found
