"""How the gradients of an update are put together over the workers: by their mean or their sum."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.values import Repair
from migrator.analysis.verdicts import MEAN, NOT_RUN, SUM, Verdict, puts_together
from migrator.edits import Refusal
from migrator.facts.data.batch_shapes import Size
from migrator.facts.data.sharding import Sharding
from migrator.facts.training.gradients import Gradients
from migrator.facts.training.sites import Minimization, Training, Update

GATHER = "gather"


def cut_option(kinds: set[str]) -> list[str]:
    """The argument of a cut that says how the losses over it put its rows together; none for means."""
    kind = MEAN if not kinds else next(iter(kinds)) if len(kinds) == 1 else GATHER
    return [] if kind == MEAN else [f'loss="{kind}"']


class Reductions:
    def __init__(self, training: Training, losses: Losses, sharding: Sharding, *, in_order: bool = False) -> None:
        """`in_order`: rows are put together besides, in the order that they have in the batch."""
        self.in_order = in_order
        self.training = training
        self.losses = losses
        self.sharding = sharding

    def of(self, update: Update, gradients: Gradients | None = None) -> str | Refusal:
        """ "mean" or "sum", for all gradients of the update or those given; a refusal where neither is right."""
        chosen = {
            self._of_loss(update, call, verdict)
            for call, verdict in self._losses(update, (gradients,) if gradients is not None else update.gradients)
        }
        refusal = next((c for c in chosen if isinstance(c, Refusal)), None)
        if refusal is None and len(chosen) > 1:
            return _refuse(update.call, "the losses behind this update are of several kinds", "apply them one by one")
        return refusal or (chosen.pop() if chosen else "mean")

    def kind(self, update: Update, gradients: Gradients) -> str:
        """How the losses behind the gradients add up, where all do alike; empty where that is not seen."""
        wanted = self.of(update, gradients)
        kinds = {verdict.reduction for _, verdict in self._losses(update, (gradients,))}
        return wanted if isinstance(wanted, str) and kinds == {wanted} else ""

    def cut_for(self, update: Update) -> str:
        """How the rows of a batch are put together in the losses of the update: MEAN, SUM, or GATHER, where some of
        them are before the loss is computed."""
        verdicts = [verdict for _, verdict in self._losses(update, update.gradients)]
        if self.in_order or self.losses.needed_anyway or any(puts_together(verdict.repairs) for verdict in verdicts):
            return GATHER
        kinds = {verdict.reduction for verdict in verdicts} & {MEAN, SUM}
        if kinds == {SUM} and self._shapes_by_size(update):
            return GATHER  # so that a worker's rows are as many as local_batch_size tells
        return kinds.pop() if len(kinds) == 1 else GATHER if kinds else MEAN

    def _shapes_by_size(self, update: Update) -> bool:
        """Whether the step gives batches of the update a new shape by the number of their rows."""
        read = {consumption.dataset for consumption in self.sharding.feeding_update(update)}
        sizes = [shape for shape in self.sharding.made if isinstance(shape, Size)]
        return any(not read.isdisjoint(self.sharding.read_with[size.node]) for size in sizes)

    @cached_property
    def repairs_of_updates(self) -> set[Repair]:
        """What has to be put together in the losses of all updates, in what else is made of their parts, and for the
        random numbers that are drawn for these."""
        repairs = {r for update in self.training.updates for r in self.repairs(update)}
        return self.losses.with_meetings(repairs | self.losses.needed_anyway)

    @property
    def single_samples(self) -> list[cst.CSTNode]:
        """Where samples that enter the loss of an update are taken one by one."""
        losses = [loss for update in self.training.updates for loss in self._losses(update, update.gradients)]
        return [verdict.node for _, verdict in losses if verdict.takes_samples and verdict.node is not None]

    @property
    def are_right(self) -> bool:
        """Whether gradients of all updates can be put together."""
        return not any(isinstance(self.of(update), Refusal) for update in self.training.updates)

    def are_agreed(self, update: Update) -> bool:
        """Whether the losses of the update are the same on all workers."""
        return all(verdict.is_agreed for _, verdict in self._losses(update, update.gradients))

    def repairs(self, update: Update) -> set[Repair]:
        """What has to be put together in the losses of the update."""
        return {repair for _, verdict in self._losses(update, update.gradients) for repair in verdict.repairs}

    def computed(self, update: Update) -> str:
        """How what an update applies, and no tape has given, is put together; empty where that is not proven."""
        values = self.training.computed(update)
        verdict = self.losses.of_number(values) if values is not None else NOT_RUN
        is_seen = not verdict.is_agreed and not verdict.meets_unknown
        return verdict.reduction if is_seen and self.sharding.splits(update) else ""

    def _losses(self, update: Update, gradients: tuple[Gradients, ...]) -> list[tuple[cst.BaseExpression, Verdict]]:
        if isinstance(update, Minimization):
            return [(update.call, self.losses.of(update.call))]
        values = self.training.computed(update)
        if values is not None:
            return [(values, self.losses.of_number(values))]
        return [(call, self.losses.of(call)) for g in gradients for call in g.tape_calls]

    def _of_loss(self, update: Update, call: cst.BaseExpression, verdict: Verdict) -> str | Refusal:
        if verdict.reduction == SUM:
            splits = self.sharding.splits(update)
            if splits is None:
                return _refuse(
                    call,
                    "this loss is a sum over the batch, and whether the batch is split cannot be seen",
                    "make it a mean",
                )
            return "sum" if splits else "mean"
        if verdict.is_agreed and not verdict.repairs and not self._is_penalty(update, call):
            return _refuse(
                call,
                "how the batches of this update come into its loss cannot be seen",
                "hand them to the step as arguments, or iterate over the dataset beside it",
            )
        if verdict.reduction == MEAN:
            return "mean"
        return _refuse(
            verdict.node or call,
            f"how this loss adds up over the workers' parts of the batch cannot be seen: {verdict.why}",
            "write it as a mean over the samples (penalties on weights may be added to that)",
        )

    def _is_penalty(self, update: Update, call: cst.BaseExpression) -> bool:
        """Whether all workers may take the gradients of the same loss: nothing that the update trains on is split, or
        it has others beside it of which the parts of a batch are seen, and is made of no gradients itself."""
        if not self.sharding.may_split(update):
            return True
        if all(verdict.is_agreed and not verdict.repairs for _, verdict in self._losses(update, update.gradients)):
            return False
        return isinstance(call, cst.Call) and not self.training.goes_through_gradients(call)


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
