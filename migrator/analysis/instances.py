"""What `isinstance(layer, keras.layers.Dropout)` tells of a name, in the branches of a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.frames import Frame
from migrator.analysis.values import Atom, Class, External, Instance, Made, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Keras's layers that a program asks for, with those that derive from them or are another name of them, in any version.
DERIVED = {
    "Activation": (),
    "Add": (),
    "AveragePooling2D": ("AvgPool2D",),
    "BatchNormalization": ("SyncBatchNormalization",),
    "Concatenate": (),
    "Conv1D": ("Conv1DTranspose", "Convolution1D", "Convolution1DTranspose", "DepthwiseConv1D"),
    "Conv2D": ("Conv2DTranspose", "Convolution2D", "Convolution2DTranspose", "DepthwiseConv2D"),
    "Conv2DTranspose": ("Convolution2DTranspose",),
    "Dense": (),
    "Dropout": ("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    "Embedding": ("ReversibleEmbedding",),
    "Flatten": (),
    "LayerNormalization": (),
    "LeakyReLU": (),
    "MaxPooling2D": ("MaxPool2D",),
    "MultiHeadAttention": (),
    "ReLU": (),
    "Reshape": (),
    "UpSampling2D": (),
    "ZeroPadding2D": (),
}
_LAYERS = "keras.layers."


def assume_kind(run: Run, call: cst.Call, outcome: bool, frame: Frame) -> None:
    """Leaves of the name that is asked for its class what it may be where the answer is `outcome`."""
    is_asked = run.seen.get(call.func, Value()).only == External("builtins.isinstance")
    if not is_asked or len(call.args) != 2 or any(arg.star or arg.keyword for arg in call.args):
        return
    name, names = call.args[0].value, frame.names
    value = (names or {}).get(name.value) if isinstance(name, cst.Name) else None
    asked = _classes(run.seen.get(call.args[1].value, Value()))
    if names is None or value is None or not asked or not isinstance(name, cst.Name):
        return
    kept = frozenset(atom for atom in value if _is_any(run, atom, asked) is not (not outcome))
    if kept != value.objects:
        names[name.value] = Value(value.data, kept)


def _classes(asked: Value) -> list[Atom]:
    """The class, or the classes of a tuple, that surely are asked for."""
    if isinstance(asked.only, Tuple):
        several = [_classes(item) for item in asked.only.items]
        return [cls for classes in several for cls in classes] if all(several) else []
    return [asked.only] if isinstance(asked.only, (Class, External)) else []


def _is_any(run: Run, atom: Atom, asked: list[Atom]) -> bool | None:
    answers = [_is_one(run, atom, cls) for cls in asked]
    return True if True in answers else None if None in answers else False


def _is_one(run: Run, atom: Atom, cls: Atom) -> bool | None:
    """Whether the object is one of the class; None where that is not sure."""
    if isinstance(cls, Class):
        return _is_of_program(run, atom, cls)
    assert isinstance(cls, External)
    kind = cls.path[len(_LAYERS) :]
    if not cls.path.startswith(_LAYERS) or kind not in DERIVED or not isinstance(atom, Made):
        return None
    if not atom.path.startswith(_LAYERS):
        return None
    made = atom.path[len(_LAYERS) :]
    return True if made == kind else None if made in DERIVED[kind] else False


def _is_of_program(run: Run, atom: Atom, cls: Class) -> bool | None:
    """Whether it is one of a class of the program's, whose metaclass does not answer in its place."""
    is_asking = any(base.startswith(("abc.", "typing.")) for base in run.classes.external_bases(cls))
    if is_asking or any(each.node.keywords or each.node.decorators for each in run.classes.lineage(cls)):
        return None
    if isinstance(atom, Made):
        return False if atom.path.startswith(_LAYERS) else None
    if not isinstance(atom, Instance):
        return None
    lines = run.classes.lines(atom.cls)
    if all(cls in line for line in lines):
        return True
    is_seen = run.classes.is_seen(atom.cls)
    return False if is_seen and not any(cls in line for line in lines) else None
