"""Objects of the program's classes that come from a layer of Keras's which has code of its own.

Where Keras's code runs for them, it does what it does for a layer that was told the same: what `super().__init__(…)` is
given, or the call of the class. That holds as long as the class has nothing in the place of what that code runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import hooks, penalties
from migrator.analysis.libraries.keras.convention import as_the_input
from migrator.analysis.libraries.keras.names import PLAIN
from migrator.analysis.libraries.keras.objects import (
    Methods,
    arguments_of,
    classes_of,
    is_of,
    kept_otherwise,
    note_told,
    store_arguments,
    store_parts,
    unknown_method,
)
from migrator.analysis.libraries.python import defaults
from migrator.analysis.placement import ROWS, Sharded
from migrator.analysis.values import NONE, NOTHING, Bound, Data, Function, Instance, Made, Site, Tuple, Value
from migrator.facts.names import api, run_by_keras

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_AS = -4  # in the context of the site of an object: the layer of Keras's that it is besides
_LAYER, _REST = ("told", "layer"), ("told", "rest")
# What these do hangs on what they are told.
_TOLD_WHAT_TO_DO = frozenset(
    f"keras.layers.{name}"
    for name in (
        "Lambda", "Softmax", "UnitNormalization", "Concatenate", "Dot", "RNN", "Wrapper", "TimeDistributed",
        "Bidirectional", "StackedRNNCells",
    )
)  # fmt: skip
# The attributes that layers keep their first argument as.
_FIRST = {
    "keras.layers.Lambda": "function",
    "keras.layers.RNN": "cell",
    "keras.layers.Dot": "axes",
    **{f"keras.layers.{name}": "layer" for name in ("Wrapper", "TimeDistributed", "Bidirectional")},
    **{
        f"keras.layers.{name}": "axis"
        for name in ("Softmax", "UnitNormalization", "Concatenate", "LayerNormalization", "BatchNormalization")
    },
}


def note_made(run: Run, atom: v.Atom, args: Arguments) -> None:
    """Notes what Keras's own `__init__` is given."""
    store_parts(run, atom, args)
    if not isinstance(atom, Instance):
        return
    regularizer = args.get(run_by_keras.OF_OUTPUTS)
    if regularizer is not None and is_of(run, atom, lambda p: api.is_layer_class(p) or api.makes_model(p)):
        run.heap.store(atom, run_by_keras.OF_OUTPUTS, regularizer)
    if is_of(run, atom, api.is_optimizer_class):
        _note_before_updates(run, atom)
    path = _layer_of(run, atom)
    if path:
        layer = Made(path, Site(atom.site.node, (*atom.site.context, _AS)))
        store_arguments(run, layer, _but_for_functions(run, atom, args))
        run.heap.store(layer, _REST, args.rest)
        run.heap.store(atom, _LAYER, v.of(layer))


def _note_before_updates(run: Run, atom: Instance) -> None:
    """Notes what an optimizer's class has in the place of what Keras makes of a worker's gradients."""
    for name in run_by_keras.BEFORE_UPDATES & run.classes.names(atom.cls):
        for method in run.classes.of_class(atom.cls, name) or ():
            node = method.node if isinstance(method, Function) else atom.site.node
            run.hooks[node].add(hooks.Hook(run_by_keras.OPTIMIZERS, name, atom))


def _layer_of(run: Run, atom: Instance) -> str:
    return next((p for p in classes_of(run, atom) if api.is_layer_class(p) and p not in PLAIN), "")


def _but_for_functions(run: Run, atom: Instance, args: Arguments) -> Arguments:
    """What it is told without the functions, which the object itself keeps; those by name take each value by itself, or
    the features of a sample."""
    functions = kept_otherwise(run, atom)

    def plain(value: Value) -> Value:
        return v.constant("linear") if value.objects and value.data is None else value

    first = is_of(run, atom, lambda p: p == "keras.layers.Activation")
    positional = [
        plain(x) if i == (0 if first else 1) and _is_function(x) else x for i, x in enumerate(args.positional)
    ]
    keywords = {k: plain(x) if k in functions else x for k, x in args.keywords.items()}
    keywords.pop(run_by_keras.OF_OUTPUTS, None)
    return Arguments(positional, keywords, args.rest)


def _is_function(value: Value) -> bool:
    return any(isinstance(a, (v.Function, v.Bound, v.Curried, v.External)) for a in value)


def as_layer(run: Run, atom: v.Atom) -> Made | None:
    """The layer of Keras's that the object is besides, told what it was told; None where that is not seen."""
    layer = run.heap.load(atom, _LAYER).only
    if not isinstance(layer, Made) or run.heap.load(layer, _REST) is not NOTHING:
        return None
    name = _FIRST.get(layer.path, "")
    given = run.heap.load(atom, name) if name else NOTHING
    if given is not NOTHING and arguments_of(run, layer).get(name, 0) != given:
        run.heap.store(layer, ("argument", name), given)
        run.heap.store(layer, ("argument", 0), given)
    return layer


def is_followed(path: str) -> bool:
    """Whether it is known what such a layer does with what it is given; a cell is given states as well, by Keras."""
    return (ops.lookup(path) is not None and not path.endswith("Cell")) or path in _TOLD_WHAT_TO_DO


def is_told_unseen(run: Run, atom: v.Atom) -> bool:
    """Whether it comes from a layer that hangs on what it is told."""
    return is_of(run, atom, _TOLD_WHAT_TO_DO.__contains__)


# -- what the classes have in the place of what Keras's code runs -----------------------------------------------------


def runs_inside(run: Run, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> bool:
    """Whether the code of the layer may run something of the program's then that is not seen to take rows apart."""
    names = run.classes.names(atom.cls)
    settings = run_by_keras.SETTINGS & names
    if any(run.classes.getter(atom, name) is not None for name in settings):
        return True
    held = {name for name in run.heap.fields(atom) if isinstance(name, str)}
    inside = sorted(run_by_keras.INSIDE_CALLS & (names | held))
    return any(not _takes_rows_apart(run, atom, name, args, node, frame) for name in inside) or not starts_apart(
        run, atom, node, frame
    )


def _takes_rows_apart(run: Run, atom: Instance, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> bool:
    kinds = run_by_keras.GIVEN_INSIDE.get(name)
    method = run.classes.method(atom, name)
    if kinds is None or method is None or not all(isinstance(each, Bound) for each in method):
        return False
    values = [_given_inside(run, kind, args) for kind in kinds]
    given = Arguments([value for value in values if value is not None])
    return len(given.positional) == len(kinds) and hooks.takes_rows_apart(run, method, node, frame, given)


def _given_inside(run: Run, kind: str, args: Arguments) -> Value | None:
    if kind == run_by_keras.WEIGHTS:
        return Value(Data())
    if kind == run_by_keras.MASK:
        return v.join(NONE, Value(Data(Sharded(0), least=2, mask=True)))
    if kind == run_by_keras.ROWS:
        return hooks.ROWS_OF_BATCH
    if kind == run_by_keras.SEQUENCES:
        return Value(Data(Sharded(0), rank=3))
    items = run.objects.sequence_items(args.positional[0]) if args.positional else None
    return v.of(Tuple(tuple(hooks.ROWS_OF_BATCH for _ in items))) if items else None


def starts_apart(run: Run, atom: Instance, node: cst.CSTNode, frame: Frame) -> bool:
    """Whether the states that a cell, or a layer of cells, starts with are each row's own, or the same for all."""
    method = run.classes.method(atom, "get_initial_state")
    if method is None:
        return True
    told = {"inputs": hooks.ROWS_OF_BATCH, "batch_size": Value(Data(ROWS))}
    params = {p.name.value for a in method if isinstance(a, Bound) for p in a.function.node.params.params}
    made = run.calls.call(method, Arguments([], {k: x for k, x in told.items() if k in params}), node, frame)
    leaves = list(run.objects.leaves(made))
    return all((d.is_replicated or _is_of_rows(d)) and not d.needs and not d.whole for d in leaves)


def _is_of_rows(data: Data) -> bool:
    return isinstance(data.placement, Sharded) and data.placement.axis == 0


def _inside(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame, *, name: str) -> Value:
    """`super()._calculate_scores(query, key)`: Keras's own takes each row by itself."""
    kinds = run_by_keras.GIVEN_INSIDE[name]
    weights = [x for x, kind in zip(args.positional, kinds) if kind == run_by_keras.WEIGHTS]
    leaves = [d for _, x in args.all() for d in run.objects.leaves(x)]
    is_layer = is_of(run, atom, lambda p: api.is_layer_class(p) and p not in PLAIN)
    if not is_layer or any(not d.is_replicated or d.needs for x in weights for d in run.objects.leaves(x)):
        return unknown_method(run, atom, args, node)
    return Value(as_the_input(leaves))


# -- what is made of the outputs --------------------------------------------------------------------------------------


def note_penalty(run: Run, atom: Instance, outputs: Value, node: cst.CSTNode, frame: Frame) -> None:
    """What a regulariser makes of the outputs of the object, which it is told, or keeps as the attribute; and what its
    class gives as its `losses`."""
    for name in (run_by_keras.OF_OUTPUTS, f"_{run_by_keras.OF_OUTPUTS}"):
        regularizer = run.heap.load(atom, name)
        if run.classes.getter(atom, name) is not None:
            regularizer = v.unseen("what a property gives for a regulariser is not followed")
        if regularizer is not NOTHING:
            penalties.note_of_outputs(run, regularizer, outputs, node, frame)

    getter = run.classes.getter(atom, "losses")
    if getter is not None:
        penalties.note_of_property(run, run.calls.call(getter, Arguments(), node, frame))


def _init(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`super().__init__(…)` of a class of the program."""
    reduction = args.get("reduction")
    if reduction is not None:
        run.heap.store(atom, ("argument", "super reduction"), reduction)
    note_told(run, atom, args)
    note_made(run, atom, args)
    defaults.made_with(run, atom, args, node, frame)
    return NONE


METHODS: Methods = {
    "__init__": _init,
    **{name: partial(_inside, name=name) for name in run_by_keras.GIVEN_INSIDE},
}
