"""The places that steer training: conditions that consequences follow, what sets the optimizer or a random state, and
what enters an update."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.chosen_rows import ChosenRows
from migrator.facts.decisions.consequences import Consequences
from migrator.facts.decisions.deciding_calls import DecidingCalls
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.files.writes import Files
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Minimization, Training


class SteeringPlaces:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        consequences: Consequences,
        locality: Locality,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.files = files
        self.consequences = consequences
        self.locality = locality
        self.calls = DecidingCalls(tree, resolver, training, locality, consequences.regions)
        self.chosen_rows = ChosenRows(resolver, training, sharding, locality)

    @cached_property
    def in_order(self) -> list[cst.BaseExpression]:
        """All places by which training may be steered, in source order."""
        found = dict.fromkeys([*self._conditions(), *self.inputs])
        return sorted(found, key=self.tree.order.__getitem__)

    def is_steered_locally(self, place: cst.BaseExpression) -> bool:
        """Whether a local value steers training there."""
        marks = self.locality.of(place) if place in self.inputs else self.locality.deciding(place) & ~Mark.WITHIN
        if not marks or self.files.is_chief_only(place):
            return False
        if place in self.inputs or self.consequences.follow(place):
            return True
        return bool(marks & Mark.PICKED) and self.consequences.follow_picked(place)

    def first_steered_by(self, number: cst.BaseExpression) -> cst.BaseExpression | None:
        """The first place that steers training by the number, such as what a call returned."""
        if self._is_dropped(number):
            return None
        reached = self.locality.reached_from(number)
        for place in self.in_order:
            marks = reached.of(place)
            if (marks and place in self.inputs) or (marks & ~Mark.WITHIN and self.consequences.follow(place)):
                return place
            if marks & Mark.PICKED and self.consequences.follow_picked(place):
                return place
        return None

    def _is_dropped(self, number: cst.BaseExpression) -> bool:
        """Whether it surely is what a call gives for nobody: `model.fit(x, y)`. The graph takes long."""
        if not isinstance(number, cst.Call) or not isinstance(self.tree.parent.get(number), cst.Expr):
            return False
        handed = (v for arg in number.args for v in self.resolver.values(arg.value))
        if any(isinstance(v, Function) for v in handed):  # which may be that of the object: `members.sort(key=score)`
            return False
        regions = self.consequences.regions
        return number not in regions.risks and number not in regions.picks and number not in regions.picked

    def _conditions(self) -> Iterator[cst.BaseExpression]:
        all_of = self.tree.all_of
        for tests in (all_of(cst.If), all_of(cst.While), all_of(cst.IfExp), all_of(cst.Assert), all_of(cst.CompIf)):
            yield from (node.test for node in tests)
        yield from (node.left for node in all_of(cst.BooleanOperation))
        readers = {consumption.reader for consumption in self.sharding.consumptions}
        loops: list[cst.For | cst.CompFor] = [*all_of(cst.For), *all_of(cst.CompFor)]
        yield from (node.iter for node in loops if node not in readers)
        yield from self.sharding.read_beside  # it may end before the batches do
        yield from (node.subject for node in all_of(cst.Match))
        yield from (node.guard for node in all_of(cst.MatchCase) if node.guard is not None)
        for call in self.tree.calls:
            yield call.func
            yield from (arg.value for arg in call.args[:1])
        yield from (node.value for node in all_of(cst.Return) if node.value is not None)
        yield from (node.body for node in all_of(cst.Lambda))
        regions = self.consequences.regions
        yield from regions.chosen_by_pairs()
        for places in (regions.risks, regions.picks, regions.picked, regions.cut_short):
            yield from (place for place in places if isinstance(place, cst.BaseExpression))

    @cached_property
    def inputs(self) -> set[cst.BaseExpression]:
        """What sets the optimizer or a random state, or enters an update."""
        found = {*self.consequences.settings, *self.chosen_rows.all()}
        for update in self.training.updates:
            if not isinstance(update, Minimization):
                found.update(arg.value for arg in update.call.args)
        found.update(arg.value for call in self.training.handed_to_keras for arg in call.args)
        for site in self.training.sites:  # which optimizer or model does it
            if isinstance(site, cst.Call) and isinstance(site.func, cst.Attribute):
                found.add(site.func.value)
        for call in self.tree.calls:
            if call in self.files.restores.copies or self.calls.decides(call) or self.calls.sets_weights(call):
                found.update(arg.value for arg in call.args)
            found.update(self.calls.settled_by(call))
            if self.calls.acts(call):
                found.add(call)
            if self._picks_trainer(call):
                found.add(cst.ensure_type(call.func, cst.Attribute).value)
        found.update(self.consequences.repeated)
        for function in self.tree.functions:
            if function.name.value == "__exit__":  # says whether an exception goes on
                found.update(self.resolver.returned_by_itself(function))
        return found

    def _picks_trainer(self, call: cst.Call) -> bool:
        """Whether it is a method, of an object that a local value has picked, that trains; what is picked inside the
        object is looked at where that is used."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not self.locality.of(func.value) & Mark.PICKED:
            return False
        return self.training.is_within(call)
