"""The tensors inside of a model that the program has built: `model.get_layer("features").output`.

What comes out of a layer went through those in front of it, too. So it stands for rows of a batch where all of these
make a row of each row, and is not seen elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.libraries.keras import models
from migrator.analysis.placement import Sharded
from migrator.analysis.values import NOTHING, Data, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_CALLED = ("called", "outputs")
_TENSOR = Value(Data(Sharded(0), symbolic=True, least=2))
_WHY = "what an inner layer of a model gives went through a layer that does not work on each sample by itself"


def note(run: Run, atom: v.Atom, args: Arguments, made: Value) -> None:
    """Notes what a layer makes of Keras's tensors."""
    if run.is_symbolic(args):
        run.heap.store(atom, _CALLED, made)


def tensor(run: Run, layer: v.Atom | None, node: cst.CSTNode) -> Value:
    """What goes into the layer, or comes out of it; None: of a layer of which it is not seen which it is."""
    if layer is None and run.has_odd_layers:
        return v.unseen(_WHY)
    found = [run.heap.load(layer, _CALLED)] if layer is not None else []
    if node in run.tree.order:
        frame = run.frames[run.tree.module_of(node)]
        holding = [model for model in run.sequentials if layer is None or layer in _layers(run, model)]
        known, calls = set(run.built_in), len(run.built_calls)
        found += [models.sequential(run, model, Arguments([_TENSOR]), node, frame) for model in holding]
        run.built_in &= known  # nothing is built here of these layers
        del run.built_calls[calls:]
    leaves = [d for value in found if value is not NOTHING for d in run.objects.leaves(value)]
    return _TENSOR if all(d.placement == Sharded(0) and not d.needs for d in leaves) else v.unseen(_WHY)


def _layers(run: Run, model: v.Atom) -> set[v.Atom]:
    keys = [key for key in run.heap.fields(model) if isinstance(key, tuple) and key[0] == "layer"]
    return {layer for key in keys for layer in run.heap.load(model, key)}
