"""Where tensors come from: what all workers have alike, or a worker's own rows.

What gathering or reducing has made is the same on all workers, and so is what is computed of it, of constants, of
variables and of what all draw alike. What is cut, what comes out of an iterator and what a function is given is a
worker's own. The graph tells, also those of the functions that it calls; outside of a function `eager_origins` does.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import function_def_to_graph, ops

from lockstep.shards import eager_origins
from lockstep.shards.eager_origins import ALIKE, FIRST_INPUT_ONLY, OWN, SAME_ELEMENTS, SHAPES

_NAME = "lockstep_rows_"
_PLACEHOLDERS = ("Placeholder", "PlaceholderWithDefault")
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Stateful, and of one state on all workers: variables, and generators that lockstep has seeded.
_ALIKE_STATE = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Random", "CandidateSampler", "Uniform", "Rng")
# What makes values of a size, by which of its inputs tells that.
_SIZED = {"Fill": 0, "BroadcastTo": 1, "Tile": 1}


@dataclass(frozen=True)
class Part:
    """Some of the elements of a tensor, one after the other, as a tensor; `calls` lead to where that is, if anywhere
    else. shape: the one with the most axes of those that the elements have on the way there."""

    tensor: Any
    calls: tuple[Any, ...] = ()
    shape: tuple[int | None, ...] = ()


def alike(tensor: Any) -> Any:
    """The tensor, of which is known from here on that all workers have the same."""
    return _marked(tensor, ALIKE)


def own(tensor: Any) -> Any:
    """The tensor, of which is known from here on that it is a worker's own."""
    return _marked(tensor, OWN)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def told(indices: Any, *, for_all: bool) -> Any:
    """The indices, of which the script says whether all workers look up the same by them, for all samples at once."""
    if hasattr(indices, "shape") and not tf.is_tensor(indices) and not isinstance(indices, (np.ndarray, np.generic)):
        return indices  # of Keras's, where a model is made
    follow()
    marked = alike if for_all else own
    if isinstance(indices, tf.RaggedTensor):
        return indices.with_flat_values(marked(tf.identity(indices.flat_values)))
    return marked(tf.identity(indices))


def _marked(tensor: Any, origin: str) -> Any:
    if tf.executing_eagerly():
        return eager_origins.noted(tensor, origin)
    return tf.identity(tensor, name=_NAME + origin)


def follow() -> None:
    """Outside of functions, too, from here on."""
    eager_origins.follow(_of_function)


def parts_of(tensor: Any) -> list[Part]:
    """Of what a tensor in a graph was put together, along its first axis."""
    found: list[Part] = []
    waiting = [Part(tensor)]
    while waiting:
        part = waiting.pop()
        operation = part.tensor.op
        sizes = () if part.tensor.shape.rank is None else tuple(part.tensor.shape)
        part = replace(part, shape=max(part.shape, sizes, key=len))
        if _mark_of(operation):
            found.append(part)
        elif operation.type in SAME_ELEMENTS:
            waiting.append(replace(part, tensor=operation.inputs[0]))
        elif operation.type == "IdentityN":
            waiting.append(Part(operation.inputs[part.tensor.value_index], part.calls))
        elif operation.type == "ConcatV2" and _is_along_first(operation):
            waiting += [Part(one, part.calls) for one in reversed(operation.inputs[:-1])]
        elif operation.type in _CALLS:
            waiting.append(_in_call(part))
        else:
            found.append(part)
    return found


def is_own(part: Part) -> bool:
    """Whether some of it may be a worker's own."""
    origins, given = origins_of(part)
    return OWN in origins or bool(given)


def origins_of(part: Part) -> tuple[set[str], set[int]]:
    """What it may come from, constants apart; and from which arguments of the function that no call is known of."""
    found: set[str] = set()
    given: set[int] = set()
    seen: set[Any] = set()
    waiting = [part]
    while waiting and OWN not in found:
        part = waiting.pop()
        if isinstance(part.tensor, ops.EagerTensor):
            found.add(eager_origins.origin_of(part.tensor) or OWN)
            continue
        operation = part.tensor.op
        key = (id(operation.graph), part.tensor.name, part.calls)
        if key in seen or part.tensor.dtype == tf.resource:
            continue
        seen.add(key)
        if _mark_of(operation):
            found.add(_mark_of(operation))
        elif operation.type in _PLACEHOLDERS:
            _given(part, found, given, waiting)
        elif operation.type in _CALLS:
            waiting.append(_in_call(part))
        elif operation.type == "IdentityN":
            waiting.append(Part(operation.inputs[part.tensor.value_index], part.calls))
        elif operation.type not in SHAPES:
            if _is_not_alike(operation):
                found.add(OWN)
            inputs = list(operation.inputs)[:1] if operation.type in FIRST_INPUT_ONLY else operation.inputs
            waiting += [Part(one, part.calls) for one in inputs]
            if operation.type in _SIZED:
                waiting += _with_rows(Part(operation.inputs[_SIZED[operation.type]], part.calls))
    return found, given


def _with_rows(sizes: Part) -> list[Part]:
    """Of which values the sizes are the numbers of rows: what is filled, or repeated, as often has a row for each."""
    found, waiting = [], [sizes]
    while waiting:
        tensor, calls = waiting[-1].tensor, waiting.pop().calls
        if isinstance(tensor, ops.EagerTensor):
            continue
        operation = tensor.op
        if operation.type == "Shape":
            found.append(Part(operation.inputs[0], calls))
        elif operation.type == "StridedSlice":
            first = tf.get_static_value(operation.inputs[1])
            if first is None or int(first[0]) == 0:
                waiting.append(Part(operation.inputs[0], calls))
        elif operation.type in (*SAME_ELEMENTS, "Pack", "ConcatV2"):
            waiting += [Part(one, calls) for one in operation.inputs]
    return found


def _given(part: Part, found: set[str], given: set[int], waiting: list[Part]) -> None:
    """What a function is given: by its call, by the function around it, or by whoever calls it later."""
    graph = part.tensor.graph
    names = [one.name for one in getattr(graph, "inputs", ())]
    captured = {inner.name: outer for outer, inner in getattr(graph, "captures", ())}
    name = part.tensor.name
    if part.calls and name in names:
        waiting.append(Part(part.calls[-1].inputs[names.index(name)], part.calls[:-1]))
    elif name in captured:
        waiting.append(Part(captured[name], part.calls))
    elif name in names:
        given.add(names.index(name))
    else:
        found.add(OWN)


def _mark_of(operation: Any) -> str:
    name = operation.name.rpartition("/")[2]
    if operation.type != "Identity" or not name.startswith(_NAME):
        return ""
    return ALIKE if name.startswith(_NAME + ALIKE) else OWN


def _is_along_first(operation: Any) -> bool:
    axis = tf.get_static_value(operation.inputs[-1])
    return axis is not None and (int(axis) == 0 or operation.outputs[0].shape.rank == 1)


def _is_not_alike(operation: Any) -> bool:
    """Whether it does more than compute of what it is given: runs functions, which are not looked into, or has a state
    that may be a worker's own."""
    if any(attribute.type in ("func", "list(func)") for attribute in operation.op_def.attr):
        return True
    return operation.op_def.is_stateful and not any(name in operation.type for name in _ALIKE_STATE)


def _in_call(part: Part) -> Part:
    operation = part.tensor.op
    body = _body_of(operation.get_attr("f").name)
    return Part(body.outputs[part.tensor.value_index], (*part.calls, operation))


@functools.cache
def _body_of(name: str) -> Any:
    """The graph of a function that TensorFlow knows by this name."""
    return function_def_to_graph.function_def_to_graph(context.context().get_function_def(name))


@functools.cache
def _of_function(name: str, place: int) -> list[tuple[set[str], set[int]]]:
    found = [origins_of(part) for part in parts_of(_body_of(name).outputs[place])]
    return [(origins if origins or given else {ALIKE}, given) for origins, given in found]  # constants: see common_rows
