"""The numbers of a script that count training steps: of epochs and loops, and of learning-rate schedules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.data.reading import Reading
from migrator.facts.names import api
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.ports.ported import Ports
from migrator.facts.ports.shares import Shares
from migrator.facts.program.syntax import argument, dotted
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_SCHEDULES = re.compile(r"^keras\.(?:optimizers\.schedules|experimental)\.\w*Decay\w*$")
_SCHEDULE_STEPS = {"decay_steps": 1, "first_decay_steps": 1, "warmup_steps": None}


class StepCounts:
    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, reading: Reading, ports: Ports, shares: Shares,
        origins: Origins,
    ) -> None:  # fmt: skip
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.reading = reading
        self.ports = ports
        self.shares = shares
        self.origins = origins

    @cached_property
    def found(self) -> list[cst.BaseExpression]:
        """All of them, in source order."""
        found = dict.fromkeys([*self._of_fit(), *self._of_loops(), *self._of_datasets(), *self._of_schedules()])
        return sorted(found, key=self.tree.order.__getitem__)

    def _of_fit(self) -> Iterator[cst.BaseExpression]:
        for fit in self.training.fits:
            steps = argument(fit.call, "steps_per_epoch")
            if steps is not None:
                yield steps.value

    def _of_loops(self) -> Iterator[cst.BaseExpression]:
        """`for step in range(n // batch_size):` around an update."""
        for update in self.training.updates:
            for loop in self._loops_to(update.call, set()):
                call = self.reading.pipelines.core(loop.iter)
                if isinstance(call, cst.Call) and External("builtins.range") in self.resolver.values(call.func):
                    yield from (arg.value for arg in call.args[-1:])

    def _loops_to(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.For]:
        yield from (loop for loop in self.tree.loops_around(node) if isinstance(loop, cst.For))
        function = self.tree.function_of(node)
        if function is not None and function not in seen:
            for caller in self.resolver.callers(function):
                yield from self._loops_to(caller, seen | {function})

    def _of_datasets(self) -> Iterator[cst.BaseExpression]:
        """`dataset.batch(64).take(n // 64)`"""
        for dataset in self.trained_on:
            for steps in [way.steps for way in self.reading.pipelines.history(dataset).ways]:
                batch = next((i for i, step in enumerate(steps) if step.makes_batches), len(steps))
                for step in steps[batch:]:
                    if step.method == "take" and step.call.args:
                        yield step.call.args[0].value

    def _of_schedules(self) -> Iterator[cst.BaseExpression]:
        for call in self.tree.calls:
            names = self.resolver.public(call.func)
            if any(name.endswith(".PiecewiseConstantDecay") for name in names if _SCHEDULES.match(name)):
                boundaries = argument(call, "boundaries", 0)
                if boundaries is not None and isinstance(boundaries.value, (cst.List, cst.Tuple)):
                    yield from (element.value for element in boundaries.value.elements)
            elif any(map(_SCHEDULES.match, names)):
                given = [argument(call, name, position) for name, position in _SCHEDULE_STEPS.items()]
                yield from dict.fromkeys(arg.value for arg in given if arg is not None)

    # -- batches -------------------------------------------------------------------------------------------------

    @cached_property
    def trained_on(self) -> list[cst.BaseExpression]:
        """The datasets that training reads."""
        read = [c.dataset for u in self.training.updates for c in self.reading.consumptions(u)]
        given = [a.value for f in self.training.fits if (a := argument(f.call, "x", 0)) is not None]
        return [*dict.fromkeys(read), *(x for x in given if self.reading.pipelines.is_dataset(x))]

    @cached_property
    def batch_sizes(self) -> list[cst.BaseExpression]:
        """What each worker batches its training data by; nothing where the number of a script is that of all workers
        and the data are yet to be cut."""
        found = []
        for fit in self.training.fits:
            size, data = argument(fit.call, "batch_size", 2), argument(fit.call, "x", 0)
            if size is not None and data is not None and self._is_local(data.value):
                found.append(size.value)
        for dataset in self.trained_on if self.ports.toolkit is not None else ():
            if self._is_local(dataset):
                found.extend(self._batched_by(dataset))
        return found

    def _batched_by(self, dataset: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        for part in self.origins.behind(dataset):
            if isinstance(part, cst.Call) and self._batches(part) and not self._are_cut(part, dataset):
                size = argument(part, "batch_size", 0)
                if size is not None:
                    yield size.value

    def _are_cut(self, batch: cst.Call, dataset: cst.BaseExpression) -> bool:
        """Whether each worker gets its part of every batch, so that the batch size is that of all."""
        upstream, behind = set(self.origins.behind(batch)), set(self.origins.behind(dataset))
        shares = [share.node for share in self.shares.found if share.node in behind]
        return bool(shares) and not any(node in upstream or not _cuts_batches(node) for node in shares)

    def _batches(self, call: cst.Call) -> bool:
        is_named = isinstance(call.func, cst.Attribute) and call.func.attr.value in api.BATCHING
        return is_named and self.reading.pipelines.is_dataset(call)

    def _is_local(self, data: cst.BaseExpression) -> bool:
        """Whether the batches of these data are each worker's own."""
        library = self.ports.toolkit
        if library is not None and not library.shares_batch:
            return True
        shares = {share.node for share in self.shares.found}
        return any(part in shares for part in self.origins.behind(data))


def _cuts_batches(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] == "shard_batches"
