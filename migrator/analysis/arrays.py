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
from migrator.analysis.records import replace
from migrator.analysis.values import Data, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def store(run: Run, array: Data, index: Value, value: Value, target: cst.Subscript, frame: Frame) -> None:
    """Has the name, or the attribute, of the array hold what it holds from here on."""
    where, what = list(run.objects.leaves(index)), list(run.objects.leaves(value))
    if all(d.is_replicated and not d.needs for d in (*where, *what)):
        return
    needs = array.needs.union(*(d.needs for d in (*where, *what)))
    if all(d.is_replicated for d in (*where, *what)):  # it is put together already
        stored = Value(replace(array, constant=NOT_CONSTANT, needs=needs))
    elif all(d.is_replicated for d in where) and all(isinstance(d.placement, Partial) for d in what):
        numbers = (Value(replace(d, constant=NOT_CONSTANT, needs=needs)) for d in what)
        stored = v.join_all([Value(array), *numbers])
    else:
        repair = run.placing.repairing.put_together(_as_arguments(run, target, index, value), target)
        stored = Value(replace(array, constant=NOT_CONSTANT, needs=needs | {repair}))
    place = _place_of(run, target.value)
    if isinstance(place, cst.Name):
        for name in {name.value for name in in_place.seen_through(run, place)}:
            run.change(name, stored, frame)
    elif isinstance(place, cst.Attribute):
        run.statements.bind(place, stored, frame)


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
