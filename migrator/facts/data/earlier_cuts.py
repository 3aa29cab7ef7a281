"""Which values are a worker's rows already, since an earlier step of the same turn has cut what they are made of.

Two models that are trained one after the other often read one batch, or the second reads what the first has made of
it. The batch is cut once, where it still is whole: in front of the first step, for all that come behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

import libcst as cst

from migrator.facts.data.batch_cuts import CutNames
from migrator.facts.data.rows import RowFinder
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, Statement, Tree
from migrator.facts.training.sites import Update


class EarlierCuts:
    def __init__(self, tree: Tree, resolver: Resolver, rows: RowFinder) -> None:
        self.tree = tree
        self.resolver = resolver
        self.rows = rows
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

    # -- taking more batches in ------------------------------------------------------------------------------------

    def shared_by(
        self, update: Update, user: cst.CSTNode, cut_before: Mapping[cst.BaseExpression, CutNames]
    ) -> list[CutNames]:
        """The cuts behind which these are made, from now on for this update too."""
        for node, cut in cut_before.items():
            self.share(cut, user)
            cut.updates.append(update)
            for name in self.made_of(node, cut.before):
                if self.rows.of(name) is not None:
                    self._join(name, cut)
        return list(dict.fromkeys(cut_before.values()))

    def join_any(self, node: cst.BaseExpression, cuts: Iterable[CutNames]) -> bool:
        return isinstance(node, cst.Name) and any(self._join(node, cut) for cut in cuts)

    def _join(self, name: cst.Name, cut: CutNames) -> bool:
        """Whether the cut can take the batch in, which is whole where it stands; done, if so."""
        made = [self.tree.order[b.node] for b in self.resolver.reaching(name)]
        if not made or not self.is_bound_beside(name, cut.before) or max(made) > self.tree.order[cut.before]:
            return False
        if name.value not in {each.value for each in cut.names}:
            cut.names = sorted([*cut.names, name], key=self.bound_at)
        return True

    def bound_at(self, name: cst.Name) -> int:
        return min(
            (self.tree.order[b.target] for b in self.resolver.reaching(name) if b.target in self.tree.order), default=0
        )

    def turn_of(self, block: cst.CSTNode) -> cst.CSTNode | None:
        """The body of the loop that the block stands in, or the function."""
        around = list(self.tree.loops_around(block))
        return around[0].body if around else self.tree.function_of(block)

    def is_bound_beside(self, name: cst.Name, block: cst.CSTNode) -> bool:
        """Whether the name gets its value in the same turn of the loop that the tape stands in, or of the function."""
        around = list(self.tree.loops_around(block))
        turn = self.turn_of(block)
        return turn is not None and all(
            (b.kind in ("assign", "augmented") and self.tree.contains(turn, b.node))
            or (b.kind == "for" and bool(around) and b.node is around[0])
            for b in self.resolver.reaching(name)
        )
