"""Keras of both generations: layers and models that are called, losses, metrics, optimizers, and `fit`.

Here is decided which of them a call or a method is for; one module each says what it does, with its `METHODS` by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import runtime, tensorflow
from migrator.analysis.libraries.keras import (
    adapting,
    compiling,
    heirs,
    layers,
    losses,
    masks,
    metrics,
    models,
    objects,
    optimizers,
    penalties,
    registered,
    training,
)
from migrator.analysis.libraries.keras.applying import accepted, applied
from migrator.analysis.libraries.keras.attributes import attribute
from migrator.analysis.libraries.keras.convention import sample_by_sample, trusted, unseen_layer
from migrator.analysis.libraries.keras.functions import FUNCTIONS
from migrator.analysis.libraries.keras.heirs import note_made
from migrator.analysis.libraries.keras.names import LAYER, LOSS, METRIC, full_name, is_made
from migrator.analysis.libraries.keras.objects import (
    Methods,
    classes_of,
    is_of,
    kept_otherwise,
    make,
    store_arguments,
    told_of_texts,
    unknown_method,
)
from migrator.analysis.libraries.python.containers import make_record
from migrator.analysis.values import NOTHING, NUMBER, Bound, Function, Instance, Made, Tuple, Value
from migrator.facts.names import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run

__all__ = [
    "FUNCTIONS",
    "Keras",
    "applied",
    "attribute",
    "full_name",
    "is_made",
    "kept_otherwise",
    "make",
    "note_made",
    "store_arguments",
    "trusted",
    "unseen_layer",
]

_METHODS: Methods = {
    **objects.METHODS,
    **heirs.METHODS,
    **compiling.METHODS,
    **masks.METHODS,
    **metrics.METHODS,
    **optimizers.METHODS,
    **penalties.METHODS,
    **training.METHODS,
    **adapting.METHODS,
}
# What trains a model, or gives it other weights.
_FILLING = frozenset({"compile", "fit", "train_on_batch", "set_weights", "load_weights"})
# Of layers of classes that come from these, and have no `call`, the rows tell what they do: they make texts as long as
# the longest, or look up by indices.
_BY_THEIR_ROWS = frozenset({"keras.layers.TextVectorization", "keras.layers.Embedding"})
_SET_INSIDE = "what this layer does is not seen, as the program sets what it keeps for itself"
_RUNS_INSIDE = "what this layer does is not seen, as its class defines by itself what Keras's code runs there"
_BY_NAME = re.compile(r"^keras\.activations\.")  # these take each value by itself, or the features of a sample


class Keras:
    """`fitting`: the calls of `fit` whose own training step runs. `training`: those of which any step runs. `fitted`:
    the models of these. `told_in_steps`: the calls that ask a Mean there for its result, of a number for each batch;
    `told_apart`: those of which it is each worker's own, though all workers have these numbers, too. `told_mixed`:
    those of metrics that have counted what all workers have beside a worker's rows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.fitting: list[cst.CSTNode] = []
        self.training: list[cst.CSTNode] = []
        self.fitted: list[v.Atom] = []
        self.on_parts: list[bool] = []  # of each of these, whether it is trained on a worker's part of its batches
        self.told_in_steps: set[cst.CSTNode] = set()
        self.told_apart: set[cst.CSTNode] = set()
        self.told_mixed: set[cst.CSTNode] = set()

    def call(self, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of what a class of Keras's has made."""
        path = atom.path
        if path == "collections.namedtuple":
            return make_record(self.run, atom, args, node, frame)
        if path == runtime.WHOLE_BATCH:
            return losses.call_whole(self.run, atom, args, node, frame)
        if path == registered.REGISTERING:
            return registered.note(self.run, atom, args.positional[0] if args.positional else NOTHING)
        if LOSS.match(path):
            return losses.call(self.run, atom, args, node)
        if METRIC.match(path):
            return metrics.call(self.run, atom, args, node, frame)
        self.run.note_forward()
        self.run.note_applied(atom, args, node)
        with self.run.evaluations.entering(atom, args, node):
            if LAYER.match(path) and objects.is_set_inside(self.run, atom):
                made = self._as_unseen(args, node)
            elif api.makes_model(path):
                made = models.call(self.run, atom, args, node, frame)
            else:
                made = adapting.with_learned(self.run, atom, layers.call(self.run, atom, args, node, frame))
            self._note_ends(atom, args, made)
            return self.run.note_built(args, self.run.note_work(node, made))

    def _note_ends(self, atom: Made | Instance, args: Arguments, made: Value) -> None:
        """Notes what a layer is given and gives where a model is built of it: `layer.output`."""
        if self.run.is_symbolic(args):
            for end, value in zip(objects.ENDS, (*args.positional[:1], made) if args.positional else ()):
                self.run.heap.store(atom, ("call", end), value)

    def _as_unseen(self, args: Arguments, node: cst.CSTNode, why: str = _SET_INSIDE) -> Value:
        """What a layer gives of which nobody sees what it does."""
        if self.run.is_symbolic(args):
            return v.unseen(why)
        return self.run.placing.unknown(args, node)

    def call_instance(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of an object of a class of the program that comes from one of Keras's."""
        if is_of(self.run, atom, LOSS.match):
            return losses.call_own(self.run, atom, args, node, frame)
        if is_of(self.run, atom, METRIC.match):
            return metrics.call(self.run, atom, args, node, frame)
        self.run.note_forward()
        self.run.note_applied(atom, args, node)
        with self.run.evaluations.entering(atom, args, node):
            made = self._call_layer(atom, args, node, frame)
            self._note_ends(atom, args, made)
            return self.run.note_built(args, self.run.note_work(node, made))

    def _call_layer(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """The call of an object of a class that comes from that of a layer or a model."""
        build = self.run.classes.method(atom, "build")
        if build is not None and args.positional:
            with self.run.changing.building():
                self.run.calls.call(build, Arguments([NUMBER]), node, frame)
        known = set(self.run.kept_by_layers)
        result = self._applied_instance(atom, args, node, frame)
        adapting.note_kept(self.run, atom, self.run.kept_by_layers - known)
        result = adapting.with_learned(self.run, atom, result)
        heirs.note_penalty(self.run, atom, result, node, frame)
        return masks.left_by(self.run, atom, args, result, node, frame)

    def _applied_instance(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What the object's own `call` gives, or that of the class of Keras's that its class comes from."""
        call = self.run.classes.method(atom, "call") or self._of_its_classes(atom)
        if call is not None:
            return applied(self.run, call, accepted(self.run, call, args), node, frame)
        if is_of(self.run, atom, lambda p: p in api.SEQUENTIAL):
            return models.sequential(self.run, atom, args, node, frame)
        outputs = self.run.heap.load(atom, ("end", "outputs"))
        if outputs is not NOTHING:
            return models.functional(self.run, outputs, args, node, frame)
        path = next((p for p in classes_of(self.run, atom) if p in _BY_THEIR_ROWS), "")
        if path and (objects.is_set_inside(self.run, atom) or heirs.runs_inside(self.run, atom, args, node, frame)):
            return self._as_unseen(args, node)
        if path:
            made = told_of_texts(self.run, atom)
            given = Arguments(args.positional[:1], nodes=args.nodes)
            return self.run.placing.place(ops.lookup(path), path, given, node, made)
        if is_of(self.run, atom, lambda p: bool(LAYER.match(p) or api.makes_model(p))):
            return self._as_its_layer(atom, args, node, frame)
        return self.run.placing.unknown(args, node)

    def _as_its_layer(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What the layer of Keras's gives that an object's class comes from: the functions that it was told, or was
        set, are run on the rows."""
        if heirs.runs_inside(self.run, atom, args, node, frame):
            return self._as_unseen(args, node, _RUNS_INSIDE)
        layer = heirs.as_layer(self.run, atom)
        if layer is None and heirs.is_told_unseen(self.run, atom):
            return self._as_unseen(args, node)
        if layer is not None and heirs.is_followed(layer.path):
            result = layers.call(self.run, layer, args, node, frame)
        else:
            result = sample_by_sample(self.run, args)
        for name in sorted(objects.kept_otherwise(self.run, atom)):
            function = self.run.heap.load(atom, name)
            if any(not (isinstance(each, v.External) and _BY_NAME.match(each.path)) for each in function):
                result = applied(self.run, function.without_data(), Arguments([result]), node, frame)
        return result

    def _of_its_classes(self, atom: Instance) -> Value | None:
        """What the program has put into these classes of Keras's for `call`; of what runs now, it can only be the
        class's own that is asked for, which it has kept."""
        held = [self.run.objects.call_of_class(atom, path) for path in classes_of(self.run, atom)]
        found = v.join_all(held) if held else NOTHING
        return found if found is not NOTHING and not self._is_running(found) else None

    def method(self, atom: Made | Instance, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if isinstance(atom, Made):
            found = tensorflow.method(self.run, atom, name, args, node)
            if found is not None:
                return found
        if name in _FILLING:
            self.run.note_weights(atom)
        handler = _METHODS.get(name)
        if handler is not None:
            return handler(self.run, atom, args, node, frame)
        if name == "call" and isinstance(atom, Instance) and is_of(self.run, atom, LOSS.match):
            return losses.call_inherited(self.run, atom, args, node)
        if name in ("call", "__call__"):
            if isinstance(atom, Made):
                return self.call(atom, args, node, frame)
            return (
                self._inherited_call(atom, args, node, frame)
                if self._runs(atom)
                else self.call_instance(atom, args, node, frame)
            )
        if isinstance(atom, Made) and atom.path == tensorflow.VARIABLE:
            content = self.run.heap.load(atom, "content")
            return self.run.libraries.call_method(content, name, args, node, frame)
        return unknown_method(self.run, atom, args, node)

    def _runs(self, atom: Instance) -> bool:
        """Whether the object's own `call` runs now, so that it can only be `super().call(…)` that is asked for."""
        own = self.run.classes.method(atom, "call")
        return own is not None and self._is_running(own)

    def _is_running(self, function: Value) -> bool:
        nodes = [a.function.node for a in function if isinstance(a, Bound) and isinstance(a.function, Function)]
        return any(node in self.run.calls.stack for node in nodes)

    def _inherited_call(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`super().call(…)`: what the class of Keras's does that the object's comes from."""
        replaced = self._of_its_classes(atom)
        if replaced is not None:
            return applied(self.run, replaced, args, node, frame)
        if is_of(self.run, atom, lambda p: p in api.SEQUENTIAL):
            return models.sequential(self.run, atom, args, node, frame)
        outputs = self.run.heap.load(atom, ("end", "outputs"))
        if outputs is not NOTHING:
            return models.functional(self.run, outputs, args, node, frame)
        classes = classes_of(self.run, atom)
        if any(name.endswith("Cell") for name in classes):
            if heirs.runs_inside(self.run, atom, args, node, frame):
                return self._as_unseen(args, node, _RUNS_INSIDE)
            states = Arguments(args.positional[1:])
            return v.of(Tuple((sample_by_sample(self.run, args), sample_by_sample(self.run, states))))
        return self._as_its_layer(atom, args, node, frame)
