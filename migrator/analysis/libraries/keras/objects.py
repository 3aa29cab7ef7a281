"""Objects of Keras's classes, and of the program's that come from them: what they are made with, and of which classes
they are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import namespaces
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import tensorflow
from migrator.analysis.libraries.keras import registered
from migrator.analysis.libraries.keras.names import BASES
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ROWS, Sharded
from migrator.analysis.values import NONE, NOTHING, NUMBER, Data, Instance, Made, Site, Value
from migrator.facts.names import api
from migrator.facts.program.tree import nodes_in

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# What methods of Keras's objects do, by their names.
Methods = dict[str, Callable[["Run", "Made | Instance", Arguments, cst.CSTNode, Frame], Value]]
# What a functional model is made of, as its heap calls them.
ENDS = ("inputs", "outputs")
_OWN_MODEL = re.compile(r"^keras\.applications\.|^keras\.(?:models\.)?(?:Sequential|Model|Functional)$")
# What a layer is told of masks, and behind how many arguments that may stand.
# What a layer keeps for itself that does not matter to what it makes of its inputs.
_SAYS_NOTHING = frozenset({
    "_name", "_trainable", "_path", "_losses", "_metrics", "_tracker", "_dtype_policy", "_auto_track_sub_layers",
    namespaces.ATTRIBUTE,
})  # fmt: skip
_ACTIVATIONS = frozenset({"activation", "recurrent_activation"})
# Layers that put their outputs through no function unless they are told one, which comes behind so many arguments.
_LINEAR_UNTOLD = re.compile(r"^keras\.layers\.(?:Einsum)?Dense$|^keras\.layers\.\w*Conv\dD(?:Transpose)?$")
_BEFORE_ACTIVATION = 4
# Where layers take their function without its name.
_FUNCTION_AT = {"keras.layers.Dense": 1, "keras.layers.Activation": 0}
_TOLD_OF_TEXTS = (("output_mode", 4), ("output_sequence_length", 5))
_TOLD_OF_MASKS, _BEFORE_THESE = ("mask_zero", "return_sequences"), 4


def make(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """The call of a class, or of a function that makes a model."""
    made = Made(path, Site(node, frame.context))
    store_arguments(run, made, args)
    if path in api.SEQUENTIAL:
        layers = args.get("layers", 0)
        if layers is not None:
            _add_layers(run, made, layers)
    elif path in api.MODEL_CLASSES:
        _store_ends(run, made, args)
    return v.of(made)


# -- what they are made with ------------------------------------------------------------------------------------------


def _store_ends(run: Run, atom: v.Atom, args: Arguments) -> None:
    """The Keras tensors that a functional model leads from and to."""
    for i, name in enumerate(ENDS):
        tensors = args.get(name, i)
        if tensors is not None:
            run.heap.store(atom, ("end", name), tensors)


def store_parts(run: Run, atom: v.Atom, args: Arguments) -> None:
    """What Keras's own `__init__` makes a model of, the ends of a functional one, or layers; or wraps; and the
    functions that it keeps."""
    _store_activation(run, atom, args)
    wrapped = args.get("layer", 0)
    if wrapped is not None and is_of(run, atom, lambda p: p == "keras.layers.Wrapper"):
        run.heap.store(atom, "layer", wrapped)
    if is_of(run, atom, lambda p: p in api.MODEL_CLASSES):
        _store_ends(run, atom, args)
    layers = args.get("layers", 0)
    if layers is not None and is_of(run, atom, lambda p: p in api.SEQUENTIAL):
        _add_layers(run, atom, layers)


def kept_otherwise(run: Run, atom: v.Atom) -> frozenset[str]:
    """Of which arguments a layer of Keras's does not keep what it was given."""
    return _ACTIVATIONS if is_of(run, atom, api.is_layer_class) else frozenset()


def _store_activation(run: Run, atom: v.Atom, args: Arguments) -> None:
    """The functions that a layer of Keras's keeps, of their names as well; none is the linear one."""
    for name in kept_otherwise(run, atom):
        places = [_FUNCTION_AT[path] for path in classes_of(run, atom) if path in _FUNCTION_AT]
        given = args.get(name, min(places) if places and name == "activation" else None)
        if given is None and args.rest is NOTHING and len(args.positional) <= _BEFORE_ACTIVATION:
            given = NONE if name == "activation" and is_of(run, atom, _LINEAR_UNTOLD.match) else None
        if given is not None:
            run.heap.store(atom, name, activation(run, given))


def activation(run: Run, given: Value) -> Value:
    """A function, or the one of that name. Where the name is not seen, one that takes each value by itself, as for
    layers that are told a name."""
    if given.objects:
        return given
    name = given.constant
    if name is None:
        return v.of(v.External("keras.activations.linear"))
    own = registered.looked_up(run, given)
    if own is not NOTHING:
        return own
    return v.of(v.External(f"keras.activations.{name if isinstance(name, str) else 'sigmoid'}"))


def store_arguments(run: Run, atom: v.Atom, args: Arguments) -> None:
    for i, value in enumerate(args.positional):
        run.heap.store(atom, ("argument", i), value)
    for name, value in args.keywords.items():
        run.heap.store(atom, ("argument", name), value)


def arguments_of(run: Run, atom: v.Atom) -> Arguments:
    found = Arguments()
    keys = [k for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "argument"]
    for key in sorted((k for k in keys if isinstance(k[1], int)), key=lambda k: k[1]):
        found.positional.append(run.heap.load(atom, key))
    for key in keys:
        if isinstance(key[1], str):
            found.keywords[key[1]] = run.heap.load(atom, key)
    return found


def _add_layers(run: Run, atom: v.Atom, layers: Value) -> None:
    items = run.objects.sequence_items(layers)
    if items is None:
        run.heap.store(atom, ("layer", None), run.objects.parts(layers))
        _note_in(run, atom, run.objects.parts(layers))
    for i, item in enumerate(items or ()):
        run.heap.store(atom, ("layer", i), item)
        _note_in(run, atom, item)


def _note_in(run: Run, atom: v.Atom, layers: Value) -> None:
    """Notes of layers which model they are in."""
    for layer in layers:
        if isinstance(layer, (Made, Instance)):
            run.sequences[layer][atom] = None


def told_of_texts(run: Run, atom: v.Atom) -> Arguments:
    """What an object of a class that comes from TextVectorization is made with, as far as it matters to its rows."""
    found = Arguments()
    if isinstance(atom, Instance) and run.classes.method(atom, "__init__") is None:
        made = arguments_of(run, atom)
        told = {name: made.get(name, position) for name, position in _TOLD_OF_TEXTS}
    else:
        told = {name: run.heap.load(atom, ("argument", f"super {name}")) for name, _ in _TOLD_OF_TEXTS}
    found.keywords.update({name: value for name, value in told.items() if value is not None and value is not NOTHING})
    return found


def is_set_inside(run: Run, atom: v.Atom) -> bool:
    """Whether the program sets what a layer of Keras's keeps for itself: what it then does with a batch is not seen."""
    told = {f"_{name}" for name, _ in _TOLD_OF_TEXTS}
    for name in run.heap.fields(atom):
        is_own = isinstance(name, str) and name.startswith("_") and name not in _SAYS_NOTHING
        if is_own and (name in told or isinstance(atom, Made)):
            return True
    return False


def note_told(run: Run, atom: v.Atom, args: Arguments) -> None:
    """Notes what `super().__init__(…)` tells of masks, see masks.py, and of the rows that texts become."""
    for name, position in _TOLD_OF_TEXTS:
        given = args.get(name, position)
        if given is not None:
            run.heap.store(atom, ("argument", f"super {name}"), given)
    for name in _TOLD_OF_MASKS:
        unseen = NUMBER if len(args.positional) > _BEFORE_THESE else v.constant(False)
        run.heap.store(atom, ("argument", f"super {name}"), args.get(name) or unseen)


# -- their classes ----------------------------------------------------------------------------------------------------


def classes_of(run: Run, atom: v.Atom) -> list[str]:
    """The class of Keras's that it is of, or those that its class comes from, by their dotted names."""
    if isinstance(atom, Made):
        return [atom.path]
    return run.classes.external_bases(atom.cls) if isinstance(atom, Instance) else []


def is_of(run: Run, atom: v.Atom, test: Callable[[str], object]) -> bool:
    """Whether one of its classes is of that kind."""
    return any(test(path) for path in classes_of(run, atom))


# -- models of which nothing is seen ----------------------------------------------------------------------------------


def original_of(run: Run, atom: v.Atom) -> Value | None:
    """The model that it is a copy of, where that is seen."""
    is_copy = isinstance(atom, Made) and atom.path in api.COPIES
    original = arguments_of(run, atom).get("model", 0) if is_copy else None
    return original if original is not None and original.objects else None


def unseen_maker(run: Run, atom: v.Atom) -> cst.CSTNode | None:
    """The call that makes the model, of which nothing is known but that it is one: it is loaded, or of a package."""
    if not isinstance(atom, Made) or not api.makes_model(atom.path) or _OWN_MODEL.match(atom.path):
        return None
    is_seen = original_of(run, atom) is not None or run.heap.load(atom, ("end", "outputs")) is not NOTHING
    return None if is_seen else atom.site.node


def told_of(atom: Made) -> str:
    """The name of what makes it, where it has one that users know."""
    return "" if atom.path == api.OF_A_PACKAGE else atom.path


# -- methods of all of them -------------------------------------------------------------------------------------------


def unknown_method(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode) -> Value:
    """What a method gives that nothing is known of: of Keras's, the same on all workers if it is given nothing else."""
    if is_of(run, atom, lambda p: p.startswith(BASES)) and all(
        d.is_replicated and not d.needs for _, x in args.all() for d in run.objects.leaves(x)
    ):
        return NUMBER
    return run.placing.unknown(args, node)


def _add(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`model.add(layer)`"""
    if is_of(run, atom, lambda p: p in api.SEQUENTIAL) and args.positional:
        layers = [k for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
        # Which layer stands where is known by the place in the text.
        known = {id(node): k for k in layers for _ in (0,) if run.heap.load(atom, ("added", k)).constant == id(node)}
        key = known.get(id(node), ("layer", len(layers)))
        run.heap.store(atom, ("added", key), v.constant(id(node)))
        run.heap.store(atom, key, args.positional[0])
        _note_in(run, atom, args.positional[0])
        return NONE
    return unknown_method(run, atom, args, node)


def _add_weight(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Made(tensorflow.VARIABLE, Site(node, frame.context))
    shape = args.keywords.get("shape")
    content = run.placing.op("tensorflow.zeros", Arguments([shape]), node) if shape is not None else NUMBER
    is_same = content.data is not None and content.data.is_replicated and not content.data.needs
    run.heap.store(made, "content", content if is_same else NUMBER)
    return v.of(made)


def _get_layer(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    name = args.get("name", 0)
    known = name.constant if name is not None and isinstance(name.constant, str) else ""
    held = _held(run, atom)
    if held:
        return Value(None, frozenset(_of_name(run, held, known) or held))
    named = _named(run, known) if known else []
    if named and isinstance(atom, Made) and unseen_maker(run, atom) is None:
        return Value(None, frozenset(named))
    is_built = run.heap.load(atom, ("end", "outputs")) is not NOTHING
    return Value(Data(layer=True, maker=unseen_maker(run, atom), built=is_built))


def _held(run: Run, atom: v.Atom) -> list[v.Atom]:
    """The layers of a Sequential, where all of them are seen."""
    if not is_of(run, atom, lambda p: p in api.SEQUENTIAL):
        return []
    keys = [k for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "layer"]
    held = [x for x in (run.heap.load(atom, key) for key in keys) if not (x.data is not None and x.data.symbolic)]
    is_seen = all(x.data is None and all(isinstance(o, (Made, Instance)) for o in x) for x in held)
    return [layer for x in held for layer in x] if is_seen else []


def _of_name(run: Run, layers: list[v.Atom], name: str) -> list[v.Atom]:
    """Those that were made with the name, where all of another one tell theirs."""
    told = {layer: arguments_of(run, layer).get("name") for layer in layers}
    found = [layer for layer, given in told.items() if given is not None and given.constant == name]
    is_sure = all(isinstance(layer, Made) and (x is None or isinstance(x.constant, str)) for layer, x in told.items())
    return found if is_sure else []


def _named(run: Run, name: str) -> list[Made]:
    """The layers of Keras's that were made with that name, and made a part of a model; none where what else is a part
    of one may have it."""
    found = []
    for part in run.built_in:
        if isinstance(part, Instance) and _may_be_called(part, name):
            return []
        given = arguments_of(run, part).get("name")
        if given is None or given.constant not in (name, NOT_CONSTANT):
            continue
        if given.constant is NOT_CONSTANT or not isinstance(part, Made) or not api.is_layer_class(part.path):
            return []
        found.append(part)
    return found


def _may_be_called(part: Instance, name: str) -> bool:
    """Whether a layer of the program's own class may have the name: it is written where that is made, or in its class,
    or a name that is not seen is."""
    nodes = [*nodes_in(part.site.node), *nodes_in(part.cls.node)]
    texts = {node.evaluated_value for node in nodes if isinstance(node, cst.SimpleString)}
    names = [arg.value for arg in nodes_in(part.site.node) if isinstance(arg, cst.Arg) and _is_name(arg)]
    return name in texts or not all(isinstance(value, cst.SimpleString) for value in names)


def _is_name(arg: cst.Arg) -> bool:
    return arg.star == "**" or (arg.keyword is not None and arg.keyword.value == "name")


def _initial_state(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`layer.get_initial_state(batch_size)`, or of the rows themselves: a state for each row."""
    given = [d for _, x in args.all() for d in run.objects.leaves(x)]
    of_rows = [d for d in given if d.placement in (ROWS, Sharded(0)) and not d.several]
    if not of_rows or not all(d in of_rows or d.is_replicated for d in given):
        return unknown_method(run, atom, args, node)
    return Value(Data(Sharded(0), nested=True, needs=frozenset(r for d in given for r in d.needs)))


METHODS: Methods = {
    "get_initial_state": _initial_state,
    "add": _add,
    "add_weight": _add_weight,
    "add_variable": _add_weight,
    "get_layer": _get_layer,
}
