"""Models that are called: layer after layer, or as their outputs were built of Keras's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import clones
from migrator.analysis.libraries.keras.convention import as_the_input, sample_by_sample, trusted, unseen_layer
from migrator.analysis.libraries.keras.names import SYMBOLIC
from migrator.analysis.libraries.keras.objects import original_of, told_of, unseen_maker
from migrator.analysis.placement import REPLICATED, Sharded, Unknown
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, Instance, Made, Tuple, Value
from migrator.facts.names import api
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_BROUGHT_IN = "the `clone_function` of this copy brings in a layer that does not work on each sample by itself"


def call(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    path = atom.path
    leaves = [d for _, x in args.all() for d in run.objects.leaves(x)]
    if any(d.whole for d in leaves) and any(isinstance(d.placement, Sharded) for d in leaves):
        return run.placing.place(None, path, args, node)  # all of them are given all rows
    if path in api.SEQUENTIAL:
        return sequential(run, atom, args, node, frame)
    outputs = run.heap.load(atom, ("end", "outputs"))
    if outputs is not NOTHING:
        return functional(run, outputs, args, node, frame)
    original = original_of(run, atom)
    if original is not None:
        made = run.calls.call(original, args, node, frame)
        return made if clones.are_alike(run, atom, args, node, frame) else v.unseen(_BROUGHT_IN)
    maker = unseen_maker(run, atom)
    return trusted(run, maker, told_of(atom), args) if maker is not None else sample_by_sample(run, args)


def functional(run: Run, outputs: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A model of Keras tensors: its outputs stand as they did when they were built."""
    leaves = [d for x in args.positional[:1] for d in run.objects.leaves(x)]
    given = as_the_input(leaves)
    for value in args.positional[:1]:
        run.note_work(node, value)  # whatever puts all rows together inside, other layers may come first

    def output(data: Data) -> Data:
        if isinstance(given.placement, Unknown) or isinstance(data.placement, Unknown):
            lost = given if isinstance(given.placement, Unknown) else data
            return Data(lost.placement, needs=given.needs | data.needs)
        if given.is_replicated:
            for repair in () if given.symbolic else data.needs:
                run.note_plain_repair(repair)
            return Data(REPLICATED, whole=given.whole, least=2, symbolic=given.symbolic, needs=given.needs)
        place = given.placement if data.placement == Sharded(0) else data.placement
        needs, least = data.needs | given.needs, max(data.least, 2)
        counts = given.counts if place is given.placement else ()
        masked = data.masked or given.masked  # from layer to layer inside, as far as that goes
        return replace(
            data,
            placement=place,
            least=least,
            symbolic=given.symbolic,
            nested=False,
            masked=masked,
            needs=needs,
            counts=counts,
            batch=given.batch,
        )

    if outputs.data is None:
        items = run.objects.sequence_items(outputs)
        if items is not None and len(items) == 1 and not given.symbolic:
            return v.mapped(items[0], output)  # of one Keras makes no list, but where it builds
        run.lists.add(node)  # as many as the model has, on all workers
        if any(isinstance(a, Tuple) for a in outputs):
            return v.mapped(outputs, output)
        if items is not None:
            return v.mapped(v.of(Tuple(tuple(items))), output)
        named = outputs.only
        if isinstance(named, Container) and named.kind == "dict":
            held = {key: run.heap.load(named, key) for key in (None, *run.heap.fields(named))}
            given_back = {key: v.mapped(value, output) for key, value in held.items() if value is not NOTHING}
            return _anew(run, "dict", given_back, node, frame)
        one = v.mapped(Value(v.join_all([run.objects.parts(outputs)]).data), output)
        if not all(isinstance(a, Container) and a.kind == "list" for a in outputs):
            return one
        return _anew(run, "list", {None: one}, node, frame)
    return v.mapped(outputs, output)


def _anew(run: Run, kind: str, given_back: Mapping[object, Value], node: cst.CSTNode, frame: Frame) -> Value:
    """What a model gives its outputs in, another one in each step, also where Keras calls it."""
    made = Container(kind, v.site_of_display(node, given_back.values(), frame.context))
    run.changing.note_made(made)
    for key, value in given_back.items():
        run.heap.store(made, key, value)
    return v.of(made)


def sequential(run: Run, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A model of layers one after the other: what the last one gives."""
    value = args.positional[0] if args.positional else args.get("inputs") or NUMBER
    keys = [k for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
    ordered = sorted((k for k in keys if isinstance(k[1], int)), key=lambda k: k[1])
    loose = run.heap.load(atom, ("layer", None))
    run.heap.load(atom, ("layer", 0))
    if not ordered and loose is NOTHING:
        return sample_by_sample(run, Arguments([value]))
    told = args.get("training", 1)
    for key in ordered:
        value = _through(run, run.heap.load(atom, key), value, told, node, frame)
    for layer in loose.objects:
        value = _through(run, v.of(layer), value, told, node, frame)
    return value


def built(run: Run, atom: v.Atom, last: v.Atom | None = None) -> Value:
    """The Keras tensor that a model of layers one after the other leads to, or one of its layers."""
    value = Value(Data(Sharded(0), symbolic=True, least=2))
    node = atom.site.node if isinstance(atom, (Made, Instance)) else None
    if node is None or node not in run.tree.order:
        return value
    frame, built_in = run.frames[run.tree.module_of(node)], set(run.built_in)
    keys = [k for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
    if not all(isinstance(k[1], int) for k in keys):
        value = sequential(run, atom, Arguments([value]), node, frame)
    else:
        for key in sorted(keys, key=lambda k: k[1]):
            layer = run.heap.load(atom, key)
            value = _through(run, layer, value, None, node, frame)
            if last is not None and last in layer:
                break
    run.built_in.intersection_update(built_in)  # of the model that is meant here they are parts as before
    return value


def _through(run: Run, layer: Value, value: Value, training: Value | None, node: cst.CSTNode, frame: Frame) -> Value:
    if any(isinstance(a, Made) and a.path in (*SYMBOLIC, "keras.layers.InputLayer") for a in layer):
        return value
    if layer.data is not None and not layer.data.symbolic:
        return unseen_layer(run, layer, node, "a layer of this model", Arguments([value]))
    if layer.data is not None:  # `keras.Input(…)`
        rank = layer.data.rank
        return value if rank is None else v.mapped(value, lambda d: replace(d, rank=d.rank or rank))
    keywords: dict[str, Value] = {}
    if training is not None and not training.is_none and all(_takes_training(a) for a in layer):
        keywords["training"] = training
    return run.calls.call(layer, Arguments([value], keywords), node, frame)


def _takes_training(layer: v.Atom) -> bool:
    return isinstance(layer, Instance) or (isinstance(layer, Made) and api.makes_model(layer.path))
