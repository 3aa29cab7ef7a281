"""The loss that a model is compiled with: a mean over the batch, or one that is given the whole batch."""

from __future__ import annotations

import libcst as cst

from migrator.analysis.verdicts import MEAN, NOT_RUN, Verdict, puts_together
from migrator.edits import Refusal
from migrator.facts.objects.values import Object
from migrator.facts.script import Facts
from migrator.facts.training.reductions import GATHER
from migrator.facts.training.sites import Fit
from migrator.facts.training.told_metrics import told_metrics


def compiled_loss(facts: Facts, compile_: Fit) -> Refusal | None:
    """A refusal where the loss of `fit` does not add up over the workers' parts, also given the whole batch."""
    for fit in (*facts.training.fits, *facts.training.batch_fits):
        if compile_ not in facts.training.compiles_of(fit.values):
            continue
        own = any(isinstance(v, Object) and facts.resolver.method(v.of, "train_step") is not None for v in fit.values)
        if own and facts.losses.of_forward(fit.call) == NOT_RUN:
            continue  # it does not come back to Keras's step
        for verdict in (facts.losses.of_forward(fit.call), facts.losses.of_fit(fit.call)):
            if verdict.reduction != MEAN:
                return _refuse(verdict.node or fit.call, verdict)
    return None


def cut_for_fit(facts: Facts, fit: Fit) -> str:
    """How the rows of a batch are put together in the loss of the fit: see Reductions.cut_for."""
    compiles = [compile_.call for compile_ in facts.training.compiles_of(fit.values)]
    verdicts = [facts.losses.of_forward(fit.call), facts.losses.of_fit(fit.call)]
    verdicts += map(facts.losses.of_added, facts.tree.calls)
    repairs = {repair for verdict in verdicts for repair in verdict.repairs}
    is_whole = any(call in facts.losses.whole_compiles for call in compiles)
    is_told_whole = any(metric.compile.call in compiles for metric in told_metrics(facts))
    return GATHER if is_whole or is_told_whole or puts_together(repairs) else MEAN


def cuts_for_fit(facts: Facts, fit: Fit) -> set[str]:
    """The same for all losses of the fit, which its own `train_step` may compute."""
    return cuts_of_own_step(facts, fit) or {cut_for_fit(facts, fit)}


def cuts_for_arrays(facts: Facts, fit: Fit) -> set[str]:
    """The same where `fit` cuts arrays by itself: rows that several workers compute would count several times in a sum
    that a layer keeps beside what all workers have."""
    own = cuts_of_own_step(facts, fit)
    keeps_sums = any(repair.form == "term" for repair in facts.repairs)
    return own or ({GATHER} if keeps_sums else set())


def cuts_of_own_step(facts: Facts, fit: Fit) -> set[str]:
    """How the rows of a batch are put together in the losses of the model's own `train_step`; empty without one."""
    classes = {cls for v in fit.values if isinstance(v, Object) for cls in facts.resolver.lineage(v.of)}
    return {facts.reductions.cut_for(u) for u in facts.training.updates if facts.training.step_class(u) in classes}


def _refuse(node: cst.CSTNode, verdict: Verdict) -> Refusal:
    why = verdict.why or "it is a sum over the batch, of which Keras takes the mean of the workers'"
    return Refusal(
        node,
        f"how the loss of this model adds up over the workers' parts of the batch cannot be seen: {why}",
        "use a loss of Keras's, or one written in this file, and layers that take each sample by itself",
        breaks_training=True,
    )
