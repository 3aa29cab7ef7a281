"""Where tensors come from that are computed outside of functions: what is known of some is followed op by op.

From the first gather on, each op tells what it has made of what; the tensors themselves keep that, as an attribute.
What comes from nowhere is a worker's own, or a constant. So it is with what was in NumPy's hands, but for an array that
was gathered, which is known again by its content.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

ALIKE = "alike"
OWN = "own"
SHAPES = ("Shape", "ShapeN", "Size", "Rank")
# Of these only what is cut or reshaped matters: the ranks' rows are compared before they are added up.
FIRST_INPUT_ONLY = ("StridedSlice", "Slice", "Reshape", "BroadcastTo", "Tile")
# These keep all elements, in their order.
SAME_ELEMENTS = ("Identity", "Reshape", "Cast", "ExpandDims", "Squeeze", "StopGradient", "Snapshot")

_MIXED = "mixed"  # inside of a function, where nobody can tell how many of its elements are whose
_ATTRIBUTE = "_lockstep_origins"
Origins = tuple[tuple[int, str], ...]  # of a tensor's elements, so many at a time; "": a worker's own, or a constant
OfFunction = Callable[[str, int], list[tuple[set[str], set[int]]]]

_arrays: deque[Any] = deque(maxlen=16)


def noted(tensor: Any, origin: str) -> Any:
    setattr(tensor, _ATTRIBUTE, ((int(tensor.shape.num_elements()), origin),))
    return tensor


def note_array(array: Any) -> None:
    """An array of NumPy's that is the same on all workers."""
    _arrays.append(array)


def origins_of(tensor: Any) -> Origins:
    """Those of its elements, one part after the other. Raises TypeError where a function has put together what all
    workers have alike and their own."""
    found = _known(tensor) or _unknown(tensor)
    if any(origin == _MIXED for _, origin in found):
        raise mixed_in_function()
    return found


def mixed_in_function() -> TypeError:
    return TypeError(
        "lockstep.all_reduce: a tf.function that this training step calls looks up rows of one variable both for each "
        "of this worker's samples and once for all samples (constants, or behind an all_gather); take the gradient in "
        "that function, make the whole step one, or tell which constants are rows by lockstep.for_each_sample"
    )


def origin_of(tensor: Any) -> str:
    """That of all its elements together."""
    return _together(origin for _, origin in _known(tensor))


def _known(tensor: Any) -> Origins:
    found = getattr(tensor, _ATTRIBUTE, ())
    return ((int(tensor.shape.num_elements()), ALIKE),) if not found and _is_array(tensor) else found


def _unknown(tensor: Any) -> Origins:
    return ((int(tensor.shape.num_elements()), ""),)


def _is_array(tensor: Any) -> bool:
    if not (_arrays and tensor.dtype.is_integer and tensor.shape.rank):
        return False
    return any(one.shape == tensor.shape and np.array_equal(one, tensor.numpy()) for one in _arrays)


def _together(origins: Iterable[str]) -> str:
    found = set(origins)
    return next((one for one in (_MIXED, OWN, ALIKE) if one in found), "")


def follow(of_function: OfFunction) -> None:
    """From here on, in this thread. of_function: what the parts of an output of a function, by its name, come from, and
    from which of its inputs."""
    ours = _callback(of_function)
    if ours not in context.context().op_callbacks:
        with tf.init_scope():
            op_callbacks.add_op_callback(ours)


@functools.cache
def _callback(of_function: OfFunction) -> Any:
    def followed(kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        if graph is not None or not outputs:
            return
        name = kind.decode() if isinstance(kind, bytes) else kind
        if name.startswith("__"):
            _follow_function(name, inputs, outputs, of_function)
        elif name not in SHAPES:
            _follow_op(name, inputs, outputs)

    return followed


def _follow_op(name: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    given = inputs[:1] if name in FIRST_INPUT_ONLY else inputs
    known = [_known(one) for one in given]
    if not any(known):
        return
    if name in SAME_ELEMENTS:
        setattr(outputs[0], _ATTRIBUTE, known[0])
    elif name == "ConcatV2" and int(inputs[-1]) % outputs[0].shape.rank == 0:
        parts = (_known(one) or _unknown(one) for one in given[:-1])
        setattr(outputs[0], _ATTRIBUTE, tuple(itertools.chain(*parts)))
    else:
        for output in outputs:
            noted(output, _together(origin for one in known for _, origin in one))


def _follow_function(name: str, inputs: Sequence[Any], outputs: Sequence[Any], of_function: OfFunction) -> None:
    for place, output in enumerate(outputs):
        if output.dtype not in (tf.int32, tf.int64):
            continue
        parts = of_function(name, place)
        origins = {_together([*origins, *(origin_of(inputs[one]) for one in given)]) for origins, given in parts}
        if origins != {""}:
            noted(output, _MIXED if len(origins) > 1 else origins.pop())
