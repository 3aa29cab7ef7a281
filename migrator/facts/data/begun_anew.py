"""Datasets that repeat behind their shuffle, and that are read anew in each epoch: `for x in dataset.take(100)`.

What is repeated is read ahead of the training. How far depends on the time, and with it how often the shuffle has drawn
a new order when the next reading begins: a worker that reads slower would go on with another one.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.data.pipeline import Pipeline, Step, is_finite_repeat
from migrator.facts.data.reading import Consumption, Reading
from migrator.facts.program.syntax import argument, is_false
from migrator.facts.training.sites import Training


class BegunAnew:
    def __init__(self, training: Training, reading: Reading) -> None:
        self.tree = training.tree
        self.resolver = training.resolver
        self.training = training
        self.reading = reading

    def shuffle_of(self, pipeline: Pipeline, consumption: Consumption) -> cst.Call | None:
        """The shuffle that may have drawn another order on each worker when the dataset is read again."""
        shuffles = (shuffle for way in pipeline.ways for shuffle in _repeated_shuffles(way.steps))
        return next((shuffle for shuffle in shuffles if self._is_read_again(consumption, shuffle)), None)

    def _is_read_again(self, consumption: Consumption, shuffle: cst.Call) -> bool:
        iterators = self.reading.iterators_read_by(consumption.reader)
        return any(self._runs_again(node, shuffle, set()) for node in iterators or [consumption.reader])

    def _runs_again(self, node: cst.CSTNode, shuffle: cst.Call, passed: set[cst.CSTNode]) -> bool:
        """Whether the node runs more than once for what one run of the call has made."""
        for loop in self.tree.loops_around(node):
            if not self.tree.is_in(shuffle, self.training.reached_from(loop.body)):
                return True
        function = self.tree.function_of(node)
        if function is None or function in passed or self.tree.is_in(shuffle, self.training.reached_from(function)):
            return False
        return any(self._runs_again(call, shuffle, {*passed, function}) for call in self.resolver.callers(function))


def _repeated_shuffles(steps: list[Step]) -> Iterator[cst.Call]:
    for number, step in enumerate(steps):
        if _reshuffles(step) and any(map(_is_endless, steps[number + 1 :])):
            yield step.call


def _reshuffles(step: Step) -> bool:
    anew = argument(step.call, "reshuffle_each_iteration", 2) if step.method == "shuffle" else None
    return step.method == "shuffle" and not (anew is not None and is_false(anew.value))


def _is_endless(step: Step) -> bool:
    return step.method == "repeat" and not is_finite_repeat(step)
