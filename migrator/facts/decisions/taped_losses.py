"""The losses that tapes go back through: what they are computed from, and which code runs under the tapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.way_back import WayBack
from migrator.facts.dependence import DECIDING, Key, Way
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training
from migrator.worklist import Worklist

_BY_CHOICE = (*DECIDING, Way.SIZE, Way.LENGTH, Way.PRESENCE)


class TapedLosses:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, locality: Locality) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.locality = locality

    def losses(self) -> Iterator[cst.CSTNode]:
        """The losses that tapes are asked for, where they are made and where they are used."""
        for call in filter(self.training.flow.is_tape_call, self.tree.calls):
            for arg in call.args[:1]:
                yield arg.value
                bindings = self.resolver.reaching(arg.value) if isinstance(arg.value, cst.Name) else ()
                yield from (b.value for b in bindings if b.kind == "assign" and b.value is not None and not b.path)

    @cached_property
    def behind(self) -> set[Key]:
        """All that the losses which are differentiated are computed from."""
        return self._made_of(
            arg.value for call in self.tree.calls if self.training.flow.is_tape_call(call) for arg in call.args[:1]
        )

    @cached_property
    def handed_on(self) -> set[Key]:
        """All that is computed of what a step of the script's own hands on to Keras's, which makes the loss of it."""
        return self._made_of(arg.value for call in self.training.keras_steps for arg in call.args)

    def _made_of(self, nodes: Iterable[Key], until: Callable[[Key], bool] = lambda key: False) -> set[Key]:
        way_back = WayBack(self.tree, self.resolver, self.locality.dependence, _BY_CHOICE)
        return way_back.from_(nodes, until)

    @cached_property
    def handed_over(self) -> set[Key]:
        """On the way from the code under a tape to where it is asked for gradients: `update(tape, loss)`."""
        asked = [c.args[0].value for c in self.tree.calls if c.args and self.training.flow.is_tape_call(c)]
        return self._made_of(asked, until=self.is_under_tape)

    @cached_property
    def sizing(self) -> set[Key]:
        """What losses are computed from the size of, and what that holds: `len(failures)`."""
        inputs = self.locality.dependence.inputs
        queue = Worklist[Key](k for key in self.behind for k, way in inputs(key) if way in (Way.SIZE, Way.LENGTH))
        found: set[Key] = set()
        for key in queue:
            if key not in self.behind:
                found.add(key)
                queue += [k for k, way in inputs(key) if way not in (*DECIDING, Way.PRESENCE)]
        return found

    @cached_property
    def differentiated(self) -> set[Key]:
        """What tapes go back through: it must stay this worker's until then."""
        return {key for key in self.behind if self.is_under_tape(key)}

    def goes_back_through(self, binding: Binding) -> bool:
        """Whether a tape goes back through the name: the loss itself must stay this worker's until then."""
        is_asked_later = self._asked_last.get(binding.name, -1) > self.tree.order[binding.node]
        return binding in self.differentiated or is_asked_later

    @cached_property
    def _asked_last(self) -> dict[str, int]:
        """By names, where tapes are asked for gradients with them last."""
        asked = (arg for call in self.tree.calls if self.training.flow.is_tape_call(call) for arg in call.args)
        names = (name for arg in asked for name in self.tree.names_in(arg.value))
        return {n.value: self.tree.order[n] for n in sorted(names, key=self.tree.order.__getitem__)}

    def is_under_tape(self, key: Key) -> bool:
        node = key.node if isinstance(key, Binding) else key
        if not isinstance(node, cst.CSTNode) or not self._taped_orders:
            return False
        order = self.tree.order[node]
        return any(first <= order <= last for first, last in self._taped_orders)

    @cached_property
    def _taped_orders(self) -> list[tuple[int, int]]:
        return [(self.tree.order[body], self.tree.last_order_in(body)) for body in self._taped]

    @cached_property
    def _taped(self) -> list[cst.CSTNode]:
        """The code that runs under tapes, or may."""
        blocks = [tape.body for tape in self.training.tapes]
        found = dict.fromkeys(self.training.taped)
        for function in self.tree.functions:  # called in a way that is not seen
            if self.behind.intersection(self.resolver.returned_by_itself(function)) and not any(
                self.tree.contains(body, block) for body in self._run_in(function.body) for block in blocks
            ):
                found[function] = None
        return list(found)

    def _run_in(self, function: cst.CSTNode) -> list[cst.CSTNode]:
        """All functions that run in it, such as the one in whose place a decorator has put it."""
        found = dict.fromkeys(self.training.reached_from(function))
        queue = list(found)
        while queue:
            body = queue.pop()
            calls = [call for call in self.tree.calls if self.tree.contains(body, call)]
            for run in (run for call in calls for run in self.locality.losses.run_at(call) or ()):
                new = [node for node in self.training.reached_from(run) if node not in found]
                found.update(dict.fromkeys(new))
                queue += new
        return list(found)
