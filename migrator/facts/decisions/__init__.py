"""Where training is steered by what only one worker has seen: a loss or metric of its share of the batches.

Workers that decide differently part ways: the one that leaves a loop first lets the others wait for ever, and one
that changes its learning rate alone trains another model. What steers must be the same on all workers: conditions that
consequences follow, what sets the optimizer or a random state, what enters an update. Where a local value reaches such
a place, the way back from it is gone until numbers are met that may be averaged: the losses themselves, most often.
What was picked or counted by them on the way then agrees by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.values import Repair
from migrator.analysis.verdicts import MEAN, SUM, puts_in_order
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.brought_in import BroughtIn
from migrator.facts.decisions.chiefs_numbers import ChiefsNumbers
from migrator.facts.decisions.consequences import Consequences
from migrator.facts.decisions.entrances import Entrances
from migrator.facts.decisions.fed_back import FedBack
from migrator.facts.decisions.gathering import Gathering
from migrator.facts.decisions.local_number import LocalNumber
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.means import Means, Rows
from migrator.facts.decisions.metrics import MetricResult, Metrics
from migrator.facts.decisions.numbers_behind import NumbersBehind
from migrator.facts.decisions.settling import (
    settle_by_repair,
    settle_by_word,
    settle_draws,
    settle_ends,
    settle_structures,
    settle_symbols,
)
from migrator.facts.decisions.steering import SteeringPlaces
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.decisions.whole_calls import WholeCalls
from migrator.facts.dependence.regions import Regions
from migrator.facts.files.writes import Files
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.told import is_only_told
from migrator.facts.program.stated import Stated
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

__all__ = ["Decisions", "LocalNumber"]

# Behind so many places that nothing makes the workers agree on, as in whole libraries, the rest is refused as one: to
# look for what is behind each of them takes longer than all else.
_MOST_LEFT = 20


class Decisions:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        losses: Losses,
        repaired: Collection[Repair] = (),
        stated: Stated | None = None,
        rows: Rows = Rows.ANY,
        gathered: Collection[cst.BaseExpression] | None = None,
        taken: Iterable[cst.CSTNode] = (),
        combined: Collection[cst.CSTNode] = (),
        sent: Iterable[cst.BaseExpression] = (),
    ) -> None:
        """`repaired`: what is put together for the losses. `stated`: what the user has said. `gathered`: where the
        losses are known with all rows put together for what steers; others are looked for where it is given. `taken`:
        single samples that enter losses. `combined`: the names of which the losses know that they get a number of all
        workers. `sent`: what all take from the chief anyway, where it is made."""
        self.tree = tree
        self.training = training
        self.losses = losses
        self._files = files
        consequences = Consequences(
            tree, resolver, training, sharding, files, Regions(tree, resolver, training), gathered or ()
        )
        self._consequences = consequences
        self.locality = Locality(
            tree,
            resolver,
            training,
            sharding,
            consequences,
            losses,
            stated.computing if stated is not None else (),
        )
        self.metrics = Metrics(
            tree, resolver, training, sharding, files, self.locality, losses, parts_differ=rows is Rows.ONCE
        )
        self.gathering = Gathering(tree, files, losses, self.locality)
        divided_by = [o.node for r in repaired if r.form == "divisor" for o in r.operands if o.how == SUM]
        divisors = {binding.target for binding in self.locality.bindings_behind(divided_by)}.union(combined)
        self._places = SteeringPlaces(tree, resolver, training, sharding, files, consequences, self.locality)
        taped = TapedLosses(tree, resolver, training, self.locality)
        self._numbers = NumbersBehind(
            tree,
            resolver,
            training,
            self.locality,
            self.metrics,
            Means(resolver, self.locality, losses, repaired, rows, taped.losses(), combined),
            taped,
            ChiefsNumbers(tree, resolver, self.locality, losses, self._places, taped),
            self.gathering if gathered is not None else None,
            divisors,
        )
        entrances = Entrances(tree, resolver, training, losses)
        fits = [fit.call for fit in (*training.fits, *training.batch_fits)]
        of_fits = {r for call in fits for of in (losses.of_forward, losses.of_fit) for r in of(call).repairs}
        brought_in = BroughtIn(tree, self.locality, taped, self._numbers, entrances, {*repaired, *of_fits})
        self._fed_back = FedBack(tree, self.locality, self.metrics, losses, taped, self._numbers, repaired, brought_in)
        self._taken = [node for node in taken if isinstance(node, cst.BaseExpression)]
        agreed = [node for node in stated.agreed if node not in losses.contradicted] if stated is not None else []
        # Where numbers behind it can be combined, no word is asked for.
        agreed = [n for n in agreed if n not in losses.combined_by_itself or not self._numbers.are_behind(n)]
        self.agreed_by_word = settle_by_word(agreed, self.locality)
        self.locality.settle(*sent)
        self.locality.forget(*sent)
        # What losses would take the mean of, and counts rows: of several batches each worker has its own share.
        averaged = {operand.node for r in repaired for operand in r.operands if operand.how == MEAN}
        self.ratios = {n for n in averaged if self.locality.of(n) & Mark.COUNT and n in taped.behind}
        settle_symbols(self.locality, losses)
        settle_structures(tree, resolver, self.locality, losses)
        settle_ends(tree, resolver, self.locality, losses)
        settle_draws(repaired, tree, resolver, self.locality)
        for call in losses.told_apart:
            self.locality.make(call, Mark.VALUE)
        WholeCalls(tree, resolver, training, files, losses, self.locality).settle()
        self.repairs = settle_by_repair(frozenset(repaired), rows, losses, self.locality, self._places, taped)
        self.puts_rows_together = bool(gathered) or puts_in_order(self.repairs)
        if gathered:
            self.repairs |= losses.gathers

    @cached_property
    def local_numbers(self) -> list[LocalNumber]:
        """The local numbers that steer training, in source order."""
        if not self.training.sites or not self.locality.origins:
            return []
        # Metrics first: what is asked of them is settled then.
        found: dict[cst.CSTNode, LocalNumber] = {
            r.call: LocalNumber(r.call, metric=r, reduction="mean") for r in self._results if not r.is_own
        }
        for numbers in self.steering.values():
            for number in numbers:
                found.setdefault(number.expression, number)
        for result in self._results:
            found.setdefault(result.call, LocalNumber(result.call, metric=result))
        return sorted(found.values(), key=lambda number: self.tree.order[number.expression])

    def combine(self, numbers: Iterable[LocalNumber]) -> None:
        """Has these combined, too, where nothing that steers asks for it."""
        places = {number.place for number in self.local_numbers}
        self.local_numbers += [number for number in numbers if number.place not in places]
        self.local_numbers.sort(key=lambda number: self.tree.order[number.expression])

    @cached_property
    def steering(self) -> dict[cst.BaseExpression, list[LocalNumber]]:
        """The places where local numbers steer training, with these numbers."""
        found: dict[cst.BaseExpression, list[LocalNumber]] = {}
        origins = set(self.locality.origins)
        if origins:
            # What nothing makes the same yet: perhaps what is combined for others does.
            late: list[cst.BaseExpression] = []
            for place in filter(self._places.is_steered_locally, self._places.in_order):
                numbers = self._numbers.agreed_alone(place) if len(late) < _MOST_LEFT else None
                if numbers is not None:
                    found[place] = numbers
                else:
                    late.append(place)
            left = 0
            places = iter(late)
            for place in filter(self._places.is_steered_locally, places):
                if left >= _MOST_LEFT:
                    others = sum(map(self._places.is_steered_locally, places))
                    found[place] = [LocalNumber(place, left_out=others)]
                    break
                found[place] = self._numbers.agree_on(place)
                left += not all(number.is_settled for number in found[place])
            else:
                for place in self._fed_back.places() if left < _MOST_LEFT else ():
                    found.setdefault(place, self._numbers.agree_on(place))
                self._agree_on_meetings(found)
        for place in self._taken:
            found.setdefault(place, self._numbers.agree_on(place))
        return {
            place: [n for n in numbers if n.expression in origins or not self._is_combined_before(n)]
            for place, numbers in found.items()
        }

    def _agree_on_meetings(self, found: dict[cst.BaseExpression, list[LocalNumber]]) -> None:
        """Has the workers agree, too, on what decides whether they come to where numbers are combined."""
        while True:
            numbers = [n for several in found.values() for n in several if n.is_settled and n.metric is None]
            self._consequences.exchange(number.expression for number in numbers)
            missed = [p for p in self._places.in_order if p not in found and self._places.is_steered_locally(p)]
            if not missed:
                return
            for place in missed:
                found[place] = self._numbers.agree_on(place)

    def _is_combined_before(self, number: LocalNumber) -> bool:
        """Whether the number is made of what the workers were found to agree on after it."""
        is_combined = bool(number.reduction) and number.metric is None
        return is_combined and not self.locality.due(number.binding or number.expression)

    def place_of(self, number: LocalNumber) -> cst.BaseExpression:
        """The first place that is steered by the number."""
        places = (place for place, numbers in self.steering.items() if number in numbers)
        return min(places, key=self.tree.order.__getitem__, default=number.expression)

    @property
    def are_settled(self) -> bool:
        """Whether something makes the workers agree on all that steers."""
        return all(number.is_settled for number in self.local_numbers)

    def decides(self, number: LocalNumber) -> bool:
        """Whether training is steered by the number, which is not only told."""
        if number.metric is None or number.expression in self._steering_expressions:
            return True
        return self.first_steered_by(number.metric.call) is not None

    @cached_property
    def _steering_expressions(self) -> set[cst.BaseExpression]:
        return {number.expression for numbers in self.steering.values() for number in numbers}

    def steers_by(self, place: cst.CSTNode) -> bool:
        """Whether training is steered by a number that is combined there, and is no metric's result."""
        return any(number.place is place and number.metric is None for number in self.local_numbers)

    def is_the_chiefs(self, place: cst.CSTNode) -> bool:
        """Whether the workers take there what the chief has, such as whether a file is there."""
        return any(number.place is place and number.reduction == "chief" for number in self.local_numbers)

    def is_truth_of_files(self, number: LocalNumber) -> bool:
        """Whether nothing is asked of the names of files but whether there is any."""
        node = number.expression
        is_list = number.binding is None and isinstance(node, cst.Call) and self._files.lists(node)
        return is_list and self._numbers.chiefs.is_asked(node)

    def first_steered_by(self, number: cst.BaseExpression) -> cst.BaseExpression | None:
        """The first place that steers training by the number, such as what a call returned."""
        return self._places.first_steered_by(number)

    @cached_property
    def kinds(self) -> set[str]:
        """How the numbers that training is steered by are combined; empty where that is not known."""
        kinds = set()
        local = self.local_numbers  # what metrics settle is settled first
        for number in local:
            if number.is_count:
                kinds.add(SUM)
            elif number.metric is None:
                kinds.add(number.reduction)
            else:
                fed_to = self.locality.metrics.fed_to(number.metric.metric)
                if fed_to and self.decides(number):  # else `fit` feeds it
                    fed = {self.losses.of_number(node).reduction for node in fed_to}
                    kinds |= fed if fed in ({MEAN}, {SUM}) and number.metric.is_mean else {SUM}
        return kinds - {"chief"}

    @cached_property
    def _results(self) -> list[MetricResult]:
        """The results of metrics that are combined where they are asked for, and settled by that."""
        every = list(self.metrics.results())
        # Moving statistics are averaged with the gradients of each step: a number of theirs may be told as it is.
        used = [
            r
            for r in every
            if not (self.metrics.is_of_statistics(r) and is_only_told(self.tree, self.metrics.resolver, r.call))
        ]
        asked = {metric for r in used for metric in self.metrics.resolver.values(r.metric)}
        found = [r for r in every if r in used or asked & set(self.metrics.resolver.values(r.metric))]
        for result in found:
            if not result.is_own:
                self.locality.settle(result.call)
        return found
