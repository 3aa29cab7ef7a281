"""Masks of Keras: which layers give one with their outputs, hand on the one that they were given, or end it.

Losses divide by the values that a mask keeps, of which each worker has its own number. Keras keeps the mask beside a
tensor (`_keras_mask`): calling a layer that supports masks sets it to what `compute_mask` makes of the mask of the
first argument, or of `mask=`; what has one already when it leaves `call` keeps it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras.names import LAYER, PLAIN
from migrator.analysis.libraries.keras.objects import Methods, arguments_of, classes_of, is_of, unknown_method
from migrator.analysis.values import NONE, NOTHING, Data, Instance, Made, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

REASON = "it is a mean over the values that a mask of Keras keeps"
ATTRIBUTE = "_keras_mask"
_RECURRENT = re.compile(r"keras\.layers\.(?:LSTM|GRU|SimpleRNN|RNN|ConvLSTM\dD|Bidirectional)$")
_POOLING = re.compile(r"keras\.layers\.(?:Flatten$|Global\w+Pooling)")
_MAKING = re.compile(r"keras\.layers\.(?:Masking|(?:Reversible)?Embedding)$")


def ended_by(path: str, made: Arguments) -> bool:
    """Whether a mask ends at the layer: one that makes one row of a sequence."""
    if _RECURRENT.match(path):
        sequences = made.get("return_sequences")
        return sequences is None or sequences.constant is False
    return bool(_POOLING.match(path))


def is_masked(run: Run, value: Value) -> bool:
    return any(d.masked for d in run.objects.leaves(value))


def with_masks(value: Value) -> Value:
    return v.mapped(value, lambda d: replace(d, masked=True))


def given(run: Run, args: Arguments) -> bool:
    """Whether what the layer is called on has a mask, or is given one."""
    told = args.get("mask")
    return any(is_masked(run, x) for x in args.positional[:1]) or (told is not None and not told.is_none)


def handed(run: Run, args: Arguments) -> Value:
    """The `mask` that Keras hands to a `call` which takes one and is not told any."""
    leaves = [d for x in args.positional[:1] for d in run.objects.leaves(x)]
    data = [replace(d, rank=None, least=2, width=None, masked=False, mask=True) for d in leaves if d.masked]
    return v.join_all([NONE, *map(Value, data)])


def left_by(run: Run, atom: Instance, args: Arguments, result: Value, node: cst.CSTNode, frame: Frame) -> Value:
    """What an object of a class of the program gives, with the mask that Keras puts beside it."""
    gives = _makes(run, atom) or (_hands_on(run, atom) and given(run, args))
    own = run.classes.method(atom, "compute_mask")
    if own is None and run.classes.method(atom, "call") is None and is_of(run, atom, LAYER.match):
        return v.mapped(result, lambda d: replace(d, masked=gives))
    if own is not None:
        gives = not _computed(run, own, args, node, frame).is_none
    gives = gives or _is_set_unseen(run)
    return with_masks(result) if gives and not is_masked(run, result) else result


def set_by(target: cst.Attribute, value: Value, tensor: Value) -> Value | None:
    """The tensor after `tensor._keras_mask = value`."""
    if target.attr.value != ATTRIBUTE or not isinstance(target.value, cst.Name):
        return None
    return v.mapped(tensor, lambda d: replace(d, masked=not value.is_none))


def _is_set_unseen(run: Run) -> bool:
    """Whether the program gives tensors a mask in a way that is not followed."""
    targets = [binding.target for binding in run.tree.attributes.get(ATTRIBUTE, ())]
    return bool(run.tree.names.get("set_keras_mask")) or any(
        not (isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name)) for target in targets
    )


def _computed(run: Run, method: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What the class's own `compute_mask` makes of the mask before; of which nothing is asked but whether it is one."""
    inputs = args.positional[0] if args.positional else v.NUMBER
    before = Value(Data(mask=True)) if given(run, args) else NONE
    plain = v.mapped(inputs, lambda d: Data())
    return run.calls.call(method, Arguments([plain, before]), node, frame)


def _makes(run: Run, atom: Instance) -> bool:
    """Whether the class comes from a layer of Keras's that makes a mask, unless it is surely told not to."""
    paths = [path for path in classes_of(run, atom) if _MAKING.match(path)]
    if not paths:
        return False
    return any(path.endswith("Masking") for path in paths) or _told(run, atom, "mask_zero").constant is not False


def _hands_on(run: Run, atom: Instance) -> bool:
    """Whether it supports masks: as the class says or, where it says nothing, as the layer of Keras's that it is."""
    of_class = run.classes.of_class(atom.cls, "supports_masking")
    supports = v.join(run.heap.load(atom, "supports_masking"), of_class or NOTHING)
    if supports is not NOTHING:
        return supports.constant is not False
    made = Arguments([], {"return_sequences": _told(run, atom, "return_sequences")})
    layers = [path for path in classes_of(run, atom) if LAYER.match(path) and path not in PLAIN]
    return bool(layers) and not any(ended_by(path, made) for path in layers)


def _told(run: Run, atom: Instance, name: str) -> Value:
    """What the layer of Keras's is told that the object's class comes from."""
    made = arguments_of(run, atom)
    told = made.get(f"super {name}")
    if told is None and run.classes.method(atom, "__init__") is None:
        told = made.get(name) or v.constant(False)
    return told or v.NUMBER


def _compute_mask(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`self.embedding.compute_mask(inputs, mask)`"""
    path = classes_of(run, atom)[0] if classes_of(run, atom) else ""
    if isinstance(atom, Made) and _MAKING.match(path) and path.endswith("Embedding"):
        told = arguments_of(run, atom).get("mask_zero")
        if told is None or told.constant is False:
            return NONE
    return unknown_method(run, atom, args, node)


METHODS: Methods = {"compute_mask": _compute_mask}
