"""TensorFlow's tables and queues: what one call puts into them, another takes out of them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import NONE, Data, Made, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

PREFIXES = ("tensorflow.lookup.", "tensorflow.queue.")
_PUTTING = frozenset({"insert", "insert_or_assign", "remove", "erase", "enqueue", "enqueue_many"})
_STORED = "stored"


def method(run: Run, atom: Made, name: str, args: Arguments, node: cst.CSTNode) -> Value:
    """All workers have to put the rows of all into theirs; what comes out is the same on all of them then."""
    if name not in _PUTTING:
        stored = run.heap.load(atom, _STORED)
        needs = frozenset(r for d in run.objects.leaves(stored) for r in d.needs)
        if name == "lookup" and args.positional:  # key by key
            return v.mapped(
                args.positional[0],
                lambda data: replace(data, constant=NOT_CONSTANT, counted=False, needs=data.needs | needs),
            )
        return v.mapped(run.placing.unknown(args, node), lambda data: replace(data, needs=data.needs | needs))
    leaves = [d for _, value in args.all() for d in run.objects.leaves(value)]
    if any(not d.is_replicated or d.needs for d in leaves):
        repair = run.placing.repairing.put_together(args, node)
        run.heap.store(atom, _STORED, Value(Data(needs=frozenset((repair, *(r for d in leaves for r in d.needs))))))
    return NONE
