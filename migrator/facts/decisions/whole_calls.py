"""Calls whose results are whole on all workers, though the functions that they call also run on parts of batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.files.writes import Files
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.texts import Texts
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training


class WholeCalls:
    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, files: Files, losses: Losses, locality: Locality
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.files = files
        self.losses = losses
        self.locality = locality
        self._texts = Texts(resolver)
        # As long as nothing is settled.
        self._by_parameters: dict[frozenset[cst.FunctionDef], bool] = {}

    def settle(self) -> None:
        """What is made of values that all workers have is the same on all, though the same function also runs on parts
        of batches. But not what is read from files, into which a worker may have written what it has seen."""
        read = [told.read for told in self.files.told_again()]
        found = [call for call in self.tree.calls if self._may_be_whole(call, read)]
        while found:
            # They may be made of each other: a word is fed back to the model that gave it. What differs first would do
            # so by something else.
            with self.locality.trying():
                self._settle_with_parts(found)
                kept = [call for call in found if self._is_made_of_whole(call)]
            if len(kept) == len(found):
                break
            found = kept
        self._settle_with_parts(found)

    def _settle_with_parts(self, found: Iterable[cst.Call]) -> None:
        self.locality.settle(*(key for call in found for key in (call, *self._parts_bound.get(call, ()))))

    @cached_property
    def _parts_bound(self) -> dict[cst.CSTNode, list[Binding]]:
        """The names that get a part of what a call returns: `word, state = model(word, state)`."""
        found: dict[cst.CSTNode, list[Binding]] = defaultdict(list)
        for binding in self.tree.bindings:
            if binding.kind == "assign" and binding.path and isinstance(binding.value, cst.Call):
                found[binding.value].append(binding)
        return found

    def _may_be_whole(self, call: cst.Call, read: Collection[cst.CSTNode]) -> bool:
        """Whether all workers have it as long as they have what it is given."""
        marks = self.locality.of(call)
        if not marks or marks & (Mark.OWN | Mark.STATISTIC | Mark.HELD) or call in self.locality.origins:
            return False
        if not self.losses.is_same(call) or self._texts.run_by(call):
            return False
        reached = self.training.reached_from(call)
        if any(self.locality.of(("changed", body)) for body in reached):
            return False  # what a function hands out again holds what was put into it
        return not any(self.tree.contains(body, node) for body in reached for node in read) and (
            self._is_local_by_parameters(reached)
        )

    def _is_made_of_whole(self, call: cst.Call) -> bool:
        """Whether all workers have what the call is given; and it is not picked by a local value (a counter of bad
        steps), which looks like any other number."""
        given = [arg.value for arg in call.args]
        given += [call.func.value] if isinstance(call.func, cst.Attribute) else []
        made = (call, *self._parts_bound.get(call, ()))
        return not any(self.locality.due(key) & Mark.CHOSEN for key in made) and not any(map(self.locality.of, given))

    def _is_local_by_parameters(self, reached: Iterable[cst.CSTNode]) -> bool:
        """Whether what these functions return is local by what other calls hand them, and by nothing else they read."""
        functions = frozenset(node for node in reached if isinstance(node, cst.FunctionDef))
        if functions not in self._by_parameters:
            returned = [node for function in functions for node in self.resolver.returned_by_itself(function)]
            bound = [b for f in functions for bindings in self.tree.scopes[f].bindings.values() for b in bindings]
            params = [binding for binding in bound if binding.kind == "param"]
            with self.locality.trying():
                self.locality.settle(*params)
                self.locality.forget(*(param for param in params if param in self.locality.origins))
                self._by_parameters[functions] = bool(returned) and not any(map(self.locality.of, returned))
        return self._by_parameters[functions]
