"""scatter and broadcast of values: what one rank has, to all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.agreement import compare_calls, describe, tell
from lockstep.collectives.leaves import Leaf, to_leaf
from lockstep.collectives.texts import is_text, read, written
from lockstep.collectives.world import backend, check_root
from lockstep.script.variables import storage

_SCATTER_ADVICE = "Every worker must come to the same scatter, with the same root."
_BROADCAST_ADVICE = "Every worker must broadcast values of the same structure, dtypes and shapes at the same point."
_ERRORS = {"TypeError": TypeError, "ValueError": ValueError}


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def scatter(values: Any, root_rank: int) -> Any:
    check_root(root_rank)
    call = f"scatter(root_rank={root_rank})"
    if not tf.executing_eagerly():
        # What the other ranks get has to be known when the function is traced.
        leaves = [to_leaf(value, "scatter") for value in tf.nest.flatten(values)]
        compare_calls(call, describe([leaf.tensor for leaf in leaves]), _SCATTER_ADVICE)
        return tf.nest.pack_sequence_as(values, _own_shards(leaves, root_rank))
    leaves = []
    plan = _plan(values, leaves) if backend().rank == root_rank else {}
    plan = json.loads(tell(call, json.dumps(plan), _SCATTER_ADVICE)[root_rank])
    if "error" in plan:
        raise _ERRORS[plan["error"]](plan["text"])
    if backend().rank != root_rank:
        _unpack(plan, lambda leaf: leaves.append(_stand_in(leaf)))
    shards = iter(_own_shards(leaves, root_rank))
    return _unpack(plan, lambda leaf: next(shards))


def is_value(value: Any) -> bool:
    """Whether this is a tensor, array, number or text, which cannot be changed in place, and no variable or model."""
    if value is None or is_text(value) or isinstance(value, (int, float, complex, np.generic, np.ndarray)):
        return True
    return tf.is_tensor(value) and storage(value) is None


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def broadcast_values(values: list[Any], root_rank: int) -> list[Any]:
    """The root's values, each as the kind of thing that was given."""
    check_root(root_rank)
    texts = [value for value in values if is_text(value)]
    call = f"broadcast(root_rank={root_rank})"
    leaves = [to_leaf(value, "broadcast") for value in values if not is_text(value)]
    if any(leaf.kind == "slices" for leaf in leaves):
        raise TypeError("lockstep.broadcast: IndexedSlices cannot be broadcast; tf.convert_to_tensor makes them dense")
    if leaves:
        compare_calls(call, describe([leaf.tensor for leaf in leaves]), _BROADCAST_ADVICE)
    sent = iter([leaf.restore(tensor) for leaf, tensor in zip(leaves, _of_root(leaves, root_rank))])
    read_texts = iter(_texts_of_root(texts, call, root_rank))
    return [next(read_texts) if is_text(value) else next(sent) for value in values]


def _texts_of_root(texts: list[Any], call: str, root_rank: int) -> list[Any]:
    if not texts:
        return []
    said = tell(f"{call} of {len(texts)} texts", json.dumps([written(text) for text in texts]), _BROADCAST_ADVICE)
    return [read(sent, like) for sent, like in zip(json.loads(said[root_rank]), texts)]


def own_rows(tensor: Any, function: str) -> Any:
    """This rank's shard of [m, ...]: the rows from m * rank / size to m * (rank + 1) / size.

    Raises ValueError when m is not divisible by the number of workers (inside a function, where m is known
    only at run time, tf.errors.InvalidArgumentError) and for scalars.
    """
    size = backend().size
    rows = tensor.shape[0] if tensor.shape.rank else None
    if tensor.shape.rank == 0 or (rows is not None and rows % size):
        raise ValueError(
            f"lockstep.{function}: a tensor of shape {tensor.shape} cannot be divided among {size} workers; its "
            f"first axis must be divisible by {size}"
        )
    if rows is None:
        rows = tf.shape(tensor)[0]
        text = f"lockstep.{function}: the first axis must be divisible by the number of workers"
        with tf.control_dependencies([tf.debugging.assert_equal(rows % size, 0, text)]):
            rows = tf.identity(rows)
    part = rows // size
    return tensor[backend().rank * part : (backend().rank + 1) * part]


def no_slices(leaf: Leaf, function: str) -> Leaf:
    """The leaf; raises TypeError for IndexedSlices, whose rows stand for no rows of the whole."""
    if leaf.kind == "slices":
        raise TypeError(f"lockstep.{function}: IndexedSlices cannot be divided among workers")
    return leaf


def _of_root(leaves: list[Leaf], root_rank: int) -> list[Any]:
    """The root's tensors, None for None."""
    present = [leaf.tensor for leaf in leaves if leaf.tensor is not None]
    sent = iter(backend().broadcast(present, root_rank) if present else [])
    return [None if leaf.tensor is None else next(sent) for leaf in leaves]


def _own_shards(leaves: list[Leaf], root_rank: int) -> list[Any]:
    for leaf in leaves:
        no_slices(leaf, "scatter")
    tensors = _of_root(leaves, root_rank)
    return [
        leaf.restore(own_rows(tensor, "scatter")) if tensor is not None else None
        for leaf, tensor in zip(leaves, tensors)
    ]


def _plan(values: Any, leaves: list[Leaf]) -> dict[str, Any]:
    """The structure of the root's values, as JSON can carry it; their leaves are appended to leaves."""
    try:
        return _node(values, leaves)
    except (TypeError, ValueError) as error:
        return {"error": type(error).__name__, "text": str(error)}


def _node(value: Any, leaves: list[Leaf]) -> dict[str, Any]:
    if isinstance(value, dict):
        return {"dict": [[key, _node(child, leaves)] for key, child in value.items()]}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_node(child, leaves) for child in value]}
    leaf = no_slices(to_leaf(value, "scatter"), "scatter")
    leaves.append(leaf)
    if leaf.tensor is None:
        return {"kind": leaf.kind}
    own_rows(leaf.tensor, "scatter")
    return {"kind": leaf.kind, "dtype": leaf.tensor.dtype.name, "shape": leaf.tensor.shape.as_list()}


def _unpack(plan: dict[str, Any], fill: Callable[[dict[str, Any]], Any]) -> Any:
    """The structure that a plan describes, with what `fill` gives for each of its leaves."""
    if "dict" in plan:
        return {key: _unpack(child, fill) for key, child in plan["dict"]}
    if "list" in plan:
        return [_unpack(child, fill) for child in plan["list"]]
    if "tuple" in plan:
        return tuple([_unpack(child, fill) for child in plan["tuple"]])
    return fill(plan)


def _stand_in(leaf: dict[str, Any]) -> Leaf:
    """What a rank that is to receive a tensor hands to the broadcast."""
    return Leaf(tf.zeros(leaf["shape"], leaf["dtype"]) if "dtype" in leaf else None, leaf["kind"])
