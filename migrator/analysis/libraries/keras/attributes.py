"""Attributes of models, layers and optimizers that the program does not store itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.libraries import tensorflow
from migrator.analysis.libraries.keras import compiling, metrics, models, penalties
from migrator.analysis.libraries.keras.convention import trusted
from migrator.analysis.libraries.keras.names import BASES, METRIC, SYMBOLIC
from migrator.analysis.libraries.keras.objects import ENDS, is_of, original_of, told_of, unseen_maker
from migrator.analysis.placement import Sharded
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, Instance, Made, Site, Tuple, Value
from migrator.facts.names import api
from migrator.facts.program.syntax import method_called
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_WEIGHTS = frozenset({
    "trainable_variables", "trainable_weights", "variables", "weights", "non_trainable_variables",
    "non_trainable_weights", "kernel", "bias", "gamma", "beta", "embeddings", "recurrent_kernel",
})  # fmt: skip
# Of which list they are the only one, or all.
_ENDS = {"input": "inputs", "output": "outputs"}
_TURNING = (cst.For, cst.While, cst.If, cst.Try, cst.Match, cst.CompFor, cst.Lambda)
_ANY = Site(cst.Pass(), ())
_LAYERS = -3  # in the context of the site of a model: the list of its layers


def attribute(run: Run, atom: v.Atom, name: str) -> Value:
    if isinstance(atom, Made) and atom.path == tensorflow.VARIABLE and name in ("shape", "dtype", "name", "value"):
        return NUMBER if name != "value" else v.of(v.Method(v.of(atom), name))
    if isinstance(atom, Made) and METRIC.match(atom.path) and name not in api.CALM_OF_METRICS:
        return metrics.kept(run, atom, name)
    if name in _WEIGHTS:
        run.note_weights(atom)
    if name in _WEIGHTS and is_of(run, atom, lambda p: p.startswith(BASES) or p.startswith("tensorflow_")):
        return Value(Data(nested=True))
    if name == "losses" and is_of(run, atom, lambda p: p.startswith(BASES)):
        return v.mapped(penalties.added(run), lambda d: replace(d, nested=True))
    if name == "optimizer":
        known = compiling.optimizer_of(run, atom)
        return known if known.objects else v.of(Made("keras.optimizers.Optimizer", _ANY))
    if name == "num_replicas_in_sync":
        return v.constant(1)
    if name in ("metrics_names", "name", "dtype", "input_shape", "output_shape", "units", "iterations"):
        return NUMBER
    if name == "layers":
        is_built = run.heap.load(atom, ("end", "outputs")) is not NOTHING
        some = Value(Data(nested=True, layer=True, maker=unseen_maker(run, atom), built=is_built))
        return _layers_in(run, atom) or _any_layer_of(run, atom) or some
    if name == "metrics":
        return _metrics_in(run, atom) or NUMBER
    if name in (*_ENDS, *ENDS):
        return _end(run, atom, name)
    if name == "loss":
        return compiling.loss_of(run, atom)
    return v.of(v.Method(v.of(atom), name))


def _end(run: Run, atom: v.Atom, name: str) -> Value:
    """The Keras tensors that a model leads from or to."""
    original = original_of(run, atom)
    if original is not None:
        return v.join_all([attribute(run, one, name) for one in original])
    is_one = is_of(run, atom, lambda p: p in api.SEQUENTIAL)  # tensor that it leads from, and one to
    symbolic = Value(Data(Sharded(0), symbolic=True, nested=name in ENDS and not is_one, least=2))
    if is_one and name in ENDS:
        symbolic = _listed(run, symbolic)
    maker = unseen_maker(run, atom)
    if isinstance(atom, Made) and maker is not None:
        return trusted(run, maker, told_of(atom), Arguments([symbolic]))
    if is_one and _ENDS.get(name, name) == "outputs":
        built = models.built(run, atom)
        return _listed(run, built) if name in ENDS else built
    known = run.heap.load(atom, ("end", _ENDS.get(name, name)))
    if known is NOTHING and name in _ENDS:
        known = _of_call(run, atom, _ENDS[name])
    return (_listed(run, known) if name in ENDS else known) if known is not NOTHING else symbolic


def _of_call(run: Run, atom: v.Atom, end: str) -> Value:
    """What a layer is given, or gives, in the model that it is a part of."""
    known = run.heap.load(atom, ("call", end))
    owners = run.sequences.get(atom, ()) if end == "outputs" else ()
    return v.join_all([known, *(models.built(run, owner, atom) for owner in owners)])


def _layers_in(run: Run, atom: v.Atom) -> Value | None:
    """The layers of a Sequential, where the program puts them into it one by one, and takes none out again."""
    layers = [key for key in run.heap.fields(atom) if isinstance(key, tuple) and key[0] == "layer"]
    held = [run.heap.load(atom, key) for key in layers]
    is_seen = layers == [("layer", place) for place in range(len(layers))]
    if held and _is_input(held[0]):
        held = held[1:]
    if not held or not is_seen or not all(map(_is_layer, held)) or _is_changed(run, atom, layers):
        return None
    return v.of(Tuple(tuple(held)))


def _any_layer_of(run: Run, atom: v.Atom) -> Value | None:
    """The list of the layers of a Sequential of which it is not seen how many there are, or in which order."""
    keys = [key for key in run.heap.fields(atom) if isinstance(key, tuple) and key[0] == "layer"]
    held = [x for x in (run.heap.load(atom, key) for key in keys) if not _is_input(x)]
    if not held or any(x.data is not None or not all(_is_layer(v.of(o)) for o in x.objects) for x in held):
        return None
    site = atom.site if isinstance(atom, (Made, Instance)) else _ANY
    made = Container("list", Site(site.node, (*site.context, _LAYERS)))
    run.heap.store(made, None, v.join_all(held))
    return v.of(made)


def _is_input(first: Value) -> bool:
    """`keras.Input(…)`, of which a Sequential makes no layer."""
    if first.data is not None:
        return first.data.symbolic and not first.objects
    return isinstance(first.only, Made) and first.only.path in (*SYMBOLIC, "keras.layers.InputLayer")


def _is_layer(held: Value) -> bool:
    made = held.only
    return held.data is None and (
        isinstance(made, Instance)
        or (isinstance(made, Made) and (api.makes_model(made.path) or api.is_layer_class(made.path)))
    )


def _is_changed(run: Run, atom: v.Atom, layers: Iterable[object]) -> bool:
    """Whether there may be other layers in it than these: one is added in a loop or on a condition, or taken out."""
    added = {run.heap.load(atom, ("added", key)).constant for key in layers}
    for call in run.tree.calls:
        name = method_called(call)
        if name == "pop" and not call.args:
            return True
        if name == "add" and id(call) in added and any(isinstance(o, _TURNING) for o in run.tree.ancestors(call)):
            return True
    return False


def _metrics_in(run: Run, atom: v.Atom) -> Value | None:
    """The metrics that a model of the script's has for attributes, or in lists that are such, in their order; what it
    is compiled with comes before them, and is not told apart."""
    if not isinstance(atom, Instance) or compiling.compiles_of(run, atom):
        return None
    found: list[Value] = []
    for held in (run.heap.load(atom, key) for key in run.heap.fields(atom) if isinstance(key, str)):
        found += [x for x in run.objects.sequence_items(held) or [held] if _is_metric(run, x)]
    return v.of(Tuple(tuple(found))) if found else None


def _is_metric(run: Run, value: Value) -> bool:
    return value.only is not None and value.data is None and is_of(run, value.only, METRIC.match)


def _listed(run: Run, tensors: Value) -> Value:
    """The list of them: of one, or those in a list or tuple; the order of what is nested, or named, is not told."""
    items = run.objects.sequence_items(tensors)
    if items is None and tensors.objects:
        return v.mapped(run.objects.parts(tensors), lambda d: replace(d, nested=True))
    items = [tensors] if items is None else items
    if any(item.objects for item in items):
        return v.mapped(v.join_all(items), lambda d: replace(d, nested=True))
    return v.of(Tuple(tuple(items)))
