"""What layers add to the loss of every model: `add_loss`, and what a regulariser makes of their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import registered
from migrator.analysis.libraries.keras.objects import Methods
from migrator.analysis.placement import Partial, Sharded, Unknown, options
from migrator.analysis.values import NONE, NOTHING, NUMBER, Bound, Data, External, Function, Instance, Made, Site, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_EVERY_MODEL = Made("keras.Model", Site(cst.Pass(), ()))


def note_of_outputs(run: Run, regularizer: Value | None, outputs: Value, node: cst.CSTNode, frame: Frame) -> None:
    """Keras divides what a regulariser gives for the outputs of a layer by the rows: of a sum it makes a mean."""
    if regularizer is None or regularizer.is_none:
        return
    _note(run, _penalty(run, regularizer, outputs, node, frame))


def note_of_property(run: Run, losses: Value) -> None:
    """What a class of the program's gives as its `losses`, which Keras adds to that of the model."""
    for data in run.objects.leaves(losses):
        if data.needs or not (data.is_replicated or data.placement == Partial("mean")):
            _note(run, Unknown("what the property `losses` of a class gives is no mean over the batch"))
        elif not data.is_replicated:
            _note(run, Partial("mean"))


def _note(run: Run, penalty: Partial | Unknown) -> None:
    run.heap.store(_EVERY_MODEL, "activity penalties", Value(Data(penalty)))
    run.reductions.add("mean")
    if penalty == Partial("mean") and "mean" in run.plan.reductions:
        # Beside what is made of all rows, of which workers have unequally many.
        penalty = Unknown("Keras takes the mean of a penalty over the rows of a worker")
    run.heap.store(_EVERY_MODEL, "added losses", Value(Data(penalty)))


def _penalty(run: Run, regularizer: Value, outputs: Value, node: cst.CSTNode, frame: Frame) -> Partial | Unknown:
    if any(isinstance(p, Sharded) and p.axis for d in run.objects.leaves(outputs) for p in options(d.placement)):
        return Unknown("Keras takes the first axis of a layer's outputs for the batch, which is cut along another")
    own = registered.looked_up(run, regularizer) if not regularizer.objects else NOTHING
    regularizer = regularizer if own is NOTHING else own
    atom = regularizer.only
    is_of_keras = isinstance(atom, (Made, External)) and atom.path.startswith("keras.regularizers.")
    if is_of_keras or isinstance(regularizer.constant, str):
        return Partial("mean")
    given = v.mapped(outputs, lambda d: replace(d, symbolic=False))
    with run.placing.repairing.ruled_out("Keras applies it", is_barred=False):
        made = run.calls.call(regularizer, Arguments([given]), node, frame)
    parts = {d.placement for d in run.objects.leaves(made) if not d.needs}
    sums = parts == {Partial("sum")} and not any(d.needs for d in run.objects.leaves(made))
    return Partial("mean") if sums else Unknown("what a regulariser makes of a batch is no sum over it")


def of_outputs(run: Run) -> Value:
    """What regularisers make of the outputs of layers."""
    return run.heap.load(_EVERY_MODEL, "activity penalties")


def added(run: Run) -> Value:
    """What layers add to the loss: penalties of weights, and what `add_loss` is given."""
    return v.join(NUMBER, run.heap.load(_EVERY_MODEL, "added losses"))


def _add_loss(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    value = args.get("losses", 0) or args.get("loss") or NUMBER
    if any(isinstance(a, (Function, Bound)) for a in value):
        value = run.calls.call(value, Arguments(), node, frame)
    if run.packages.inside:
        run.packages.met.note_penalty(value)
    value = run.placing.repairing.as_mean(value, args.node("losses", 0), node)
    run.heap.store(_EVERY_MODEL, "added losses", v.join_all(Value(d) for d in run.objects.leaves(value)))
    run.added_losses[node] = v.join(run.added_losses.get(node, NOTHING), value)
    return NONE


METHODS: Methods = {"add_loss": _add_loss}
