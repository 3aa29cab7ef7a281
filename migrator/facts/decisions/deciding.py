"""Losses and decisions, each asked anew until what is put together for the one is what the other counts on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Union

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.run import Run
from migrator.analysis.values import Repair
from migrator.analysis.verdicts import MEAN, SUM
from migrator.facts.data.batch_shapes import Made, Size
from migrator.facts.decisions import Decisions, LocalNumber
from migrator.facts.decisions.means import Rows
from migrator.facts.objects.values import Object
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.reductions import GATHER, Reductions
from migrator.findings.results import Defect

if TYPE_CHECKING:
    from migrator.facts.script import Facts

# What gets a number of all workers: a name, or, where none does, the expression that is put together.
_Getting = Union[Binding, cst.BaseExpression]
# What is gathered for a decision may show what others need: so many rounds at most.
_MOST_GATHERINGS = 6


class Deciding:
    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._tree = facts.tree
        self._training = facts.training
        self._known_losses: dict[tuple[frozenset[cst.CSTNode], ...], Losses] = {}
        self._runs: dict[object, Run | None] = {}
        self._combined: set[_Getting] = set()
        self._places: dict[_Getting, frozenset[cst.CSTNode]] = {}
        self._not_combined: set[_Getting] = set()

    def _losses(self, numbers: Collection[cst.CSTNode] = (), gathered: Collection[cst.CSTNode] = ()) -> Losses:
        """`numbers`, `gathered`: see Losses. For the same ones they are looked for once."""
        asked = frozenset(numbers), frozenset(gathered), frozenset(self._combined_places)
        if asked not in self._known_losses:
            self._known_losses[asked] = self._run_losses(numbers, gathered)
        return self._known_losses[asked]

    def _run_losses(self, numbers: Collection[cst.CSTNode], gathered: Collection[cst.CSTNode]) -> Losses:
        made = self._facts.sharding.made
        rows = {*self._facts.sharding.cut_rows, *(m.node for m in made if isinstance(m, Made))}
        sizes = {m.node for m in made if isinstance(m, Size)}
        cut = [*self._facts.sharding.cut_readers, *self._facts.sharding.cut_datasets, *rows, *sizes]
        reduced = {call for u in self._training.updates for gradients in u.gradients for call in gradients.tape_calls}
        return Losses(
            self._tree,
            tuple(self._facts.scripts.values()),
            self._facts.sharding.cut_readers,
            rows,
            sizes,
            reduced,
            self._watched,
            self._facts.sites,
            self._facts.entries(cut),
            self._facts.kinds.models_of_packages,
            self._facts.stated.values,
            numbers,
            gathered,
            self._facts.sharding.cut_datasets,
            self._combined_places,
            self._facts.sources,
            self._written_for,
            self._facts.sharding.cut_together,
            self._facts.cuts,
            self._runs,
            self._facts.branches,
            self._facts.sharding.whole_beside,
        )

    @cached_property
    def _watched(self) -> set[cst.Call]:
        """The calls that give gradients which are reduced right there, while another tape watches."""
        applied = [(u, given, c) for u in self._training.updates for given in u.gradients for c in given.tape_calls]
        elsewhere = {
            call
            for update, given, call in applied
            if not given.is_at(call)
            or self._facts.reduced.may_be_wrapped(update)
            or self._facts.optimizers.will_reduce(update)
        }
        return {call for *_, call in applied if call not in elsewhere and self._training.is_watched(call)}

    @cached_property
    def _written_for(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """The calls that may read a file, by what is written into it before."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for told in self._facts.files.told_again():
            found[told.written].append(told.read)
        return found

    @property
    def _combined_names(self) -> set[cst.CSTNode]:
        named = (key.target for key in self._combined if isinstance(key, Binding))
        return {target for target in named if target is not None}

    @property
    def _combined_places(self) -> set[cst.CSTNode]:
        """Where that is put together: the names, or what stands in that which they get."""
        return {place for getting in self._combined for place in self._places[getting]}

    def _combine(self, gettings: Collection[_Getting], numbers: Sequence[LocalNumber]) -> None:
        self._combined = self._combined | set(gettings)
        for getting in gettings:
            self._places[getting] = _places_of(getting, numbers, self._tree)

    def repairs(self, decisions: Decisions) -> set[Repair]:
        losses = decisions.losses
        found = Reductions(self._training, losses, self._facts.sharding).repairs_of_updates | decisions.repairs
        for fit in (*self._training.fits, *self._training.batch_fits):
            found |= losses.of_forward(fit.call).repairs | losses.of_fit(fit.call).repairs
        for call in self._tree.calls:
            found |= losses.of_added(call).repairs
        return found

    @cached_property
    def decisions(self) -> Decisions:
        """Asked anew where a loss would put together again what a name holds that is put together where it gets it.
        Raises Defect where that comes to no end, in a program that is not refused anyway."""
        decisions = self._decided()
        for _ in range(_MOST_GATHERINGS):
            again = self._combined_twice(decisions) - self._combined
            numbers = _combined_in(decisions)
            lost = {b for b in self._combined if _places_of(b, numbers, self._tree) != self._places[b]}
            if not again and not lost:
                return decisions
            # What is put together for the losses has made it the same: asked without it, that stays so.
            self._not_combined |= lost
            kept = again & self._not_combined
            if kept:
                return self._decided_with(kept, numbers)
            self._combine(again, numbers)
            self._combined = self._combined - self._not_combined
            decisions = self._decided()
        if not decisions.are_settled:
            return decisions  # what is left over is refused, whatever is combined
        raise Defect("whether a number is put together where it gets its name, or in the losses, cannot be told apart")

    def _decided_with(self, gettings: set[_Getting], numbers: Sequence[LocalNumber]) -> Decisions:
        """The decisions once the names get a number of all workers, which the losses need, while what steers is put
        together further on by then."""
        self._combine(gettings, numbers)
        self._not_combined -= gettings
        decisions = self._decided()
        decisions.combine(n for n in numbers if any(_is_given(getting, [n], self._tree) for getting in gettings))
        return decisions

    def _combined_twice(self, decisions: Decisions) -> set[_Getting]:
        """Where names get a number of all workers, or what has no name does, and enter what is put together for a loss,
        or what nothing makes the workers agree on: a mean times the number of samples."""
        numbers = _combined_in(decisions)
        repairs = self.repairs(decisions) if numbers else set()
        operands = {o.node for repair in repairs for o in repair.operands}
        # Of a ratio the losses put the other number together, and take this one for a worker's.
        ratios = {repair.node for repair in repairs if repair.form == "divisor"}
        unsettled = {n.expression for n in decisions.local_numbers if not n.is_settled} if numbers else set()
        locality = decisions.locality
        behind = locality.behind(operands | ratios | unsettled)
        found: set[_Getting] = {
            key
            for key in behind
            if isinstance(key, Binding) and not locality.of(key) and _is_given(key, numbers, self._tree)
        }
        # What a call is given, or a place in a container gets: `setattr(s, "total", s.total + …)`, `Stats(n + len(y))`
        named = {place for key in (*found, *self._combined) for place in _places_of(key, numbers, self._tree)}
        loose = (n.expression for n in numbers if n.binding is None and n.expression not in named)
        return found | {node for node in loose if node in behind and node not in operands | unsettled}

    def _decided(self) -> Decisions:
        decisions = self._reduced_decisions()
        for _ in range(_MOST_GATHERINGS):
            again = set() if decisions.are_settled else self._combined_twice(decisions) - self._combined
            again -= self._not_combined
            if not again:
                break
            self._combine(again, _combined_in(decisions))
            decisions = self._reduced_decisions()
        if self._training.batch_fits or not self._makes_own_steps:
            return decisions
        taken = Reductions(self._training, decisions.losses, self._facts.sharding).single_samples
        if decisions.are_settled and not taken:
            return decisions
        return self._gathered_decisions(decisions) or decisions

    @property
    def _makes_own_steps(self) -> bool:
        """Whether each `fit` trains by a step of the script's: rows that Keras's own takes come in no order."""
        classes = {self._training.step_class(update) for update in self._training.updates} - {None}
        return all(
            any(isinstance(v, Object) and classes.intersection(self._facts.resolver.lineage(v.of)) for v in fit.values)
            for fit in self._training.fits
        )

    def _gathered_decisions(self, decisions: Decisions) -> Decisions | None:
        """The decisions with all rows put together where they enter what steers, or are taken one by one for a loss;
        None where that settles not all."""
        gathered: set[cst.BaseExpression] = set()
        numbers: set[cst.CSTNode] = set()  # what is put together for one of them is none of the next ones
        for _ in range(_MOST_GATHERINGS):
            numbers |= {*decisions.steering, *(number.expression for number in decisions.local_numbers)}
            losses = self._losses(numbers, gathered)
            reductions = Reductions(self._training, losses, self._facts.sharding)
            decisions = self._decisions(losses, reductions, Rows.ONCE, gathered, reductions.single_samples)
            if not decisions.are_settled:
                return None
            more = {n.expression for n in decisions.local_numbers if n.reduction == GATHER}
            needed = {node for node in gathered if any(repair.node is node for repair in losses.gathers)}
            if not more and needed == gathered:
                is_right = reductions.are_right and not any(map(losses.obstacle, losses.gathers))
                return decisions if is_right and not decisions.gathering.meets_unseen(gathered) else None
            gathered = needed | more
        return None

    def _reduced_decisions(self) -> Decisions:
        losses = self._losses()
        reductions = Reductions(self._training, losses, self._facts.sharding)
        decisions = self._decisions(losses, reductions)
        cuts = {reductions.cut_for(update) for update in self._training.updates}
        if decisions.ratios and not self._training.batch_fits:
            return self._decisions_with_rows_once(decisions)
        if not decisions.kinds or (len(cuts | decisions.kinds) == 1 and cuts != {GATHER}):
            has_means = any(n.reduction == MEAN and decisions.decides(n) for n in decisions.local_numbers)
            if cuts == {SUM} and not has_means and any(number.is_count for number in decisions.local_numbers):
                return self._decisions(losses, reductions, Rows.ONCE)  # so that rows can be counted
            if cuts != {SUM} or not has_means or self._training.batch_fits:
                return decisions
        if self._training.batch_fits:  # of which nothing can be put together that a batch has to be
            return self._decisions(losses, reductions, Rows.REPEATED)
        return self._decisions_with_rows_once(decisions)

    def _decisions_with_rows_once(self, decisions: Decisions) -> Decisions:
        """No row may be computed twice where some numbers are sums, and then means of parts are none of the batch."""
        numbers = {*decisions.steering, *(n.expression for n in decisions.local_numbers), *decisions.ratios}
        losses = self._losses(numbers)
        return self._decisions(losses, Reductions(self._training, losses, self._facts.sharding), Rows.ONCE)

    def _decisions(
        self,
        losses: Losses,
        reductions: Reductions,
        rows: Rows = Rows.ANY,
        gathered: Collection[cst.BaseExpression] | None = None,
        taken: Collection[cst.CSTNode] = (),
    ) -> Decisions:
        facts = self._facts
        return Decisions(
            self._tree, facts.resolver, self._training, facts.sharding, facts.files, losses,
            reductions.repairs_of_updates, facts.stated, rows, gathered, taken, self._combined_names, facts.sent,
        )  # fmt: skip


def _combined_in(decisions: Decisions) -> list[LocalNumber]:
    """The numbers of which the workers' mean or sum is taken."""
    return [n for n in decisions.local_numbers if n.metric is None and n.reduction in (MEAN, SUM)]


def _is_given(getting: _Getting, numbers: Sequence[LocalNumber], tree: Tree) -> bool:
    """Whether one of the numbers is what the name gets, or stands in it."""
    return bool(_places_of(getting, numbers, tree))


def _places_of(getting: _Getting, numbers: Sequence[LocalNumber], tree: Tree) -> frozenset[cst.CSTNode]:
    """Where the workers put together what the name gets: all of it, or those of the numbers that stand in it."""
    if not isinstance(getting, Binding):
        return frozenset(n.expression for n in numbers if n.binding is None and n.expression is getting)
    value = getting.value
    if not isinstance(value, cst.CSTNode):
        return frozenset()
    if any(n.binding is getting for n in numbers) and getting.target is not None:
        return frozenset((getting.target,))
    return frozenset(n.expression for n in numbers if n.binding is None and tree.contains(value, n.expression))
