"""A worker's rows of what is made of all of them: where a function gives it back, or a name gets it that held such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.placement import Sharded
from migrator.analysis.values import Instance, Made, Operand, Repair, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.frames import Frame
    from migrator.analysis.run import Run


def given_back(run: Run, node: cst.BaseExpression, value: Value, frame: Frame) -> Value:
    """A worker's rows of what a layer makes of all; all of them where no name holds a worker's rows any more."""
    items = run.objects.sequence_items(value)
    if items is not None and isinstance(node, cst.Tuple) and len(items) == len(node.elements):
        given = [given_back(run, e.value, item, frame) for e, item in zip(node.elements, items)]
        return v.of(Tuple(tuple(given)))
    return _shard_like(run, node, value, next(_names_of_rows(run, frame), ""))


def handed_over(run: Run, node: cst.BaseExpression, value: Value, frame: Frame) -> Value:
    """A worker's rows of what is made of all, for a method of Keras's that takes such; where some name holds any."""
    items = run.objects.sequence_items(value)
    if items is not None and isinstance(node, cst.Tuple) and len(items) == len(node.elements):
        return v.of(Tuple(tuple(handed_over(run, e.value, item, frame) for e, item in zip(node.elements, items))))
    names = frame.names or {}
    rows = (name for name, held in names.items() if not _is_object(held) and _holds_rows(run, held))
    return _shard_like(run, node, value, next(rows, ""))


def renamed(run: Run, node: cst.BaseExpression, value: Value, name: str, frame: Frame) -> Value:
    """A worker's rows of what is made of all of them, for a name that has held a worker's."""
    return _shard_like(run, node, value, name if _holds_rows(run, (frame.names or {}).get(name)) else "")


def cut_again(run: Run, node: cst.CSTNode, args: Arguments, value: Value) -> Value:
    """A worker's rows of what a call makes of all of them, where a name holds the worker's that it is given: of rows
    that are rolled."""
    given = [(place.value, x) for place, x in args.all() if isinstance(place, cst.Name)]
    like = next((name for name, x in given if _holds_rows(run, x)), "")
    data = value.data
    if not isinstance(node, cst.BaseExpression) or data is None or data.symbolic or data.pairs or data.across:
        return value
    return _shard_like(run, node, value, like, least=data.least)


def _shard_like(run: Run, node: cst.BaseExpression, value: Value, like: str, least: int = 2) -> Value:
    data = value.data
    if data is None or value.objects or not data.whole or data.several or not data.needs:
        run.plain_now.sources.add(node)
        return value
    if not like or data.across:
        return value  # none of it stands where a worker's rows do
    why = "the model gives all rows of a batch, where Keras takes those of a worker"
    repair = Repair(node, frozenset((Operand(node, "shard", like),)), why, run.placing.repairing.blocked, "given back")
    run.note_repair(repair)
    return Value(replace(data, placement=Sharded(0), whole=False, least=least, needs=data.needs | {repair}))


def _names_of_rows(run: Run, frame: Frame) -> Iterator[str]:
    """The parameters that still hold a worker's rows."""
    params = frame.scope.node.params if isinstance(frame.scope.node, (cst.FunctionDef, cst.Lambda)) else None
    for param in (*params.posonly_params, *params.params) if params is not None else ():
        if _holds_rows(run, (frame.names or {}).get(param.name.value)):
            yield param.name.value


def _is_object(value: Value) -> bool:
    return any(isinstance(atom, (Instance, Made)) for atom in value)


def _holds_rows(run: Run, value: Value | None) -> bool:
    leaves = list(run.objects.leaves(value)) if value is not None else []
    return bool(leaves) and all(d.placement == Sharded(0) for d in leaves)
