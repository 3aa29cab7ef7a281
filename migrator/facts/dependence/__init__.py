"""What each value of a program may depend on: one graph from everything that gives a value to everything that uses it.

Its default is pessimistic: an expression depends on all of its parts, what is called on all of its arguments, and a
call that nobody knows may put its arguments into whatever else it is given. The forms that are named in the modules of
this package make the graph finer, never smaller by leaving something out.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import libcst as cst

from migrator.facts.dependence.bindings import Bindings
from migrator.facts.dependence.calls import Calls
from migrator.facts.dependence.changes import Changes
from migrator.facts.dependence.containers import COLLECTING, Containers
from migrator.facts.dependence.expressions import Expressions
from migrator.facts.dependence.functions import Functions, MetAt
from migrator.facts.dependence.graph import DECIDING, Graph, Key, Way
from migrator.facts.dependence.handed_back import HandedBack
from migrator.facts.dependence.internals import Internals
from migrator.facts.dependence.items import Items
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.namespaces import Namespaces
from migrator.facts.dependence.ordering import Ordering
from migrator.facts.dependence.out_of_sight import OutOfSight
from migrator.facts.dependence.reads import Reads
from migrator.facts.dependence.sizes import Sizes
from migrator.facts.objects.indirect import Indirect, RunAt
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import parts_of_target
from migrator.facts.program.tree import Binding, Tree

__all__ = ["COLLECTING", "DECIDING", "Dependence", "Key", "Way"]

_PARTS: tuple[type, ...] = (
    cst.BaseExpression, cst.Arg, cst.BaseElement, cst.BaseDictElement, cst.SubscriptElement, cst.BaseSlice,
    cst.ComparisonTarget, cst.CompFor, cst.CompIf, cst.BaseFormattedStringContent, cst.From,
)  # fmt: skip
_OPERATIONS = frozenset({cst.BinaryOperation, cst.Comparison, cst.Subscript, cst.AugAssign, cst.Call})


class Dependence(Graph):
    """The graph of a whole program; who reads it may link more."""

    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        computing: Collection[cst.CSTNode] = (),
        unrun: Sequence[cst.CSTNode] = (),
        run_at: RunAt = lambda call: None,
        met_at: MetAt = lambda call: (),
    ) -> None:
        """`computing`: calls that put nothing into what they are given, by the user's word. `unrun`: functions that
        nothing runs, in source order, of which nothing depends on anything. `run_at`: see Indirect; `met_at`: see
        Functions."""
        super().__init__()
        self.tree = tree
        self._unrun = unrun
        self._unrun_orders = [tree.order[function] for function in unrun]
        indirect = Indirect(tree, resolver, kinds, run_at)
        self._names = names = Names(tree, resolver)
        sizes = Sizes(tree, resolver, kinds, names)
        self._functions = functions = Functions(self, tree, resolver, indirect, met_at)
        namespaces = Namespaces(self, tree, resolver, kinds, names)
        handed_back = HandedBack(tree, resolver, functions)
        containers = Containers(self, tree, resolver, kinds, indirect, names, namespaces, handed_back)
        self._containers = containers
        self._items = items = Items(self, tree, resolver, indirect, namespaces, containers)
        self._reads = reads = Reads(self, tree, resolver, kinds, names, sizes, functions, items, namespaces)
        order = Ordering(self, tree, resolver, kinds, functions)
        self._changes = changes = Changes(self, resolver, kinds, indirect, names, sizes, containers, order, computing)
        self._calls = Calls(self, resolver, kinds, sizes, functions, namespaces, reads, order, changes)
        self._expressions = Expressions(self, tree, names, sizes)
        self._bindings = Bindings(self, tree, resolver, kinds, indirect, names, functions, self.is_run)
        self._internals = Internals(self, tree, resolver)
        self._out_of_sight = OutOfSight(self, tree, resolver, kinds, containers)
        self._link_all()
        self._out_of_sight.link()

    def bindings_of(self, name: cst.Name) -> list[Binding]:
        """All bindings that the name may have its value from, those of other functions (`global`) among them."""
        return self._names.bindings_of(name)

    def items(self, target: cst.Subscript) -> list[tuple[object, ...]]:
        """What an assignment to `target` changes: that item of a dictionary, or the container."""
        return self._items.at(target)

    def deleted_from(self, target: cst.BaseExpression) -> Iterator[Key]:
        """What containers hold that `del` takes something out of."""
        return self._items.deleted_from(target)

    def changed_by(self, call: cst.Call) -> list[Key]:
        """What a method of an object that the script does not define may change, or a function of a library; and what
        a library is told."""
        changed = (*self._changes.changed_by(call), *self._changes.filled_by(call))
        return [*changed, *self._out_of_sight.told_by(call)]

    def gone_through(self, body: cst.CSTNode) -> Iterator[Key]:
        """The iterators that loops, and questions whether something is in them, leave other than they were."""
        for iterator in self._changes.advancing.gone_through(body):
            yield from self._containers.contents(iterator)

    def contents(self, node: cst.CSTNode) -> list[Key]:
        """Where what is put into the value goes, from which it comes to all that hold it."""
        return self._containers.contents(node)

    def feed_back(self) -> None:
        """Links what functions give that are handed on to what they are given: what folds, or scans, hands the one to
        the other."""
        self._functions.feed_back(self.tree.calls)

    def is_run(self, node: cst.CSTNode) -> bool:
        """Whether the node may run, which in no function is that nothing runs."""
        if not self._unrun:
            return True
        order = self.tree.order[node]
        place = bisect_right(self._unrun_orders, order) - 1
        return place < 0 or self.tree.last_order_in(self._unrun[place]) < order

    def _is_bound(self, binding: Binding) -> bool:
        return binding.node not in self.tree.order or self.is_run(binding.node)

    def _link_all(self) -> None:
        is_part: dict[type, bool] = {}
        node: Any  # of the type that is asked for; a call of `cast` for each would be a call too many
        for node, parent in self.tree.parent.items():
            if self._unrun and not self.is_run(node):
                continue
            kind, outer = type(node), type(parent)
            for each in (kind, outer):
                if each not in is_part:
                    is_part[each] = issubclass(each, _PARTS)
            if is_part[kind] and is_part[outer]:
                self._expressions.link_part(node, parent)
            if kind is cst.Name:
                self._reads.link_name(node)
            elif kind is cst.Attribute:
                self._reads.link_attribute(node)
                self._internals.link_read(node)
            elif kind is cst.Call:
                self._calls.link(node)
                self._items.link_missing(node)
            elif kind is cst.Lambda:
                self._functions.link_lambda(node)
            elif kind is cst.Del:
                for target in parts_of_target(node.target):
                    self._items.link_deleted(target)
            elif kind is cst.Subscript or kind is cst.BinaryOperation:
                self._items.link_missing(node)
            elif kind is cst.Yield:
                self.link(("sent",), node, Way.USED)
            elif kind is cst.Raise and node.exc is not None:
                self.link(node.exc, ("raised",))
            elif kind is cst.Assert and node.msg is not None:
                self.link(node.msg, ("raised",))
            if kind in _OPERATIONS:
                self._functions.link_operators(node)
        for binding in filter(self._is_bound, self.tree.bindings):
            self._bindings.link(binding)
        for several in self.tree.attributes.values():
            for binding in filter(self._is_bound, several):
                self._bindings.link(binding)
                self._internals.link_set(binding)
        for target, value in self.tree.item_assignments:
            if self.is_run(target):
                self._items.link_assigned(target, value)
                self._internals.link_item(target, value)
        for change in filter(self.is_run, self.tree.augmented):
            self._items.link_changed_view(change)
        self._items.link_to_objects()
