"""What a dataset runs on its elements, in threads of its own and ahead of the loop that reads it: of what its functions
see nothing is asked of the other workers there, and of a dataset that is split they see this worker's elements."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from migrator.facts.data.pipelines import Pipelines
from migrator.facts.data.reading import Consumption
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_GENERATORS = External("tensorflow.data.Dataset.from_generator")


class RunOnElements:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, pipelines: Pipelines) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.pipelines = pipelines

    def by(self, consumptions: Iterable[Consumption]) -> set[cst.CSTNode]:
        """The bodies that run for the elements of these."""
        queue = [c.dataset for c in consumptions]
        steps: dict[cst.Call, None] = {}
        while queue:
            for way in self.pipelines.history(queue.pop()).ways:
                steps.update((step.call, None) for step in way.steps)
                if way.cut is not None and way.cut.args and way.cut not in steps:
                    steps[way.cut] = None
                    queue.append(way.cut.args[0].value)  # what is shared out has steps of its own
        return self._bodies(steps)

    def is_inside(self, node: cst.CSTNode) -> bool:
        """Whether the node stands in what a dataset runs, or a function that is called there."""
        return self.tree.is_in(node, self._all)

    @cached_property
    def _all(self) -> set[cst.CSTNode]:
        return self._bodies(filter(self._makes_elements, self.tree.calls))

    def _makes_elements(self, call: cst.Call) -> bool:
        if _GENERATORS in self.resolver.values(call.func):
            return True
        func = call.func
        return bool(call.args) and isinstance(func, cst.Attribute) and self.pipelines.is_dataset(func.value)

    def _bodies(self, calls: Iterable[cst.Call]) -> set[cst.CSTNode]:
        functions = {f for call in calls for arg in call.args for f in functions_in(self.resolver, arg.value)}
        return {body for function in functions for body in self.training.reached_from(function)}
