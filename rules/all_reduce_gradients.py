"""Average the gradients over the workers before they are applied.

Each worker computes the gradients of its part of the batch; the update must see those of the whole batch. The
reduction stands directly after the gradients are computed, so that clipping, scaling and printing see the gradients
of the global batch, and its result is assigned: a reduction whose result is dropped synchronises nothing. Gradients
that are added up in variables over several steps are reduced once, where the sums are applied; what a script makes of
each sample's gradients (`tape.jacobian`), where the mean or sum of that is applied. A loss that is a sum over the
batch, also one that is divided by the global batch size, needs the sum over the workers instead of the mean.

before:
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
after:
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Leaves alone: gradients that are only looked at (penalties, saliency maps, importances of weights for another task);
gradients that move an input instead of weights (style transfer); what is reduced already, or applied by a distributed
optimizer; where every worker trains on whole batches, gradients of which a search of the script's own makes something.
Refuses: a method that trains (`fit`, `train_on_batch`, `minimize`) where it is taken as a value, found by its name or
called otherwise than `model.fit(...)`; an update whose gradients cannot be followed back to a tape; variables that are
changed from data in a loop by no gradients, in a program where nothing else trains; what a file that is missing may
train, in such a program: it is given a model or data, or a class has its methods from there; a loss of which it cannot
be seen how it adds up over the workers' parts of a batch, where what it needs whole cannot be put together either;
what a script sets from outside that Keras runs or reads of its models, layers, losses, metrics and optimizers
(`model.train_step = f`), but for what is followed, such as a function for `layer.activation` that takes each row by
itself.
"""

from __future__ import annotations

import libcst as cst

from migrator.analysis.libraries.keras.hooks import Hook
from migrator.analysis.verdicts import MEAN
from migrator.edits import InsertAfter, Refusal, Wrap
from migrator.facts.names import run_by_keras
from migrator.facts.objects.holders import Unheld
from migrator.facts.script import Facts
from migrator.facts.training.gradients import Gradients, Place
from migrator.facts.training.out_of_sight import may_train
from migrator.facts.training.sites import Minimization
from migrator.facts.training.unsupported import UnsupportedTraining
from migrator.findings.missing import told_of_training
from migrator.rule import Findings, rule

# What Keras makes of the steps of a model.
_MADE_OF_STEPS = frozenset({
    "make_train_function", "train_function", "train_tf_function", "compiled_loss", "_compile_loss", "compiled_metrics",
    "_compile_metrics", "make_test_function", "test_function", "make_predict_function", "predict_function",
})  # fmt: skip


@rule(needs=("average-metrics", "broadcast-weights", "scale-loss", "synchronise-callbacks", "write-once"))
def all_reduce_gradients(facts: Facts) -> Findings:
    unsupported = [
        site for site in facts.unsupported.found if not (_is_only_looked_at(facts, site) or _is_alike(facts, site))
    ]
    is_refused = bool(unsupported or [*facts.by_hand.changes] or facts.plain_tensors.trained)
    for site in unsupported:
        yield Refusal(site.node, site.reason, site.advice, breaks_training=True)
    for call in facts.by_hand.changes:
        yield _refuse(
            call,
            "variables are changed here by a rule of the script's own, and no gradients are seen that could be reduced",
            "let every worker see all data, or put together by hand what is made of a worker's part of them, with "
            "lockstep.all_reduce; send the variables that start at random to all with lockstep.broadcast",
        )
    for call in facts.put_by_name.training():
        yield _refuse(
            call,
            "the text that is run here trains, where no rule can reach it",
            "write it as code of the script",
        )
    for call in facts.plain_tensors.trained:
        if facts.plain_tensors.are_variables(call):
            yield _refuse(
                call,
                "these gradients change a variable, and what it learns from cannot be followed",
                "hand the step its batches as arguments, or iterate over a dataset beside it; where there are no data, "
                "run it on one device, as it is",
            )
            continue
        yield _refuse(
            call,
            "weights in plain tensors are replaced by these gradients in each step: what holds them cannot be followed",
            "keep them in tf.Variables, which are sent to all workers and updated in place; or send the tensors with "
            "lockstep.broadcast, cut the batches with lockstep.shard_batch and average with lockstep.all_reduce",
        )
    for call in may_train(facts) if not is_refused else ():
        advice = told_of_training(facts, call) or "give that file, too"
        yield _refuse(call, "what runs here comes from a file that is missing, and may train", advice)
    yield from _set_from_outside(facts)
    yield from _added_losses(facts)
    done: set[Place] = set()
    for update in facts.training.updates:
        is_wrapped = facts.reduced.may_be_wrapped(update) or facts.optimizers.will_reduce(update)
        if isinstance(update, Minimization) or is_wrapped:
            continue
        values, reduction = facts.training.computed(update), facts.reductions.computed(update)
        if values is not None and reduction:
            tail = ")" if reduction == MEAN else f', reduction="{reduction}")'
            yield Wrap(values, f"{facts.runtime}.all_reduce(", tail)
        elif not update.gradients and not facts.is_put_together(values):
            yield Refusal(
                update.call,
                "where the gradients of this update come from cannot be seen",
                "compute them with a tf.GradientTape in this file, or reduce them by hand with lockstep.all_reduce",
                True,
            )
        for gradients in facts.reduced.unreduced(update):
            if gradients.place not in done:
                done.add(gradients.place)
                found = facts.reductions.of(update, gradients)
                yield found if isinstance(found, Refusal) else _reduce(facts, gradients, found)


def _set_from_outside(facts: Facts) -> Findings:
    """What Keras runs or reads of its own objects, and a script sets."""
    for node, hooks in facts.losses.hooks.items() if facts.cuts else ():
        hook = next((h for h in hooks if h.name != run_by_keras.OPTIMIZER), None)  # which wrap-optimizer sees to
        if hook is None or node not in facts.tree.order:
            continue
        if not hook.name:
            yield _refuse(
                node,
                "an attribute of an object of Keras's is set here by a name that only the run knows: Keras may run it",
                "set it by its name, or give it to the object where that is made",
            )
            continue
        if isinstance(node, cst.FunctionDef):
            yield _refuse(
                node,
                f"Keras runs `{hook.name}` of this optimizer on a worker's own gradients, before those of all workers"
                " are put together",
                "do this in `apply_gradients`, which is given those of all workers",
            )
            continue
        if hook.kind in (run_by_keras.TAPE, run_by_keras.FUNCTION):
            yield _refuse(
                node,
                f"`{hook.name}` of TensorFlow's own is replaced here: what that makes of gradients is not followed",
                "write a function for this, and call it where the gradients are taken",
            )
            continue
        if hook.kind == run_by_keras.REPLACED:
            yield _refuse(
                node,
                f"`{hook.name}` is replaced here from outside: what the other one makes of a worker's part"
                " of a batch is not followed",
                f"define `{hook.name}` as it is to be, or choose between functions where it is called",
            )
            continue
        yield _refuse(
            node,
            f"`{hook.name}`, which Keras runs or reads by itself, is set here: what that does with a batch"
            " is not followed",
            _instead_of_setting(hook),
        )


def _instead_of_setting(hook: Hook) -> str:
    if hook.kind == run_by_keras.LAYER and hook.name not in ("call", "__call__", "compute_mask"):
        return f"give it to the layer where that is made, `{hook.name}=...`, or write a layer of your own"
    if hook.kind == run_by_keras.LOSS:
        return "write a class that derives from keras.losses.Loss, with a `call`"
    if hook.kind == run_by_keras.MODEL and hook.name in _MADE_OF_STEPS:
        return "write a class that derives from the model's, with a `train_step`, `test_step` or `compute_loss`"
    if hook.kind == run_by_keras.MODEL and hook.name in run_by_keras.IN_CALLS:
        return "make another model, keras.Model(inputs, outputs)"
    return f"write a class that derives from the {hook.kind}'s, with the method `{hook.name}`"


def _added_losses(facts: Facts) -> Findings:
    """`add_loss` puts its value into the loss of `fit` and into `model.losses`, out of sight of the rest."""
    if not facts.trains:
        return
    for call in facts.tree.calls:
        is_added = isinstance(call.func, cst.Attribute) and call.func.attr.value == "add_loss" and call.args
        if is_added and facts.losses.of_added(call).reduction != MEAN:
            yield _refuse(
                call,
                "this added loss is not seen to be a mean over the batch",
                "reduce it with tf.reduce_mean in the call",
            )


def _is_only_looked_at(facts: Facts, site: UnsupportedTraining) -> bool:
    """Whether the gradients that are taken there change no weights."""
    if site.if_given_back_by:
        return not facts.looked_at.are_given_back(site.node, site.if_given_back_by)
    return facts.looked_at.only(site.node)


def _is_alike(facts: Facts, site: UnsupportedTraining) -> bool:
    """Whether all workers take the same gradients there: of whole batches, and of weights that are sent to them, since
    they are trained elsewhere, too."""
    if facts.cuts or site.gradients_of is None:
        return False
    sent = set(facts.trained.holders())
    made = [origin for owner in facts.trained.listed(site.gradients_of) for origin in facts.trained.of(owner)]
    return bool(made) and all(origin in sent and not isinstance(origin, Unheld) for origin in made)


def _reduce(facts: Facts, gradients: Gradients, reduction: str) -> InsertAfter | Wrap:
    arguments = () if reduction == "mean" else (f'reduction="{reduction}"',)
    holder = gradients.holder
    if holder is not None and holder.target is not None:
        name = facts.source(holder.target)
        return InsertAfter(holder.node, (f"{name} = {facts.call('all_reduce', name, *arguments)}",))
    tail = "".join(f", {a}" for a in arguments)
    return Wrap(gradients.computed, f"{facts.runtime}.all_reduce(", f"{tail})")


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
