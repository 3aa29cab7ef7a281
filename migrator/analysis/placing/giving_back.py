"""A worker's rows of what is made of all of them: where a function gives it back, a name gets it that held such, or a
training step is given it that is given such elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as copied
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Sharded
from migrator.analysis.values import Data, Instance, Made, Operand, Repair, Tuple, Value
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
    that are rolled. No list of batches: what is made of all of them has more rows than any has."""
    given = [(place.value, x) for place, x in args.all() if isinstance(place, cst.Name) and not x.objects]
    like = next((name for name, x in given if _holds_rows(run, x)), "")
    data = value.data
    if not isinstance(node, cst.BaseExpression) or data is None or data.symbolic or data.pairs or data.across:
        return value
    return _shard_like(run, node, value, like, least=data.least)


def dealt(run: Run, function: cst.FunctionDef | cst.Lambda, args: Arguments, call: cst.CSTNode) -> Arguments:
    """The arguments of a function, with a worker's rows of what is made of all of them where that is planned."""
    names = [param.name.value for param in (*function.params.posonly_params, *function.params.params)]
    arrays = run.given_arrays[function, call]

    def taken(key: int | str, value: Value) -> Value:
        name, node = names[key] if isinstance(key, int) and key < len(names) else key, args.nodes.get(key)
        if value.only is None and value.data is not None and value.data.placement == Sharded(0):
            run.given_rows.add((function, name))
        elif not _has_no_rows(value):
            whole = node is not None and _is_array(value)
            arrays[name] = node if whole and arrays.get(name, node) is not None else None
            if whole and value.data is not None and value.data.needs:
                run.made_of_all.add(node)
            if node is not None and node in run.plan.dealt and whole:
                return _dealt(run, node, value)
        if node in run.plan.dealt:
            run.note_plain(node, "sources")
        return value

    positional = [taken(i, value) for i, value in enumerate(args.positional)]
    keywords = {name: taken(name, value) for name, value in args.keywords.items()}
    is_planned = not run.plan.dealt.isdisjoint(args.nodes.values()) and not args.ways
    return copied(args, positional=positional, keywords=keywords) if is_planned else args


def _has_no_rows(value: Value) -> bool:
    data = value.data
    return data is not None and not value.objects and data.is_replicated and (data.rank == 0 or data.constant is None)


def _is_array(value: Value) -> bool:
    """Whether it is an array that all workers have; what is made of all rows of a batch is none of Python's numbers."""
    data = value.data
    if data is None or value.objects or data.symbolic or data.listed or not data.is_replicated:
        return False
    return bool(data.needs) or data.axes > 0


def _dealt(run: Run, node: cst.BaseExpression, value: Value) -> Value:
    why = "it is made of all rows, and what it is given to works on those of a worker"
    repair = Repair(node, frozenset((Operand(node, "once"),)), why, run.placing.repairing.blocked)
    run.note_repair(repair)

    def mine(data: Data) -> Data:
        needs = data.needs | {repair}
        return replace(
            data, placement=Sharded(0), constant=NOT_CONSTANT, whole=False, pairs=False, across=0, needs=needs
        )

    return v.mapped(value, mine)


def _shard_like(run: Run, node: cst.BaseExpression, value: Value, like: str, least: int = 2) -> Value:
    data = value.data
    if data is None or value.objects or not data.whole or data.several or not data.needs:
        run.note_plain(node, "sources")
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
