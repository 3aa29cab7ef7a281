"""Indices that look up rows of a table, of which the runtime cannot tell whether each is one of a sample.

The gradient of a table comes with one part for each index, and optimizers square each by itself. What each sample looks
up has one of these for each of them, on whichever worker; what is looked up once for all samples has one, of which each
worker has its part. The runtime tells them apart by what they are made of: a batch, or nothing but constants. That does
not do for constants which have a row for each sample, as first tokens of sentences are, and outside of graphs, where
nobody sees what a tensor is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.ops.elementwise import Cast
from migrator.analysis.ops.making import Like, Same, Stacked
from migrator.analysis.ops.moving import Joins
from migrator.analysis.ops.picking import Gather, GatherNd
from migrator.analysis.placement import Placement, Scaled, Sharded, options
from migrator.analysis.placing.operation import Operation
from migrator.analysis.values import Container, Data, Made, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

FOR_EACH_SAMPLE = "lockstep.for_each_sample"
FOR_ALL_SAMPLES = "lockstep.for_all_samples"
_OF_TENSORS = ("tensorflow.", "keras.ops.", "keras.backend.")
_LAYERS = frozenset({"keras.layers.Embedding"})
_HANDING_ON = (Same, Stacked, Cast, Joins)
_ADDING = frozenset({"neg", "negative", "add", "sub", "subtract", "add_n"})
_TOLD = frozenset({(cst.Pass(), False)})


def kept(run: Run, op: Operation, result: Value) -> Value:
    """The result with what makes it, where its rows are none of a batch but so many of one number or another."""
    if _hands_on_parts(run, op):
        result = v.mapped(result, lambda d: replace(d, table=True) if d.is_replicated else d)
    if is_lookup(op) or not any(_is_rows(d) for d in v.contents(result)):
        return result
    rows = [d for d in op.leaves if _is_rows(d)]
    here = frozenset({(op.node, op.path.startswith(_OF_TENSORS))})
    if not rows or (op.row is not None and isinstance(op.row.kind, Like)):
        found = here
    elif all(d.filled for d in rows):
        found = frozenset(made for d in rows for made in d.filled)
        if not all(is_tensor for _, is_tensor in found):  # a list or an array, and to be told as what is made of it
            found = here
    else:
        return result
    return v.mapped(result, lambda d: replace(d, filled=found) if _is_rows(d) else d)


def told(value: Value) -> Value:
    """The value, of which the script says that it has an index for each sample, or is looked up for all at once."""
    return v.mapped(value, lambda d: replace(d, filled=_TOLD if d.is_replicated else frozenset()))


def is_lookup(op: Operation) -> bool:
    """Whether it takes rows of a table that may be trained, by indices."""
    if op.row is None or op.row.path in _LAYERS:
        return op.row is not None
    if not isinstance(op.row.kind, (Gather, GatherNd)) and not op.row.path.endswith(".embedding_lookup"):
        return False
    table = op.args.get("params", 0) or op.args.get("x", 0)
    return table is not None and _is_table(table)


def _is_table(value: Value) -> bool:
    """Whether it is a variable, or what that holds, or may be a weight of a layer."""
    is_variable = any(isinstance(a, Made) and a.path == VARIABLE for a in value)
    return is_variable or any(d.table for d in v.contents(value)) or _is_attribute(value)


def _hands_on_parts(run: Run, op: Operation) -> bool:
    """Whether the gradient of what it gives goes on to a variable as it comes, one part for each index."""
    if op.row is None or not (isinstance(op.row.kind, _HANDING_ON) or op.path.rpartition(".")[2] in _ADDING):
        return False
    given = [value for _, value in op.args.all()]
    lists = frozenset(atom for value in given for atom in value if isinstance(atom, (Container, Tuple)))
    return any(map(_is_table, given)) or (bool(lists) and _is_table(run.objects.parts(Value(None, lists))))


def _is_attribute(table: Value | None) -> bool:
    """Whether it may be a weight of a layer, of which nothing more is known."""
    return table is not None and any(d.is_replicated and d.nested for d in v.contents(table))


def note(run: Run, op: Operation) -> None:
    """Notes what the indices are, where the operation looks up by them."""
    if not is_lookup(op) or op.row is None or not run.in_loss:
        return
    place, name = (0, "inputs") if op.row.path in _LAYERS else (1, "indices")
    indices = op.args.get(name, place) or op.args.get("ids", place)
    if indices is None:
        return
    leaves = list(run.objects.leaves(indices))
    if any(d.filled == _TOLD for d in leaves):
        return
    if run.is_traced or run.loss_made != "eager":
        run.filled.update(made for d in leaves for made, _ in d.filled)
    node = op.args.node(name, place) or op.args.node("ids", place)
    are_rows = [not d.is_replicated or bool(d.needs) or d.whole for d in leaves]
    if any(are_rows) and node is not None:
        run.not_for_all.add(node)
    if not all(rows and not d.mixed for rows, d in zip(are_rows, leaves)) and run.loss_made != "graph":
        (run.for_all if run.loss_made == "eager" else run.for_all_in_keras).add(node or op.node)
        if node is None:  # a model calls it by itself
            run.not_for_all.add(op.node)


def _is_rows(data: Data) -> bool:
    return any(isinstance(_base(place), Sharded) for place in options(data.placement))


def _base(placement: Placement) -> Placement:
    return placement.base if isinstance(placement, Scaled) else placement
