"""Models that are trained and run on data: `fit`, `train_on_batch`, `train_step`, `predict`, `evaluate`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import applying, callbacks, compiling, metrics, penalties
from migrator.analysis.libraries.keras.objects import Methods
from migrator.analysis.placement import REPLICATED, Partial, Unknown
from migrator.analysis.placing import giving_back
from migrator.analysis.values import NONE, NOTHING, NUMBER, Container, Data, Instance, Made, Site, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


_MAKING = ("make_test_function", "make_predict_function")


# -- training ---------------------------------------------------------------------------------------------------------


def _fit(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    x, y = args.get("x", 0) or NUMBER, args.get("y", 1)
    batch = _weighed(run, _batch(run, x, y, node), args, sample=10, of_class=9)
    run.libraries.keras.training.append(node)
    run.libraries.keras.fitted.append(atom)
    run.libraries.keras.on_parts.append(not all(d.is_replicated for d in run.objects.leaves(batch)))
    try:
        with run.changing.traced(None, [batch], by_shape=False) if not compiling.is_eager(run) else nullcontext():
            _train(run, atom, batch, node, frame)
        metrics.note_own(run, atom, node, frame)
    finally:
        run.libraries.keras.training.pop()
        run.libraries.keras.fitted.pop()
        run.libraries.keras.on_parts.pop()
    validation = args.get("validation_data")
    if validation is not None and not validation.is_none:
        _infer_whole(run, atom, _pair(run, validation), node, frame)
    callbacks.call(run, atom, args.get("callbacks"), node, frame)
    return NUMBER


def _train_on_batch(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    x, y = args.get("x", 0) or NUMBER, args.get("y", 1) or NUMBER
    batch = _weighed(run, v.of(Tuple((_rows(run, x), _rows(run, y)))), args, sample=2, of_class=3)
    with run.changing.traced(None, [batch]) if not compiling.is_eager(run) else nullcontext():
        _train(run, atom, batch, node, frame)
    run.trained_on_batches[node] |= compiling.compiles_of(run, atom)
    told = Container("dict", Site(node, frame.context))
    mean, odd = Value(Data(Partial("mean"), nested=True)), run.odd_metrics.get(node)
    if not odd:
        return mean
    for name in (0, "loss"):
        run.heap.store(told, name, mean)
    run.heap.store(told, None, v.unseen("how the workers' parts of this metric add up is not known"))
    return v.of(told)


def _train(run: Run, atom: Made | Instance, batch: Value, node: cst.CSTNode, frame: Frame) -> None:
    """Steps of Keras's: a second one finds in names what the first has left there."""
    run.trained_by_keras.add(atom)
    for _ in range(2):
        _train_once(run, atom, batch, node, frame)
        applying.run_again(run)


def _train_once(run: Run, atom: Made | Instance, batch: Value, node: cst.CSTNode, frame: Frame) -> None:
    step = run.classes.method(atom, "train_step") if isinstance(atom, Instance) else None
    if step is not None:
        fitting = run.libraries.keras.fitting
        fitting.append(node)
        try:
            run.calls.call(step, Arguments([batch]), node, frame)
        finally:
            fitting.pop()
        return
    with run.making_loss(by_keras=True):
        _forward(run, atom, *_inputs(run, batch), node, frame)


def _forward(
    run: Run, atom: Made | Instance, x: Value, y: Value, weights: Value, node: cst.CSTNode, frame: Frame
) -> None:
    predicted = run.calls.call(v.of(atom), Arguments([x], {"training": v.constant(True)}), node, frame)
    run.note_forward()
    metrics.note_of_model(run, atom, Arguments([y, predicted]), node, frame)
    given = {"x": x, "y": y, "y_pred": predicted, "sample_weight": weights}
    metrics.tell(run, atom, Arguments([], given), node, frame)
    result = _loss(run, atom, given, node, frame)
    if result is not NOTHING:
        run.fit(atom, node, predicted, result)


def _loss(run: Run, atom: Made | Instance, given: dict[str, Value], node: cst.CSTNode, frame: Frame) -> Value:
    """What Keras's own step takes the gradients of; nothing where the model has no loss."""
    loss = compiling.loss_of(run, atom)
    own = run.classes.method(atom, "compute_loss") if isinstance(atom, Instance) else None
    if own is not None:
        run.note_hidden(own)
        result = run.calls.call(own, Arguments([], given), node, frame)
    elif loss is NOTHING:
        return NOTHING
    else:
        told = Arguments([given["y"], given["y_pred"]], {"sample_weight": given["sample_weight"]})
        result = compiling.applied_loss(run, atom, loss, told, node, frame)
    lost = penalties.of_outputs(run)
    return lost if any(isinstance(d.placement, Unknown) for d in v.contents(lost)) else result


def _train_step(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`super().train_step(data)`"""
    if isinstance(atom, Instance) and args.positional:
        keras = run.libraries.keras
        x, y, weights = _inputs(run, _taken(run, args.positional[0], args.nodes.get(0), frame))
        with run.making_loss(by_keras=True):
            predicted = keras.call_instance(atom, Arguments([x], {"training": v.constant(True)}), node, frame)
            given = {"x": x, "y": y, "y_pred": predicted, "sample_weight": weights}
            metrics.tell(run, atom, Arguments([], given), node, frame)
            result = _loss(run, atom, given, node, frame)
        for fitted in {node, *keras.fitting}:
            run.fit(atom, fitted, predicted, NUMBER if result is NOTHING else result)
    return Value(Data(Partial("mean"), nested=True))


def _taken(run: Run, batch: Value, node: cst.BaseExpression | None, frame: Frame) -> Value:
    """A worker's rows of what a step hands to Keras's own, which has put rows together: mixup with others."""
    if node is not None and any(d.whole and d.needs for d in run.objects.leaves(batch)):
        run.whole_layers.add(frame.scope.node)
        batch = giving_back.handed_over(run, node, batch, frame)
    return batch


# -- running ----------------------------------------------------------------------------------------------------------


def _infer(run: Run, atom: Made | Instance, x: Value, node: cst.CSTNode, frame: Frame) -> Value:
    items = run.objects.sequence_items(x)
    given = items[0] if items else x
    return run.calls.call(v.of(atom), Arguments([given], {"training": v.constant(False)}), node, frame)


def _predict(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    x = args.get("x", 0) or NUMBER
    return _run_on(run, atom, x, node, frame) or Value(Data(REPLICATED, nested=True))


def _evaluate(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    x = args.get("x", 0) or NUMBER
    is_of_part = _run_on(run, atom, x, node, frame) is not None
    return Value(Data(Partial("mean") if is_of_part else REPLICATED, nested=True))


def _run_on(run: Run, atom: Made | Instance, x: Value, node: cst.CSTNode, frame: Frame) -> Value | None:
    """What the model makes of a worker's part of a batch, in which the runtime puts nothing together; None where it
    runs on what all workers have."""
    if any(not d.is_replicated for d in run.objects.leaves(x)):
        why = "Keras runs the model on a worker's part of the batch here"
        with run.placing.repairing.ruled_out(why, is_barred=False):
            return _infer(run, atom, x, node, frame)
    _infer_whole(run, atom, Value(Data(nested=True)), node, frame)
    return None


def _infer_whole(run: Run, atom: Made | Instance, x: Value, node: cst.CSTNode, frame: Frame) -> None:
    """The model on what all workers have, by functions that Keras makes; the runtime does not know a model's own."""
    own = [run.classes.method(atom, name) for name in _MAKING] if isinstance(atom, Instance) else []
    with nullcontext() if any(own) else run.evaluations.running():
        _infer(run, atom, run.shares.whole(x), node, frame)


def _evaluation_step(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`model.test_step(data)` by the script itself, which runs the model as any call does."""
    data = args.positional[0] if args.positional else args.get("data") or NUMBER
    is_of_part = any(not d.is_replicated for d in run.objects.leaves(data))
    _infer(run, atom, data if is_of_part else run.shares.whole(data), node, frame)
    return Value(Data(Partial("mean") if is_of_part else REPLICATED, nested=True))


# -- data -------------------------------------------------------------------------------------------------------------


def _batch(run: Run, x: Value, y: Value | None, node: cst.CSTNode) -> Value:
    """What a step of `fit` gets."""
    if y is not None and not y.is_none:
        return v.of(Tuple((_rows(run, x), _rows(run, y))))
    if x.data is not None and not x.objects:
        return run.shares.share(x)
    if all(isinstance(o, Tuple) or (isinstance(o, Container) and o.kind in ("list", "dict")) for o in x):
        return v.of(Tuple((_rows(run, x),)))
    element = run.objects.elements(x, node, node)
    return run.shares.share(element) if element is not NOTHING else run.shares.batch()


def _weighed(run: Run, batch: Value, args: Arguments, sample: int, of_class: int) -> Value:
    """The batch with weights of its samples, which Keras also makes of those of classes; the numbers are the positions
    of both."""
    weights = args.get("sample_weight", sample) or NONE
    by_class = args.get("class_weight", of_class) or NONE
    if weights.is_none and by_class.is_none:
        return batch
    x, y, _ = _inputs(run, batch)
    return v.of(Tuple((x, y, run.shares.share(NUMBER) if weights.is_none else _rows(run, weights))))


def _rows(run: Run, value: Value) -> Value:
    if value.data is not None and not value.objects:
        return run.shares.share(value)
    items = run.objects.sequence_items(value)
    if items is not None:
        return v.of(Tuple(tuple(_rows(run, i) for i in items)))
    return run.shares.batch()


def _pair(run: Run, value: Value) -> Value:
    return value if run.objects.sequence_items(value) is not None else Value(Data(nested=True))


def _inputs(run: Run, batch: Value) -> tuple[Value, Value, Value]:
    """Inputs, targets, and weights of the samples, which are some wherever it is not seen what a batch has."""
    items = run.objects.sequence_items(batch)
    if batch.data is not None and not batch.objects and not batch.data.nested:
        return batch, batch, NONE  # one array, which is all of it
    if items is None:
        part = run.objects.parts(batch)
        return part, part, run.shares.share(NUMBER)
    return items[0], items[min(1, len(items) - 1)], items[2] if len(items) > 2 else NONE


METHODS: Methods = {
    "fit": _fit,
    "train_on_batch": _train_on_batch,
    "train_step": _train_step,
    "predict": _predict,
    "predict_on_batch": _predict,
    "evaluate": _evaluate,
    "test_on_batch": _evaluate,
    "test_step": _evaluation_step,
}
