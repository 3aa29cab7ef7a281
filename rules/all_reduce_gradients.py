"""Average the gradients over the workers before they are applied.

Each worker computes the gradients of its part of the batch; the update must see those of the whole batch. The
reduction stands directly after the gradients are computed, so that clipping, scaling and printing see the gradients
of the global batch, and its result is assigned: a reduction whose result is dropped synchronises nothing. A loss
that is a sum over the batch, also one that is divided by the global batch size, needs the sum over the workers
instead of the mean.

before:
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
after:
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Leaves alone: gradients that are only looked at (penalties, saliency maps); gradients that move an input instead of
weights (style transfer); what is reduced already, or applied by a distributed optimizer.
Refuses: an update whose gradients cannot be followed back to a tape; a loss of which it cannot be seen whether it is
a mean or a sum over the batch, and one that is neither (a sum plus a penalty on the weights, a ratio of two sums
over the batch, the root of a mean).
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import InsertAfter, Refusal, Wrap
from migrator.facts.gradients import Gradients
from migrator.facts.loss_kinds import DATA, FREE, MEAN, PENALTY, SAMPLES, SUM
from migrator.facts.script import Facts
from migrator.facts.training import Update
from migrator.rule import Findings, rule


@rule
def all_reduce_gradients(facts: Facts) -> Findings:
    for site in facts.unsupported.found:
        yield Refusal(site.node, site.reason, site.advice, breaks_training=True)
    yield from _added_losses(facts)
    done: set[tuple[cst.CSTNode, object]] = set()
    for update in facts.training.updates:
        if _is_distributed(facts, update):
            continue
        if not update.gradients:
            yield Refusal(
                update.call,
                "where the gradients of this update come from cannot be seen",
                "compute them with a tf.GradientTape in this file, or reduce them by hand with lockstep.all_reduce",
                True,
            )
        for gradients in update.gradients:
            key = (gradients.computed, gradients.holder.node if gradients.holder else None)
            if not gradients.is_reduced and key not in done:
                done.add(key)
                yield _reduce(facts, update, gradients)


def _added_losses(facts: Facts) -> Findings:
    """`add_loss` puts its value into the loss of `fit` and into `model.losses`, out of sight of the rest."""
    if not facts.trains:
        return
    for call in facts.tree.calls:
        is_added = isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_loss" and call.args
        if is_added and facts.losses.kind(call.args[0].value) not in (MEAN, PENALTY, FREE):
            yield _refuse(
                call,
                "this added loss is not seen to be a mean over the batch",
                "reduce it with tf.reduce_mean in the call",
            )


def _is_distributed(facts: Facts, update: Update) -> bool:
    func = update.call.func
    return isinstance(func, cst.Attribute) and any(
        facts.kinds.is_distributed_optimizer(v) for v in facts.resolver.values(func.value)
    )


def _reduce(facts: Facts, update: Update, gradients: Gradients) -> InsertAfter | Wrap | Refusal:
    arguments: tuple[str, ...] = ()
    for call in gradients.tape_calls:
        kind = facts.losses.of_tape(call)
        if kind in (SUM, SAMPLES):
            if facts.training.step_class(update) is not None:
                return _refuse(call, "a sum over the batch inside of train_step is not migrated yet", "return the mean")
            if facts.sharding.splits_data:
                arguments = ('reduction="sum"',)
        elif kind == DATA:
            return _refuse(
                call,
                "whether this loss is a mean or a sum over the batch cannot be seen",
                "reduce it with tf.reduce_mean or a Keras loss in this file",
            )
        elif kind not in (MEAN, FREE, PENALTY):
            return _refuse(
                call,
                "this loss is neither a mean nor a sum over the batch, so the workers' gradients "
                "do not add up to those of the whole batch",
                "write it as a mean over the samples (penalties on weights may be added to that)",
            )
    holder = gradients.holder
    if holder is not None and holder.target is not None:
        name = facts.source(holder.target)
        return InsertAfter(holder.node, (f"{name} = {facts.call('all_reduce', name, *arguments)}",))
    tail = "".join(f", {a}" for a in arguments)
    return Wrap(gradients.computed, f"{facts.runtime}.all_reduce(", f"{tail})")


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
