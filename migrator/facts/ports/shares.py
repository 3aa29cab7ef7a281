"""Where a script takes one worker's share of the data, and what becomes of the share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.data.pipelines import Pipelines
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Library, Role
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.ports.ported import Ports
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument, dotted
from migrator.facts.program.tree import Binding, Tree
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class Share:
    """An expression that is one worker's share of `whole`; `size` is the global batch size that is cut with it."""

    node: cst.BaseExpression
    whole: cst.BaseExpression
    toolkit: Library | None = None
    size: cst.BaseExpression | None = None


class Shares:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        ports: Ports,
        ranks: Ranks,
        pipelines: Pipelines,
        origins: Origins,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.ports = ports
        self.ranks = ranks
        self.pipelines = pipelines
        self.origins = origins

    @cached_property
    def found(self) -> list[Share]:
        """Cuts by a library, `Dataset.shard` by the rank, and slices of arrays by the rank, in source order."""
        by_call = {site.call: site.toolkit for site in self.ports.of(Role.SHARD)}
        found = []
        for node in self.tree.all_of(cst.Call, cst.Subscript):
            if isinstance(node, cst.Call) and node in by_call and node.args:
                size = node.args[1].value if len(node.args) > 1 and "rebatch" in dotted(node.func) else None
                found.append(Share(node, node.args[0].value, by_call[node], size))
            elif isinstance(node, cst.Call) and self._is_shard(node):
                found.append(Share(node, cst.ensure_type(node.func, cst.Attribute).value, self.ports.toolkit))
            elif isinstance(node, cst.Subscript) and self._is_slice(node):
                found.append(Share(node, node.value, self.ports.toolkit))
        return found

    def _is_shard(self, call: cst.Call) -> bool:
        """`dataset.shard(size, rank)`"""
        is_named = isinstance(call.func, cst.Attribute) and call.func.attr.value == "shard"
        return is_named and self.pipelines.is_dataset(call) and any(map(self._by_rank, call.args))

    def _by_rank(self, node: cst.CSTNode) -> bool:
        return self.ranks.depends_on_rank(node)

    def _is_slice(self, node: cst.Subscript) -> bool:
        """`x[rank::size]`, `np.split(x, size)[rank]`"""
        values = self.resolver.values(node.value)
        return any(map(self.kinds.is_array, values)) and self.ranks.is_slice(node)

    # -- shares that nobody reads --------------------------------------------------------------------------------

    @cached_property
    def unread(self) -> list[Share]:
        """The shares that are thrown away, or whose names nothing reads."""
        return [share for share in self.found if self._is_unread(share)]

    def _is_unread(self, share: Share) -> bool:
        top = self._chained(share.node)
        parent = self.tree.parent[top]
        if isinstance(parent, cst.Expr):
            return True
        bindings = self._bindings(top) if isinstance(parent, (cst.Assign, cst.AnnAssign)) else []
        if share.size is not None:
            bindings = [b for b in bindings if b.path == (0,)]
        named = [b for b in bindings if not b.name.startswith("_")] or bindings
        return bool(named) and any(not self._is_read(b) for b in named)

    def _chained(self, node: cst.CSTNode) -> cst.CSTNode:
        """The whole of `share.shuffle(100).batch(8)`."""
        while True:
            attribute = self.tree.parent[node]
            call = self.tree.parent.get(attribute)
            if not (isinstance(attribute, cst.Attribute) and isinstance(call, cst.Call) and call.func is attribute):
                return node
            node = call

    def _bindings(self, value: cst.CSTNode) -> list[Binding]:
        scopes = [b for bs in self.tree.scope_of(value).bindings.values() for b in bs]
        attributes = [b for bs in self.tree.attributes.values() for b in bs]
        return [b for b in (*scopes, *attributes) if b.value is value]

    def _is_read(self, binding: Binding) -> bool:
        if any(True for _ in self.pipelines.loads.of(binding)):
            return True
        if isinstance(binding.target, cst.Attribute):
            return False
        scope = self.tree.scope_of(cast(cst.CSTNode, binding.value))
        at_module = scope.parent is None or binding.name in scope.globals
        return at_module and self._is_used_elsewhere(binding)

    def _is_used_elsewhere(self, binding: Binding) -> bool:
        """Whether a function or another file may read the module's name."""
        home = self.tree.module_of(binding.node)
        return any(
            self.tree.module_of(name) is not home or self.tree.function_of(name) is not None
            for name in self.tree.names[binding.name]
        )

    # -- shares that are batched as the whole --------------------------------------------------------------------

    @cached_property
    def global_batches(self) -> list[cst.BaseExpression]:
        """The batch sizes of data that were cut together with this very size, and are batched by it all the same."""
        return [
            size.value
            for call, dataset in self._batchings()
            if (size := argument(call, "batch_size", 0)) is not None
            for share in self.found
            if share.size is not None
            and self._is_same(size.value, share.size)
            and share.node in self.origins.behind(dataset, through_functions=False)
        ]

    def _batchings(self) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
        for call in self.tree.calls if any(s.size is not None for s in self.found) else ():
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in api.BATCHING:
                yield call, call.func.value

    def _is_same(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether both are one number: the same digits, or a name with the same value in both places."""
        if isinstance(one, cst.Integer):
            return isinstance(other, cst.Integer) and one.value == other.value
        if isinstance(one, cst.Name) and isinstance(other, cst.Name):
            return one.value == other.value and self.resolver.reaching(one) == self.resolver.reaching(other)
        return (
            isinstance(one, cst.Attribute) and one.deep_equals(other) and not self.tree.attributes.get(one.attr.value)
        )
