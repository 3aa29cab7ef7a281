"""Loops that TensorFlow runs along an axis: `tf.while_loop`, `tf.scan`; and TensorArray, which they fill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.placement import Partial, Scaled, Sharded, Unknown, options
from migrator.analysis.placing.inference import list_of
from migrator.analysis.values import NOTHING, NUMBER, Data, Made, Site, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

ARRAY = "tensorflow.TensorArray"
_ITEMS = "items"
_MOST_TURNS = 8
_UNSEEN = "what this loop does is not seen"


def _while(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    condition, body, state = args.get("cond", 0), args.get("body", 1), args.get("loop_vars", 2)
    if condition is None or body is None or state is None:
        return v.unseen(_UNSEEN)
    agreed: list[Value] = []

    def turn(state: Value) -> Value:
        given = Arguments(run.objects.sequence_items(state) or [state])
        agreed.append(run.decide(node, run.calls.call(condition, given, node, frame)))
        with run.decided_by(agreed, frame):
            return run.calls.call(body, given, node, frame)

    with run.placing.repairing.ruled_out("it stands in a tf.while_loop"):
        return run.chosen(_until_it_stays(run, turn, state), agreed)


def _scan(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.scan(f, x, initializer)`: what `f(state, item)` has given for each item along the first axis."""
    state = _left(run, args, node, frame)
    if state is None:
        return run.placing.unknown(args, node)
    return v.mapped(state, lambda data: _stacked(run, Value(data), node).data)


def _fold(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.foldl(f, x, initializer)`: what is left of the state in the end."""
    state = _left(run, args, node, frame)
    return run.placing.unknown(args, node) if state is None else state


def _left(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """The state that is left; None where it goes from row to row of a batch, or looks at several, so that all rows have
    to be there."""
    function, elements, start = args.get("fn", 0), args.get("elems", 1), args.get("initializer", 2)
    if function is None or elements is None:
        return v.unseen(_UNSEEN)
    if _goes_through_rows(run, elements):
        return None
    item = v.mapped(_as_tuple(run, elements), lambda data: _along(run, data, node))

    def turn(state: Value) -> Value:
        return run.calls.call(function, Arguments([state, item]), node, frame)

    with run.placing.repairing.ruled_out("it stands in a tf.scan"):
        state = _until_it_stays(run, turn, item if start is None or start.is_none else start)
    is_lost = any(isinstance(d.placement, Unknown) or d.needs for d in run.objects.leaves(state))
    return None if is_lost else state


def _goes_through_rows(run: Run, elements: Value) -> bool:
    """Whether the items may be the rows of a batch, one after the other."""
    leaves = run.objects.leaves(elements)
    return any(isinstance(p, Sharded) and p.axis == 0 for d in leaves for p in options(d.placement))


def _until_it_stays(run: Run, turn: Callable[[Value], Value], state: Value) -> Value:
    """The state that a loop is left with, however often it turns."""
    state = _as_tuple(run, state)
    for _ in range(_MOST_TURNS):
        after = v.join(state, _as_tuple(run, turn(state)))
        if after == state:
            return state
        state = after
    return v.unseen(_UNSEEN)


def _as_tuple(run: Run, value: Value) -> Value:
    items = run.objects.sequence_items(value)
    return v.of(Tuple(tuple(_as_tuple(run, item) for item in items))) if items is not None else value


def _along(run: Run, data: Data, node: cst.CSTNode) -> Data | None:
    """An item along the first axis, which is none of the rows of a batch."""
    return run.placing.op("operator.getitem", Arguments([Value(data), v.constant(0)]), node).data


def _stacked(run: Run, item: Value, node: cst.CSTNode) -> Value:
    """So many of these along a new first axis as nobody has counted."""
    return run.placing.op("tensorflow.stack", Arguments([list_of(run, node, item)]), node)


# -- arrays ------------------------------------------------------------------------------------------------------


def _array(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if any(not d.is_replicated or d.needs for _, x in args.all() for d in run.objects.leaves(x)):
        return run.placing.unknown(args, node)
    return v.of(Made(ARRAY, Site(node, frame.context)))


def array_method(run: Run, atom: Made, name: str, args: Arguments, node: cst.CSTNode) -> Value:
    held = run.heap.load(atom, _ITEMS)
    if name in ("write", "unstack", "scatter"):
        given = args.get("value", 0 if name == "unstack" else 1) or v.unseen("what a TensorArray is given is not seen")
        items = given if name == "write" else v.mapped(given, lambda data: _along(run, data, node))
        run.heap.store(atom, _ITEMS, _kept(run, items, args, node))
        return v.of(atom)
    if name == "read":
        return held
    if name in ("stack", "gather"):
        return _stacked(run, held, node) if held is not NOTHING else NUMBER
    if name == "concat":
        return run.placing.op("tensorflow.concat", Arguments([list_of(run, node, held), v.constant(0)]), node)
    if name in ("identity", "mark_used", "close", "size"):
        return v.of(atom) if name == "identity" else NUMBER
    return v.unseen(f"what `.{name}` makes of a TensorArray is not known")


def _kept(run: Run, items: Value, args: Arguments, node: cst.CSTNode) -> Value:
    """What the array holds of these: rows as they are, but of the whole batch what is a number of a worker's part of
    it, since those of several batches may follow."""
    if any(isinstance(p, (Partial, Scaled)) for d in run.objects.leaves(items) for p in options(d.placement)):
        return run.placing.unknown(args, node)
    return items


FUNCTIONS: dict[str, Handler] = {
    "tensorflow.while_loop": _while,
    "keras.ops.while_loop": _while,
    "tensorflow.scan": _scan,
    "tensorflow.foldl": _fold,
    "tensorflow.foldr": _fold,
    ARRAY: _array,
}
