"""`compile`, and the loss of a model by it: that which it is given, and what layers add."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import runtime
from migrator.analysis.libraries.keras import losses, masks, penalties
from migrator.analysis.libraries.keras.objects import Methods
from migrator.analysis.placement import Partial, Sharded
from migrator.analysis.values import NONE, NOTHING, NUMBER, Data, Instance, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def _compile(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    loss = args.get("loss", 1) or NONE
    said = run.said.get(node)
    if said in ("gather", "sum"):  # Keras averages what a loss gives for the samples: a sum is given all of them
        run.needed_words.add(node)
        run.plan.losses.add(node)
    if node in run.plan.losses:
        made = Made(runtime.WHOLE_BATCH, Site(node, ()))
        run.heap.store(made, "loss", loss)
        loss = v.of(made)
    run.heap.store(atom, ("compiled", "loss"), loss)
    run.heap.store(atom, ("compiled by", node), loss)
    optimizer = args.get("optimizer", 0)
    if optimizer is not None:
        run.heap.store(atom, ("compiled", "optimizer"), optimizer)
    for name in ("metrics", "weighted_metrics"):
        run.heap.store(atom, ("compiled", "metrics"), args.get(name) or NOTHING)
    run.compiled[node] = v.join(run.compiled.get(node, NOTHING), v.of(atom))
    return NONE


def loss_of(run: Run, atom: v.Atom) -> Value:
    """The loss that the model is compiled with."""
    return run.heap.load(atom, ("compiled", "loss"))


def compiles_of(run: Run, atom: v.Atom) -> set[cst.CSTNode]:
    """The calls that compile the model."""
    return {k[1] for k in run.heap.fields(atom) if isinstance(k, tuple) and k[0] == "compiled by"}


def optimizer_of(run: Run, atom: v.Atom) -> Value:
    return run.heap.load(atom, ("compiled", "optimizer"))


def metrics_of(run: Run, atom: v.Atom) -> Value:
    return run.heap.load(atom, ("compiled", "metrics"))


def applied_loss(run: Run, atom: v.Atom, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """The loss that the model is compiled with, applied; notes where it has to be given the whole batch."""
    for function in loss:
        run.note_hidden(v.of(function))
        if isinstance(function, Instance):
            run.note_hidden(run.classes.method(function, "call") or NOTHING)
        elif isinstance(function, Made):
            run.note_hidden(run.objects.own_call(function))
    with run.placing.repairing.ruled_out("Keras applies it", is_barred=False):
        result = losses.of_compiled(run, loss, args, node, frame)
    if len(args.positional) > 1 and masks.is_masked(run, args.positional[1]):
        done = any(r.form == "done" for d in run.objects.leaves(result) for r in d.needs)
        result = result if done else v.unseen(masks.REASON)
    given = frozenset(r for x in args.positional for d in run.objects.leaves(x) for r in d.needs)
    compiles = compiles_of(run, atom)
    for data in run.objects.leaves(result):
        is_mean = data.is_replicated or data.placement == Partial("mean")
        if not is_mean or data.undone - given:
            is_sum = data.placement == Partial("sum") and not data.undone  # whatever the user says
            is_heeded = not is_sum and "mean" not in run.plan.reductions  # of unequal parts it is none of the batch
            if is_heeded and compiles and all(run.said.get(n) == "mean" for n in compiles):
                run.needed_words |= compiles
                run.reductions.add("mean")
                return Value(Data(Partial("mean"), needs=given))
            run.wanting |= compiles
    return _by_weights(run, result, args.get("sample_weight") or NONE)


def _by_weights(run: Run, loss: Value, weights: Value) -> Value:
    """The loss, where these weigh the samples."""
    leaves = [] if weights.is_none else list(run.objects.leaves(weights))
    if any(d.placement != Sharded(0) and not (d.is_replicated and not d.whole) for d in leaves):
        loss = v.unseen("the weights of the samples do not stand as these do")
    return v.with_needs(loss, frozenset(r for d in leaves for r in d.needs))


def _compiled_loss(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`self.compiled_loss(y, p, …)`"""
    loss = loss_of(run, atom)
    if loss is NOTHING:
        return v.unseen("which loss the model is compiled with is not seen")
    weights = {"sample_weight": args.get("sample_weight", 2) or NONE}
    given = Arguments([args.get("y_true", 0) or NUMBER, args.get("y_pred", 1) or NUMBER], weights, nodes=args.nodes)
    return _total(run, atom, loss, given, node, frame)


def _compute_loss(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`self.compute_loss(x, y, y_pred, sample_weight)`"""
    loss = loss_of(run, atom)
    if loss is NOTHING:
        return v.unseen("which loss the model is compiled with is not seen")
    weights = args.get("sample_weight", 3) or NONE
    given = Arguments([args.get("y", 1) or NUMBER, args.get("y_pred", 2) or NUMBER], {"sample_weight": weights})
    return _total(run, atom, loss, given, node, frame)


def _total(run: Run, atom: v.Atom, loss: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    result = applied_loss(run, atom, loss, args, node, frame)
    return run.operator("operator.add", (result, penalties.added(run)), (None, None), node)


def is_eager(run: Run) -> bool:
    """Whether Keras runs some steps without making graphs of them. Which models' is not followed."""
    given = (arg for call in run.tree.calls for arg in call.args if arg.keyword is not None)
    is_said = any(a.keyword.value == "run_eagerly" and _is_true(a.value) for a in given)  # type: ignore[union-attr]
    return is_said or "run_eagerly" in run.tree.attributes


def _is_true(node: cst.BaseExpression) -> bool:
    return not (isinstance(node, cst.Name) and node.value in ("False", "None"))


METHODS: Methods = {"compile": _compile, "compiled_loss": _compiled_loss, "compute_loss": _compute_loss}
