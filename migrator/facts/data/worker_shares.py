"""Which expressions are a worker's share of the data already, by the names that they are read by."""

from __future__ import annotations

import libcst as cst

from migrator.facts.data.earlier_cuts import EarlierCuts
from migrator.facts.names import vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.resolve import Resolver
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.tree import Binding, Tree


class WorkerShares:
    def __init__(self, tree: Tree, resolver: Resolver, ranks: Ranks, earlier: EarlierCuts) -> None:
        self.tree = tree
        self.resolver = resolver
        self._ranks = ranks
        self._earlier = earlier

    def is_share_at(self, node: cst.BaseExpression, user: cst.CSTNode) -> bool:
        """Whether the expression, or what it is made of in this turn of the loop, is a worker's share already."""
        turn = next(iter(self.tree.loops_around(user)), self.tree.function_of(user))
        made_of = [*self._earlier.names_behind(node, turn)] if turn is not None else []
        kept = [owner for name in made_of if isinstance(owner := self.tree.parent.get(name), cst.Attribute)]
        return any(map(self.is_share, (node, *made_of, *kept)))

    def is_share(self, node: cst.CSTNode, passed: frozenset[Binding] = frozenset()) -> bool:
        """Whether the expression is a worker's share already; `passed`: bindings that are on the way."""
        if isinstance(node, (cst.Name, cst.Attribute)):
            found = {*self.resolver.bound(node)} - passed
            return bool(found) and all(self._binds_share(b, passed | found) for b in found)
        return self._ranks.is_slice(node) or (
            isinstance(node, cst.Call)
            and any(vocabulary.has_role(name, Role.SHARD) for name in self.resolver.public(node.func))
        )

    def _binds_share(self, binding: Binding, passed: frozenset[Binding]) -> bool:
        given = self._ranks.origins.bound(binding)
        return bool(given) and all(self.is_share(each, passed) for each in given)
