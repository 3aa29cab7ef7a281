"""Random numbers for the rows of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import libcst as cst

from migrator.analysis import ops
from migrator.analysis.ops.call import Arg, Op
from migrator.analysis.ops.making import Draws, Sizes
from migrator.analysis.placement import Shape, Sharded
from migrator.analysis.placing.inference import infer
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.repairing import by_gathering, by_reducing
from migrator.analysis.placing.views import as_it_is
from migrator.analysis.values import Data, External, Operand, Repair, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def draws_alone(row: Op) -> bool:
    """Whether it draws from a generator, of which the numbers are fixed by all that was drawn before."""
    return row.path.startswith(("numpy.", "tensorflow.random.Generator."))


def drawn(run: Run, op: Operation, row: Op, why: str) -> Value | None:
    """Random numbers for the rows of a worker: its own of those for the whole batch, which all workers draw alike.
    None where that cannot be written down, or its rows are not simply its part of the batch."""
    kind = row.kind
    made = infer(run, replace(row, kind=kind.made), op.args, None, as_it_is) if isinstance(kind, Draws) else Arg()
    given = [(place, value, list(run.objects.leaves(value))) for place, value in op.args.all()]
    apart = [(place, value, leaves) for place, value, leaves in given if any(not d.is_replicated for d in leaves)]
    if made.placement != Sharded(0) or len(apart) != 1 or op.whole:
        return None
    place, value, leaves = apart[0]
    if any(d.several or d.symbolic for d in leaves):
        return None
    shape = next((d for d in leaves if isinstance(d.placement, Shape)), None)
    rank = made.rank if shape is None else shape.rows
    least = made.least if shape is None else cast(Shape, shape.placement).least
    result = Data(Sharded(0), rank=rank, least=least, needs=op.needs)
    if row.path.startswith("numpy.") and run.makes_graph:
        return Value(result)  # constants of the graph
    repairing = run.placing.repairing
    found: set[Operand] = set()
    if shape is not None:
        array = _of_shape(run, place)
        blocked = repairing.wrap(array, run.seen[array], by_gathering, found) if array is not None else "unseen"
    else:
        blocked = repairing.wrap(place, value, by_reducing, found)
    if repairing.blocked or blocked or len(found) != 1:
        return None
    repair = Repair(op.node, frozenset(found), why, form="drawn")
    run.note_repair(repair)
    return Value(replace(result, needs=op.needs | {repair}))


def _of_shape(run: Run, node: cst.CSTNode | None) -> cst.BaseExpression | None:
    """The array of which the expression is the shape: `x.shape`, `tf.shape(x)`."""
    array: cst.BaseExpression | None = None
    if isinstance(node, cst.Attribute) and node.attr.value == "shape":
        array = node.value
    elif isinstance(node, cst.Call) and len(node.args) == 1 and not node.args[0].star:
        function = run.seen.get(node.func)
        row = ops.lookup(function.only.path) if function and isinstance(function.only, External) else None
        array = node.args[0].value if row is not None and row.kind == Sizes("shape") else None
    held = run.seen.get(array) if array is not None else None
    is_rows = held is not None and held.data is not None and held.data.placement == Sharded(0)
    return array if is_rows else None
