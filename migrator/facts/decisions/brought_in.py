"""What numbers of the steps bring into the training in any other way than by a decision: kept in a list, an attribute
or a closure, and read in a loss, a layer, what rows are made by, or what a model is made of.

A number that is each worker's own is harmless only where all its ways end in being told. So each of them is followed
to where it comes in, and is combined before the samples of the workers are added to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import cast

import libcst as cst

from migrator.facts.decisions.entrances import Entrances
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.numbers_behind import NumbersBehind, order_of
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.dependence import Key
from migrator.facts.dependence.spreading import Spread
from migrator.facts.program.tree import Binding, Tree


class BroughtIn:
    def __init__(
        self, tree: Tree, locality: Locality, taped: TapedLosses, numbers: NumbersBehind, entrances: Entrances
    ) -> None:
        self.tree = tree
        self.locality = locality
        self.taped = taped
        self.numbers = numbers
        self.entrances = entrances

    def places(self) -> Iterator[cst.BaseExpression]:
        """Where such numbers come in, as long as nothing makes the workers agree on them before."""
        atoms = self._numbers_of_steps()
        if not atoms:
            return
        reached = self.locality.spread_from(atoms)
        pure = self._made_of_numbers(atoms)
        ends = [key for key in map(self.locality.dependence.keys.__getitem__, reached.marks) if self._comes_in(key)]
        found: dict[cst.BaseExpression, None] = {}
        seen: set[Key] = set()
        for key in sorted(ends, key=partial(order_of, self.tree)):
            found.update(dict.fromkeys(self._before_samples(key, reached, pure, seen)))
        yield from sorted(found, key=self.tree.order.__getitem__)

    def _numbers_of_steps(self) -> list[cst.BaseExpression]:
        """The means and sums over batches that code outside of the tapes reads."""
        return [
            node
            for node in self._read_outside
            if self.locality.of(node) & (Mark.VALUE | Mark.INSIDE) and self.numbers.can_be_combined(node)
        ]

    @cached_property
    def _read_outside(self) -> list[cst.BaseExpression]:
        kinds = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)
        nodes = [cast(cst.BaseExpression, node) for kind in kinds for node in self.tree.all_of(kind)]
        return [n for n in nodes if not (self._may_be_taped(n) or self.entrances.is_within_model(n))]

    def _may_be_taped(self, node: cst.CSTNode) -> bool:
        """Whether it runs under a tape; of a lambda that is not always seen."""
        return self.taped.is_under_tape(node) or any(isinstance(o, cst.Lambda) for o in self.tree.ancestors(node))

    def _made_of_numbers(self, atoms: list[cst.BaseExpression]) -> set[Key]:
        """All that is each worker's own only by these numbers."""
        reached = self.locality.spread_from(atoms).marks
        keys = [self.locality.dependence.keys[number] for number in reached]
        with self.locality.trying():
            self.locality.settle(*atoms)
            return {*atoms, *(key for key in keys if not self.locality.of(key))}

    def _comes_in(self, key: Key) -> bool:
        if not isinstance(key, cst.BaseExpression):
            return False
        return self.taped.is_under_tape(key) or self.entrances.is_entrance(key)

    def _before_samples(self, end: Key, reached: Spread, pure: set[Key], seen: set[Key]) -> Iterator[cst.BaseExpression]:
        """The last values on the ways there that are made of the numbers alone."""
        queue = [end]
        while queue:
            key = queue.pop()
            if key in seen:
                continue
            seen.add(key)
            if key in pure and isinstance(key, cst.BaseExpression):
                yield key
            else:
                queue += [k for k, _ in self.locality.dependence.inputs(key) if reached.of(k)]
