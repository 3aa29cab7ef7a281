"""Which values are a worker's rows already, since an earlier step of the same turn has cut what they are made of.

Two models that are trained one after the other often read one batch, or the second reads what the first has made of
it. The batch is cut once, where it still is whole: in front of the first step, for all that come behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from migrator.facts.data.batch_cuts import CutNames
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, Statement, Tree


class EarlierCuts:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self.found: list[CutNames] = []

    def behind(self, node: cst.BaseExpression, user: cst.CSTNode) -> CutNames | None:
        """The cut that the expression, read in `user`, is made behind, of a name that is cut there."""
        for cut in self.found:
            if self._place_before(cut, user) is not None and any(
                self._is_cut(name, cut) for name in self.made_of(node, cut.before)
            ):
                return cut
        return None

    def may_have_cut(self, name: cst.Name, user: cst.CSTNode) -> bool:
        """Whether a step before has cut what the name may still have there: where it is made anew on one way only."""
        bindings = set(self.resolver.reaching(name))
        return any(
            name.value == each.value and not bindings.isdisjoint(self.resolver.reaching(each))
            for cut in self.found
            if self._may_precede(cut.before, user)
            for each in cut.names
        )

    def _may_precede(self, place: Statement, user: cst.CSTNode) -> bool:
        """Whether the place may have come before in a turn: it stands above, and not in another branch."""
        return (
            self.tree.order[place] < self.tree.order[user]
            and self.tree.function_of(place) is self.tree.function_of(user)
            and not self.tree.are_exclusive(place, user)
        )

    def share(self, cut: CutNames, user: cst.CSTNode) -> None:
        """Puts the cut where it also serves the user: in front of the branch that the first step stands in."""
        cut.before = self._place_before(cut, user) or cut.before

    def made_of(self, node: cst.BaseExpression, start: cst.CSTNode) -> Iterator[cst.Name]:
        """The names that the expression is made of, as they stand at the statement `start`."""
        return (name for name in self.names_behind(node, start) if not self._made_behind(name, start))

    def names_behind(self, node: cst.BaseExpression, start: cst.CSTNode) -> Iterator[cst.Name]:
        """The names that are read for the expression from the statement `start` on."""
        queue = [*self.tree.names_in(node)]
        seen: set[Binding] = set()
        for name in queue:
            if self.tree.is_read(name):
                yield name
                for binding in self._made_behind(name, start):
                    if binding not in seen and binding.value is not None:
                        seen.add(binding)
                        queue.extend(self.tree.names_in(binding.value))

    def _made_behind(self, name: cst.Name, start: cst.CSTNode) -> list[Binding]:
        return [b for b in self.resolver.reaching(name) if self._is_made_behind(b, start)]

    def _is_made_behind(self, binding: Binding, start: cst.CSTNode) -> bool:
        node = binding.node
        return (
            node in self.tree.order
            and self.tree.order[node] >= self.tree.order[start]
            and self.tree.function_of(node) is self.tree.function_of(start)
        )

    def _is_cut(self, name: cst.Name, cut: CutNames) -> bool:
        bindings = set(self.resolver.reaching(name))
        return bool(bindings) and any(
            name.value == each.value and bindings <= set(self.resolver.reaching(each)) for each in cut.names
        )

    def _place_before(self, cut: CutNames, user: cst.CSTNode) -> Statement | None:
        """The statement in front of which the cut comes before the user on every way; None where there is none."""
        if self.tree.contains(cut.before, user):
            return cut.before
        for block in self.tree.ancestors(user):
            if isinstance(block, (cst.FunctionDef, cst.Lambda)):
                return None
            place = self.tree.lift(cut.before, block) if isinstance(block, (cst.IndentedBlock, cst.Module)) else None
            if place is not None:
                is_first = self.tree.order[place] < self.tree.order[cast(cst.CSTNode, self.tree.lift(user, block))]
                return place if is_first and self._are_made_before(cut, place) else None
        return None

    def _are_made_before(self, cut: CutNames, place: Statement) -> bool:
        made = [b.node for name in cut.names for b in self.resolver.reaching(name)]
        return place is cut.before or not any(self.tree.contains(place, node) for node in made)
