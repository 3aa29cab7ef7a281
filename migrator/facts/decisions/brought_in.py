"""What numbers of the steps bring into the training in any other way than by a decision: kept in a list, an attribute
or a closure, and read in a loss, a layer, what rows are made by, or what a model is made of.

A number that is each worker's own is harmless only where all its ways end in being told. So each of them is followed
to where it comes in, and is combined before the samples of the workers are added to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import libcst as cst

from migrator.analysis.values import Repair
from migrator.facts.decisions.entrances import Entrances
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.numbers_behind import NumbersBehind
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.dependence import Key
from migrator.facts.dependence.spreading import Spread
from migrator.facts.program.tree import Tree
from migrator.worklist import Worklist


class BroughtIn:
    def __init__(
        self,
        tree: Tree,
        locality: Locality,
        taped: TapedLosses,
        numbers: NumbersBehind,
        entrances: Entrances,
        repaired: Collection[Repair],
    ) -> None:
        """`repaired`: what is put together for the losses, whatever is asked here."""
        self.tree = tree
        self.locality = locality
        self.taped = taped
        self.numbers = numbers
        self.entrances = entrances
        self._repaired = frozenset(repaired)

    def places(self) -> Iterator[cst.BaseExpression]:
        """Where such numbers come in, as long as nothing makes the workers agree on them before, and what else decides
        on what comes in."""
        atoms = self._numbers_of_steps()
        if not atoms:
            return
        reached = self.locality.spread_from(atoms)
        keys = [self.locality.dependence.keys[number] for number in reached.marks]
        ends = [key for key in keys if isinstance(key, cst.BaseExpression) and self._comes_in(key, reached)]
        pure = self._made_of_numbers(atoms, keys)
        entered: dict[cst.BaseExpression, list[cst.BaseExpression]] = defaultdict(list)
        for end in ends:
            for place in self._before_samples(end, reached, pure):
                entered[place].append(end)
        for place in sorted(entered, key=self.tree.order.__getitem__):
            if self.locality.of(place) and not self._is_put_together(place, entered[place]):
                yield place

    def _numbers_of_steps(self) -> list[cst.BaseExpression]:
        """The means and sums over batches that code outside of the tapes reads."""
        kinds = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)
        return [
            node
            for kind in kinds
            for node in self.tree.all_of(kind)
            if self.locality.of(node) & (Mark.VALUE | Mark.INSIDE)
            and not (self._may_be_taped(node) or self.entrances.is_within_model(node))
            and self.numbers.can_be_combined(node)
        ]

    def _may_be_taped(self, node: cst.CSTNode) -> bool:
        """Whether it runs under a tape; of a lambda that is not always seen."""
        return self.taped.is_under_tape(node) or any(isinstance(o, cst.Lambda) for o in self.tree.ancestors(node))

    def _made_of_numbers(self, atoms: list[cst.BaseExpression], keys: list[Key]) -> set[Key]:
        """Those values that are each worker's own only by these numbers, and by what the chief can tell."""
        own = [key for key, marks in self.locality.origins.items() if marks & Mark.OWN]
        with self.locality.trying():
            self.locality.settle(*atoms)
            self.locality.forget(*own)
            return {*atoms, *(key for key in keys if not self.locality.of(key))}

    def _comes_in(self, node: cst.BaseExpression, reached: Spread) -> bool:
        """Whether the number comes into the training there, or what it has picked."""
        if self.entrances.is_agreed_around(node):
            return False
        if self.entrances.is_given(node):
            return True
        if not (self.taped.is_under_tape(node) or self.entrances.is_within_model(node)):
            return False
        made_of = [key for key, _ in self.locality.dependence.inputs(node) if reached.of(key)]
        return not all(isinstance(key, cst.CSTNode) for key in made_of)

    def _is_put_together(self, place: cst.BaseExpression, ends: list[cst.BaseExpression]) -> bool:
        """Whether all that it enters is put together for the losses anyway, and they would not be told that it is
        combined before, as they are of names."""
        operands = [operand.node for repair in self._repaired for operand in repair.operands]
        is_part = all(self.tree.is_in(end, operands) for end in ends)
        return is_part and not self.numbers.get_names(place)

    def _before_samples(self, end: cst.BaseExpression, reached: Spread, pure: set[Key]) -> Iterator[cst.BaseExpression]:
        """The last values on the ways there that are made of the numbers alone, and what else decides on them."""
        queue = Worklist[Key]([end])
        for key in queue:
            if key in pure and isinstance(key, cst.BaseExpression):
                yield key
            else:
                yield from self.locality.choosers(key)
                queue += [k for k, _ in self.locality.dependence.inputs(key) if reached.of(k)]
