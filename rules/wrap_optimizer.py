"""Make the optimizer of `fit`, `train_on_batch` and `minimize` average the gradients over the workers.

They compute and apply gradients out of the script's sight, so the optimizer itself reduces them. It does so before
it clips, and the wrapped optimizer keeps its name, its settings and its saved form. An optimizer that is named by a
string, or not at all, is wrapped as well; one that a compiled model gets by `model.optimizer = ...` where that stands,
that of `minimize` where it is made. Where `minimize` is given a sum over the batch, the optimizer sums.

before:
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse")
after:
    model.compile(optimizer=lockstep.distributed_optimizer(keras.optimizers.Adam(1e-3)), loss="mse")

Leaves alone: models that are compiled but never trained here; models whose own `train_step` applies the gradients
(they are reduced there); an optimizer that is distributed already.
Refuses: `compile(**config)`, where the optimizer cannot be seen; a fitted model whose `compile` is not in this file;
an optimizer that minimises and is made elsewhere; one that a model gets behind `compile` in another way than by an
assignment, `setattr(model, "optimizer", ...)`; a model whose layers tie the samples of a batch together where
nothing can be written.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import AddArgument, InsertAfter, Refusal, Wrap
from migrator.facts.names import api, run_by_keras
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.values import Function, Value, calls
from migrator.facts.script import Facts
from migrator.facts.training.compiled_losses import compiled_loss
from migrator.facts.training.optimizers import Compiled, Made
from migrator.facts.training.sites import Fit, Minimization
from migrator.rule import Findings, rule


@rule(needs=("average-metrics", "broadcast-weights", "scale-loss", "synchronise-callbacks", "write-once"))
def wrap_optimizer(facts: Facts) -> Findings:
    compiled: dict[cst.CSTNode, Fit] = {}
    loaded: set[Holder] = set()
    for fit in (*facts.training.fits, *facts.training.batch_fits):
        if facts.training.trains_by_itself(fit.values):
            continue
        compiles = facts.training.compiles_of(fit.values)
        compiled.update((c.call, c) for c in compiles)
        yield from _wrap_loaded(facts, fit, compiles, loaded)
    for update in facts.training.updates:
        if isinstance(update, Minimization):
            for origin in facts.optimizers.origins(update.optimizer):
                if isinstance(origin, Compiled):
                    compiled.update((c.call, c) for c in origin.calls)
    for compile_ in compiled.values():
        yield from _wrap_compiled(facts, compile_)
    for call in facts.training.unseen_compiles if compiled else ():
        yield Refusal(
            call,
            "which model a callback compiles here cannot be seen, and with it what its optimizer trains",
            "compile `self.model` there, or wrap the optimizer by hand with lockstep.distributed_optimizer",
            True,
        )
    yield from _wrap_set(facts)
    yield from _wrap_minimising(facts)


# -- compile -------------------------------------------------------------------------------------------------------


def _wrap_compiled(facts: Facts, compile_: Fit) -> Findings:
    call = compile_.call
    if any(isinstance(v, Function) for v in facts.resolver.values(call.func)):
        yield Refusal(
            call,
            "this model has a `compile` of its own, so what its optimizer does cannot be seen",
            "wrap the optimizer by hand with lockstep.distributed_optimizer",
            True,
        )
        return
    optimizer = facts.keywords.given(call, "optimizer", 0)
    if optimizer is None and facts.keywords.hides_arguments(call):
        yield Refusal(
            call,
            "the optimizer may be among the unpacked arguments, where it cannot be seen",
            "pass it as optimizer=... in the call",
            True,
        )
        return
    loss = compiled_loss(facts, compile_)
    if loss is not None:
        yield loss
        return
    if optimizer is None:
        yield AddArgument(call, ("optimizer=" + facts.call("distributed_optimizer", '"rmsprop"'),))
    elif not any(facts.kinds.is_distributed_optimizer(v) for v in facts.resolver.values(optimizer)):
        yield Wrap(optimizer, f"{facts.runtime}.distributed_optimizer(", ")")


# -- `model.optimizer = ...` ---------------------------------------------------------------------------------------


def _wrap_set(facts: Facts) -> Findings:
    """Where a model that Keras trains gets another optimizer than it is compiled with."""
    for node, hooks in facts.losses.hooks.items() if facts.cuts else ():
        if node not in facts.tree.order or not any(h.name == run_by_keras.OPTIMIZER for h in hooks):
            continue
        if isinstance(node, cst.Attribute) and facts.training.trains_by_itself(facts.resolver.values(node.value)):
            continue
        target = facts.tree.parent.get(node)
        assign = facts.tree.parent.get(target) if isinstance(target, cst.AssignTarget) else None
        values = facts.resolver.values(assign.value) if isinstance(assign, cst.Assign) else ()
        if values and all(facts.kinds.is_distributed_optimizer(v) for v in values):
            continue
        if isinstance(assign, cst.Assign) and values and all(map(facts.kinds.is_optimizer, values)):
            yield Wrap(assign.value, f"{facts.runtime}.distributed_optimizer(", ")")
            continue
        yield Refusal(
            node,
            "a model gets another optimizer here than it is compiled with, and what that is cannot be seen",
            "compile the model with it, or wrap it by hand with lockstep.distributed_optimizer",
            True,
        )


# -- loaded models -------------------------------------------------------------------------------------------------


def _wrap_loaded(facts: Facts, fit: Fit, compiles: list[Fit], wrapped: set[Holder]) -> Findings:
    """A loaded model comes compiled, with a fresh optimizer that knows nothing of other workers; `wrapped` are those of
    the fits before."""
    loaded = [v for v in fit.values if calls(v) in api.LOAD_MODEL and not any(v in c.values for c in compiles)]
    for value in loaded:
        holders = [
            h for h in facts.trained.of(fit.model) if isinstance(h, Holder) and value in facts.resolver.values(h.value)
        ]
        if not holders:
            yield _refuse_uncompiled(fit)
        for holder in holders:
            name = facts.source(holder.target)
            if holder not in wrapped and not _is_wrapped(facts, name, value):
                wrapped.add(holder)
                optimizer = facts.call("distributed_optimizer", f"{name}.optimizer")
                yield InsertAfter(holder.statement, (f"{name}.optimizer = {optimizer}",))
    if not compiles and not loaded:
        yield _refuse_uncompiled(fit)


def _refuse_uncompiled(fit: Fit) -> Refusal:
    return Refusal(
        fit.call,
        "where this model is compiled cannot be seen, and with it its optimizer",
        "compile the model in this file, or wrap its optimizer by hand with lockstep.distributed_optimizer",
        True,
    )


def _is_wrapped(facts: Facts, name: str, model: Value) -> bool:
    """Whether the script wraps the optimizer of the very model that was loaded under this name."""
    for call in facts.tree.calls:
        given = call.args[0].value if call.args else None
        if given is None or facts.source(given) != f"{name}.optimizer":
            continue
        is_wrapping = any(facts.kinds.is_distributed_optimizer(v) for v in facts.resolver.values(call))
        if is_wrapping and isinstance(given, cst.Attribute) and model in facts.resolver.values(given.value):
            return True
    return False


# -- minimize ------------------------------------------------------------------------------------------------------


def _wrap_minimising(facts: Facts) -> Findings:
    reductions: dict[cst.Call, str] = {}
    for update in facts.training.updates:
        reduction = facts.reductions.of(update) if isinstance(update, Minimization) else ""
        if isinstance(reduction, Refusal):
            yield reduction
        elif isinstance(update, Minimization):
            for origin in facts.optimizers.origins(update.optimizer):
                if isinstance(origin, Made) and reductions.setdefault(origin.call, reduction) == reduction:
                    continue
                if not isinstance(origin, Compiled) or reduction != "mean":
                    yield _refuse_minimising(update.call)
    applied = [u for u in facts.training.updates if not isinstance(u, Minimization) and facts.optimizers.will_reduce(u)]
    for update in applied:
        if isinstance(update.call.func, cst.Attribute):
            for origin in facts.optimizers.origins(update.call.func.value):
                if isinstance(origin, Made) and facts.reductions.of(update) != reductions.get(origin.call):
                    yield _refuse_minimising(update.call)
    for call, reduction in reductions.items():
        tail = "" if reduction == "mean" else f', reduction="{reduction}"'
        yield Wrap(call, f"{facts.runtime}.distributed_optimizer(", f"{tail})")


def _refuse_minimising(call: cst.Call) -> Refusal:
    return Refusal(
        call,
        "the optimizer must reduce these gradients itself, but where it is made cannot be seen, or it serves losses of "
        "several kinds",
        "make an optimizer of its own for this loss in this file",
        breaks_training=True,
    )
