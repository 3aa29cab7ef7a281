"""Layers that learn of the data without gradients: by `adapt`, or by what they put into variables themselves.

They learn of all rows of a batch, on all workers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import metrics
from migrator.analysis.libraries.keras.names import LAYER
from migrator.analysis.libraries.keras.objects import Methods, is_of
from migrator.analysis.values import NONE, Data, Instance, Made, Repair, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_LEARNED = "learned of batches"


def _adapt(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`layer.adapt(x)`"""
    leaves = [d for _, x in args.all() for d in run.objects.leaves(x)]
    if any(not d.is_replicated or d.needs for d in leaves):
        repair = run.placing.repairing.put_together(args, node)
        run.heap.store(atom, _LEARNED, Value(Data(needs=frozenset((repair, *(r for d in leaves for r in d.needs))))))
    return NONE


def _update_state(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """Of a preprocessing layer, which `adapt` calls for each batch, or of a metric."""
    if is_of(run, atom, LAYER.match):
        return _adapt(run, atom, args, node, frame)
    return metrics.METHODS["update_state"](run, atom, args, node, frame)


def note_kept(run: Run, atom: v.Atom, repairs: Iterable[Repair]) -> None:
    """Notes what a layer of the program's puts into variables: they are of the model, whatever they are for."""
    needs = frozenset(repairs)
    if needs:
        run.heap.store(atom, _LEARNED, Value(Data(needs=needs)))


def with_learned(run: Run, atom: v.Atom, result: Value) -> Value:
    """What a layer gives, which needs what the layer has learned to be of all rows."""
    needs = frozenset(r for d in run.objects.leaves(run.heap.load(atom, _LEARNED)) for r in d.needs)
    return v.mapped(result, lambda data: replace(data, needs=data.needs | needs)) if needs else result


METHODS: Methods = {"adapt": _adapt, "update_state": _update_state}
