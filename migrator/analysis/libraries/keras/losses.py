"""Losses of Keras's and of the program: what they give for targets and predictions, and what is made of the samples'
values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import masks
from migrator.analysis.libraries.keras.names import LOSS, full_name
from migrator.analysis.libraries.keras.objects import arguments_of, classes_of, is_of
from migrator.analysis.placement import LOCAL, REPLICATED, Partial, Sharded, Unknown
from migrator.analysis.values import (
    NONE,
    NOTHING,
    NUMBER,
    Bound,
    Container,
    Curried,
    Data,
    External,
    Function,
    Instance,
    Made,
    Tuple,
    Value,
)
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_REDUCTIONS = {"none": "none", "sum": "sum", "auto": "mean", "sum_over_batch_size": "mean", "mean": "mean"}


# -- objects ----------------------------------------------------------------------------------------------------------


def call(run: Run, atom: Made, args: Arguments, node: cst.CSTNode) -> Value:
    """The call of an object of a loss class of Keras's."""
    return run.placing.op(atom.path, args, node, arguments_of(run, atom))


def call_whole(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """The call of a loss that is given the whole batch: what it reads besides may be a worker's own."""
    is_seen = not any(isinstance(o, Container) for _, x in args.all() for o in x)
    taken = _of_all_rows(args) if is_seen else args
    result = run.calls.call(run.heap.load(atom, "loss"), taken, node, frame)
    done = frozenset((v.Repair(atom.site.node, frozenset(), "", form="done"),))
    given = [d for _, x in args.all() for d in run.objects.leaves(x)]
    lost = next((d.placement for d in given if isinstance(d.placement, (Unknown, type(LOCAL)))), REPLICATED)
    if any(d.whole and d.needs for d in given):
        lost = Unknown("the loss is given all rows of the batch, where Keras takes those of a worker")
    needs = done.union(*(d.needs for d in given))

    def whole(data: Data) -> Data:
        # Of a worker's rows in dictionaries all becomes right that the loss does with them.
        besides = frozenset(r for r in data.needs if is_seen or not r.blocked)
        own = data.placement if is_seen and lost == REPLICATED else lost
        if not isinstance(own, Unknown) and own not in (REPLICATED, Partial("mean")):
            own = Unknown("the loss is given all rows of the batch, and reads what a worker has of its own")
        return Data(own, needs=needs | besides)

    return v.mapped(result, whole)


def _of_all_rows(args: Arguments) -> Arguments:
    """The arguments with all rows in the place of a worker's, also of what a mask keeps."""

    def whole(value: Value) -> Value:
        return v.mapped(
            value,
            lambda d: (
                replace(d, placement=REPLICATED, whole=True, masked=False, needs=frozenset())
                if isinstance(d.placement, Sharded)
                else d
            ),
        )

    keywords = {name: whole(value) for name, value in args.keywords.items()}
    return Arguments([whole(value) for value in args.positional], keywords, args.rest, args.nodes)


def call_own(run: Run, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A loss class of the program: what `call` gives, reduced as the object was told to."""
    call = run.classes.method(atom, "call")
    return call_by(run, atom, call, args, node, frame) if call is not None else run.placing.unknown(args, node)


def call_by(run: Run, atom: Made | Instance, call: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What a loss makes of the values that its `call` gives, be that set from outside."""
    if len(args.positional) > 1 and masks.is_masked(run, args.positional[1]) and _reduction(run, atom) != "none":
        return v.unseen(masks.REASON)
    given = Arguments(
        args.positional[:2], {k: x for k, x in args.keywords.items() if k != "sample_weight"}, args.rest, args.nodes
    )
    result = _weighed(run, run.calls.call(call, given, node, frame), args.get("sample_weight", 2), node)
    return _reduced(run, result, _reduction(run, atom), node)


def call_inherited(run: Run, atom: Instance, args: Arguments, node: cst.CSTNode) -> Value:
    """`super().call(y_true, y_pred)`: the values of the samples."""
    path = next(p for p in classes_of(run, atom) if LOSS.match(p))
    unreduced = Arguments([], {"reduction": v.constant("none")})
    return run.placing.op(path, args, node, unreduced)


# -- reductions -------------------------------------------------------------------------------------------------------


def _reduction(run: Run, atom: v.Atom) -> str:
    """ "none", "sum", "mean", or empty where it is not seen."""
    given = [arguments_of(run, atom).get("reduction"), arguments_of(run, atom).get("super reduction")]
    for value in given:
        if value is None:
            continue
        constant = value.constant
        only = value.only
        text = (
            constant
            if isinstance(constant, str)
            else only.path.rpartition(".")[2]
            if isinstance(only, External)
            else ""
        )
        return _REDUCTIONS.get(text.lower(), "")
    return "mean"


def _weighed(run: Run, value: Value, weights: Value | None, node: cst.CSTNode) -> Value:
    """What Keras makes of the values of the samples, or of the one number that a loss gives, and the weights of the
    samples. Those of rows it gives as many axes as these have."""
    if weights is None or weights.is_none:
        return value
    if all(d is not None and d.placement == Sharded(0) for d in (value.data, weights.data)):
        return v.with_needs(value, frozenset(r for d in run.objects.leaves(weights) for r in d.needs))
    return run.operator("operator.mul", (value, weights), (None, None), node)


def _reduced(run: Run, value: Value, reduction: str, node: cst.CSTNode) -> Value:
    """What Keras makes of the values of the samples."""
    data = value.data
    if data is None or reduction == "":
        return v.unseen("how this loss is reduced is not seen")
    if reduction == "none":
        return value
    path = "tensorflow.reduce_mean" if reduction == "mean" else "tensorflow.reduce_sum"
    return run.placing.op(path, Arguments([Value(replace(data, nested=False))]), node)


# -- as `compile` is given them ---------------------------------------------------------------------------------------


def of_compiled(run: Run, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What the loss given to `compile` is, as `fit` applies it to targets and predictions, and weighs it by a
    `sample_weight`."""
    weights = args.get("sample_weight") or NONE
    args = _of_one_output(run, Arguments(args.positional, {}, args.rest, args.nodes))
    parts = [loss]
    if not any(isinstance(a, (Function, Bound, Made, Instance, External, Curried)) for a in loss) and loss.data is None:
        items = run.objects.sequence_items(loss)
        heap = run.heap
        held = [heap.load(a, k) for a in loss if isinstance(a, Container) for k in heap.fields(a)]
        parts = items if items is not None else held or [run.objects.parts(loss)]
    elif not all(map(_is_of_outputs, args.positional[:2])):
        return _applied(run, parts, args, weights, node, frame)
    args = Arguments([_any_part(run, x) for x in args.positional], args.keywords, args.rest)
    return _applied(run, parts, args, _any_part(run, weights), node, frame)


def _of_one_output(run: Run, args: Arguments) -> Arguments:
    """Of a model that gives a list of one output, `Model(inputs=[a], outputs=[b])`, with the targets by themselves."""
    if len(args.positional) < 2 or args.positional[0].data is None:
        return args
    items = run.objects.sequence_items(args.positional[1])
    if items is None or len(items) != 1:
        return args
    return Arguments([args.positional[0], items[0], *args.positional[2:]], args.keywords, args.rest, args.nodes)


def _is_of_outputs(value: Value) -> bool:
    """Whether it is those of a model with several outputs, to each of which Keras applies the loss by itself."""
    return value.data is None and bool(value.objects) and all(isinstance(o, (Tuple, Container)) for o in value.objects)


def _applied(
    run: Run, parts: Sequence[Value], args: Arguments, weights: Value, node: cst.CSTNode, frame: Frame
) -> Value:
    found: list[Value] = []
    args = _aligned(args)
    for part in parts:
        for atom in part:
            found.append(_compiled_part(run, atom, args, weights, node, frame))
        if part.data is not None and not part.is_none:
            found.append(_named(run, part.data, args, node))
    return v.join_all(found) if found else NUMBER


def _aligned(args: Arguments) -> Arguments:
    """Targets with the axis of one value that predictions have: Keras adds it where they lack it."""
    true, predicted = (x.data for x in (*args.positional[:2], NUMBER, NUMBER)[:2])
    if true is None or predicted is None or true.rank is not None or predicted.size_of_last != 1:
        return args
    aligned = Value(replace(true, least=max(true.least, 2)), args.positional[0].objects)
    return Arguments([aligned, *args.positional[1:]], args.keywords, args.rest, args.nodes)


def _any_part(run: Run, value: Value) -> Value:
    return value if value.data is not None else run.objects.parts(value)


def _compiled_part(run: Run, atom: v.Atom, args: Arguments, weights: Value, node: cst.CSTNode, frame: Frame) -> Value:
    made = arguments_of(run, atom).get("reduction") if isinstance(atom, (Made, Instance)) else None
    if made is not None and made.constant == "mean_with_sample_weight":
        return v.unseen("it divides by the weights of all samples")
    is_function = isinstance(atom, (Function, Bound, Curried)) or (
        isinstance(atom, External) and not atom.path.rpartition(".")[2][:1].isupper()
    )
    if isinstance(atom, Instance) or (isinstance(atom, Made) and run.objects.own_call(atom) is not NOTHING):
        is_function = not is_of(run, atom, lambda p: p.startswith("keras.losses."))  # a plain object that is called
        if not is_function:
            args = Arguments(args.positional, {"sample_weight": weights}, args.rest, args.nodes)
    # A loss of Keras's own gives values of samples, and one that is given the whole batch is given all weights.
    result = run.calls.call(v.of(atom), args, node, frame)
    return _reduced(run, _weighed(run, result, weights, node), "mean", node) if is_function else result


def _named(run: Run, data: Data, args: Arguments, node: cst.CSTNode) -> Value:
    if isinstance(data.constant, str):
        for path in (f"keras.losses.{data.constant}", f"keras.losses.{_snake(data.constant)}"):
            path = full_name(path)
            row = ops.lookup(path)
            if row is not None:
                return _reduced(run, run.placing.place(row, path, args, node), "mean", node)
    return v.unseen("which loss this is cannot be seen")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
