"""How the gradients of an update are put together over the workers: by their mean or their sum."""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.gradients import Gradients
from migrator.facts.loss_kinds import DATA, FREE, MEAN, PENALTY, SAMPLES, SUM
from migrator.facts.losses import Losses
from migrator.facts.sharding import Sharding
from migrator.facts.training import Minimization, Training, Update


class Reductions:
    def __init__(self, training: Training, losses: Losses, sharding: Sharding) -> None:
        self.training = training
        self.losses = losses
        self.sharding = sharding

    def of(self, update: Update, gradients: Gradients | None = None) -> str | Refusal:
        """ "mean" or "sum", for all gradients of the update or those given; a refusal where neither is right."""
        chosen = {
            self._of_loss(update, call, kind)
            for call, kind in self._losses(update, (gradients,) if gradients is not None else update.gradients)
        }
        refusal = next((c for c in chosen if isinstance(c, Refusal)), None)
        if refusal is None and len(chosen) > 1:
            return _refuse(update.call, "the losses behind this update are of several kinds", "apply them one by one")
        return refusal or (chosen.pop() if chosen else "mean")

    def counts_each_row(self, update: Update) -> bool:
        """Whether a loss of the update is a sum over the batch: then no row may be given to two workers."""
        return any(kind in (SUM, SAMPLES) for _, kind in self._losses(update, update.gradients))

    def _losses(self, update: Update, gradients: tuple[Gradients, ...]) -> list[tuple[cst.Call, str]]:
        if isinstance(update, Minimization):
            return [(update.call, self.losses.of_minimization(update))]
        return [(call, self.losses.of_tape(call)) for g in gradients for call in g.tape_calls]

    def _of_loss(self, update: Update, call: cst.Call, kind: str) -> str | Refusal:
        if kind in (SUM, SAMPLES):
            splits = self.sharding.splits(update)
            if splits is None:
                return _refuse(
                    call,
                    "this loss is a sum over the batch, and whether the batch is split cannot be seen",
                    "make it a mean",
                )
            return "sum" if splits else "mean"
        if kind == DATA:
            return _refuse(
                call,
                "whether this loss is a mean or a sum over the batch cannot be seen",
                "reduce it with tf.reduce_mean or a Keras loss in this file",
            )
        if kind not in (MEAN, FREE, PENALTY) and self.losses.unknown:
            return _refuse(
                call,
                f"whether this loss is a mean or a sum over the batch cannot be seen: {self.losses.unknown}",
                "write it with functions of TensorFlow, Keras or this file",
            )
        if kind not in (MEAN, FREE, PENALTY):
            return _refuse(
                call,
                "this loss is neither a mean nor a sum over the batch, so the workers' gradients "
                "do not add up to those of the whole batch",
                "write it as a mean over the samples (penalties on weights may be added to that)",
            )
        return "mean"


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
