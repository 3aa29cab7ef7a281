"""How each training dataset is split over the workers: where in its pipeline, or where it is read.

Where the pipeline cannot be cut in the script's text, or is repeated a number of times behind an unseeded shuffle, its
batches are cut where training reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.batch_shapes import Made, Size
from migrator.facts.minibatches import Cut, MinibatchFinder
from migrator.facts.obstacles import Obstacles
from migrator.facts.order import AnyOrder, Order, UnseededFiles
from migrator.facts.pipeline_cuts import CutPipeline, PipelineCuts
from migrator.facts.pipelines import Pipeline
from migrator.facts.reading import Consumption, Reading
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.training import Training, Update
from migrator.facts.tree import Statement, Tree
from migrator.facts.values import Object


@dataclass(frozen=True, eq=False)
class CutBatches:
    """Cut each global batch where training reads the dataset.

    `before`, where given, is the loop in front of which the name can be given its share once.
    """

    dataset: cst.BaseExpression
    before: Statement | None = None


def _place(plan: CutBatches | Refusal) -> cst.CSTNode:
    return plan.node if isinstance(plan, Refusal) else plan.dataset


Plan = Union[CutPipeline, CutBatches, Refusal]


class Sharding:
    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, reading: Reading, minibatches: MinibatchFinder
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.reading = reading
        self.minibatches = minibatches
        self.pipelines = reading.pipelines
        self._order = Order(tree, resolver)
        self._loose_ends: dict[AnyOrder | UnseededFiles, None] = {}
        self.obstacles = Obstacles(tree, resolver, training, reading.pipelines.sources)
        self._cuts = PipelineCuts(tree, resolver, reading.pipelines, lambda: self.consumptions)

    # -- plans ---------------------------------------------------------------------------------------------------

    @cached_property
    def consumptions(self) -> list[Consumption]:
        """Each place where training reads a dataset, once."""
        found: dict[cst.CSTNode, Consumption] = {}
        for update in self.training.updates:
            for consumption in self.reading.consumptions(update):
                found.setdefault(consumption.dataset, consumption)
        for fit in self.training.fits:
            arg = argument(fit.call, "x", 0)
            if arg is not None and (
                self.pipelines.is_dataset(arg.value) or self.pipelines.sources.is_source(arg.value)
            ):
                found.setdefault(arg.value, Consumption(arg.value, fit.call))
        return list(found.values())

    @cached_property
    def plans(self) -> list[Plan]:
        """What to do for each training dataset that is not sharded yet; one plan for each place of the text."""
        found: dict[cst.CSTNode, Plan] = {}
        for consumption in self.consumptions:
            plan = self._plan(consumption)
            if plan is not None:
                key = plan.prefix if isinstance(plan, CutPipeline) else _place(plan)
                found.setdefault(key, plan)
        return [*found.values(), *self._updates_without_data()]

    @cached_property
    def minibatch_plans(self) -> list[Cut | Refusal]:
        """What to do for the batches that loops make by themselves, where they are surely seen; one for each place."""
        found = {cut.place: self._obstacle(cut) or cut for cut in self.minibatches.all}
        return list(found.values())

    @property
    def loose_ends(self) -> list[AnyOrder | UnseededFiles]:
        """What must be tied up for the split datasets to come in one order on all workers."""
        return list(self._loose_ends) if self.plans else []

    @cached_property
    def made(self) -> list[Made | Size]:
        """What training steps make with the size of batches that are going to be split."""
        found: dict[cst.CSTNode, Made | Size] = {}
        for consumption in self.consumptions:
            plan = self._plan(consumption)
            if plan is not None and not isinstance(plan, Refusal):
                shapes = self.obstacles.shapes(self.pipelines.history(consumption.dataset), consumption)
                found.update((s.node, s) for s in ([] if isinstance(shapes, Refusal) else shapes))
        return list(found.values())

    def splits(self, update: Update) -> bool | None:
        """Whether the update sees batches that are split, only then may gradients be summed; None where it may or
        may not."""
        cuts = self.minibatches.of(update)
        if cuts is not None:
            return all(self._obstacle(cut) is None for cut in cuts)
        found = {not isinstance(self._plan(c), Refusal) for c in self._feeding(update)}
        return found.pop() if len(found) == 1 else None

    def _feeding(self, update: Update) -> list[Consumption]:
        """The datasets whose batches reach the update, also through `fit` and a `train_step` of the script's."""
        cls = self.training.step_class(update)
        if cls is None:
            return self.reading.consumptions(update)
        fits = {
            fit.call
            for fit in self.training.fits
            if any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in fit.values)
        }
        found = [c for c in self.consumptions if c.reader in fits]
        return found if len(found) == len(fits) else []

    def _updates_without_data(self) -> Iterator[Refusal]:
        seen: set[cst.FunctionDef | None] = set()
        for update in self.training.updates:
            function = self.tree.function_of(update.call)
            if function in seen or self.training.step_class(update) is not None:
                continue
            if self.reading.consumptions(update):
                continue
            if self.minibatches.of(update) is None:
                seen.add(function)
                yield Refusal(
                    update.call,
                    "no batches are surely seen that this update trains on, so every worker trains on all of them",
                    "iterate over a tf.data.Dataset in this file, or give each worker its rows of every batch by hand "
                    "with lockstep.shard_batch",
                    breaks_training=True,  # its loop may depend on what each worker meets by itself
                )

    def _obstacle(self, cut: Cut) -> Refusal | None:
        return self.obstacles.to_rows(self.minibatches.sizes(cut), self.minibatches.steps(cut))

    def _plan(self, consumption: Consumption) -> Plan | None:
        pipeline = self.pipelines.history(consumption.dataset)
        if pipeline.is_sharded:
            return None
        obstacle = self.obstacles.to(pipeline, consumption)
        if obstacle is not None:
            return obstacle
        plan = self._cuts.of(pipeline, consumption) or self._cut_batches(pipeline, consumption)
        prefix = plan.prefix if isinstance(plan, CutPipeline) else None
        loose = list(self._order.loose_ends(pipeline, prefix))
        refusal = next((end for end in loose if isinstance(end, Refusal)), None) or self.obstacles.file(pipeline)
        if refusal is not None:
            return refusal
        self._loose_ends.update(dict.fromkeys(end for end in loose if not isinstance(end, Refusal)))
        return plan

    # -- where it is read ----------------------------------------------------------------------------------------

    def _cut_batches(self, pipeline: Pipeline, consumption: Consumption) -> CutBatches:
        dataset = consumption.dataset
        reader = consumption.reader
        if isinstance(dataset, cst.Name) and isinstance(reader, cst.For):
            scope = self.tree.scope_of(reader)
            loops = list(self.tree.loops_around(reader))
            if loops and scope.lookup(dataset.value) is scope:
                outermost = loops[-1]
                inside = any(self.tree.contains(outermost, b.node) for b in self.resolver.reaching(dataset))
                if not inside and self._is_only_read_by(dataset, outermost):
                    return CutBatches(dataset, outermost)
        return CutBatches(dataset)

    def _is_only_read_by(self, dataset: cst.Name, loop: Statement) -> bool:
        """Whether, from the loop on, only training reads the name."""
        allowed = {id(c.dataset) for c in self.consumptions}
        return all(
            id(use) in allowed or self._cuts.is_harmless(use) or self.tree.order[use] < self.tree.order[loop]
            for binding in self.resolver.reaching(dataset)
            for use in self.pipelines.loads_of(binding)
        )
