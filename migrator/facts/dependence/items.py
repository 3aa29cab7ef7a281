"""Items of containers: what is assigned to them, deleted, and read of them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.dependence.containers import Containers
from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.item_paths import Path, constant_key, meeting, taken_out
from migrator.facts.dependence.namespaces import Namespaces
from migrator.facts.objects.indirect import Indirect
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal, Value, calls
from migrator.facts.program.tree import Tree


class Items:
    def __init__(
        self,
        graph: Graph,
        tree: Tree,
        resolver: Resolver,
        indirect: Indirect,
        namespaces: Namespaces,
        containers: Containers,
    ) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.indirect = indirect
        self.namespaces = namespaces
        self.containers = containers
        self._items_at: dict[cst.Subscript, list[tuple[object, ...]]] = {}

    def at(self, target: cst.Subscript) -> list[tuple[object, ...]]:
        """What an assignment to `target` changes: that item of a dictionary, or the container."""
        found = self._items_at.get(target)
        if found is None:
            key = constant_key(target)
            holders = self.containers.holders(target.value, (key,))
            found = [("stored", holder) if key is None else ("item", holder, path) for holder, path in holders]
            found = self._items_at[target] = list(dict.fromkeys(found))
        return found

    def deleted_from(self, target: cst.BaseExpression) -> Iterator[Key]:
        """What containers hold that `del` takes something out of."""
        if isinstance(target, cst.Subscript):
            yield from (("keys", holder) for holder, _ in self.containers.holders(target.value, (None,)))

    @cached_property
    def _items_of(self) -> dict[Key, list[Path]]:
        """By holder the places inside it to which the script assigns."""
        found: dict[Key, dict[Path, None]] = defaultdict(dict)
        for target, _ in self.tree.item_assignments:
            for item in self.at(target):
                if item[0] == "item":
                    found[cast(Key, item[1])][cast(Path, item[2])] = None
        return {holder: list(paths) for holder, paths in found.items()}

    def link_assigned(self, target: cst.Subscript, value: cst.BaseExpression) -> None:
        key = constant_key(target)
        values = self.resolver.values(target.value)
        is_dict = any(_is_dictionary(v) or self.indirect.operators.defaults.is_dictionary(v) for v in values)
        for item in self.at(target):
            self.graph.link(value, item, Way.WHOLE if key is not None else Way.INTO)
            for part in target.slice if key is None else ():
                self.graph.link(part, ("keys", item[1]) if is_dict else item, Way.USED)
        self.namespaces.link_item(target, key, value)
        for method, operands in self.indirect.operators.stores(target, value):
            for operand in operands:
                self.graph.link(operand, ("handed to", method))

    def link_missing(self, node: cst.BaseExpression) -> None:
        """`ids[name]` of a defaultdict puts the key in; a method that makes the entry changes its object."""
        if isinstance(node, cst.Subscript) and constant_key(node) is not None:
            return
        for table, keys in self.indirect.operators.lookups.at(node):
            made = self.indirect.operators.defaults.factories(self.resolver.values(table))
            held = [("keys", holder) for holder, _ in self.containers.holders(table, (None,))] if made else []
            changed = [key for f in made if isinstance(f, cst.Attribute) for key in self.containers.contents(f.value)]
            for part in keys:
                for key in (*held, *changed):
                    self.graph.link(part, key, Way.USED)

    def link_deleted(self, target: cst.BaseExpression) -> None:
        """`del losses[worst]`"""
        if isinstance(target, cst.Subscript):
            for method, operands in self.indirect.operators.deletes(target):
                for operand in operands:
                    self.graph.link(operand, ("handed to", method))
            for key in self.deleted_from(target):
                for part in target.slice:
                    self.graph.link(part, key, Way.CHOICE)

    def link_read(self, node: cst.BaseExpression, holders: Iterable[Key]) -> None:
        """`state["train"]["loss"]` gets what was put there, into `state["train"]` and into `state`; a dictionary as a
        whole what was put anywhere in it. What was put in elsewhere comes to all reads, also where what the name was
        given first is settled: averaged gradients."""
        taken = taken_out(node, self.tree)
        for holder in holders:
            for put_in in (("stored", holder), ("contents", holder)):
                self.graph.link(put_in, node, Way.INTO)
            self.graph.link(("keys", holder), node)
            for path in self._items_of.get(holder, ()):
                for part, way in meeting(path, node, taken):
                    self.graph.link(("item", holder, path), part, way)

    def link_changed_view(self, node: cst.AugAssign) -> None:
        """`view += loss` of a part or another view of an array changes that; of a number it makes another one."""
        for binding in self.containers.names.bindings_of(node.target) if isinstance(node.target, cst.Name) else ():
            if isinstance(binding.value, (cst.Call, cst.Subscript, cst.Attribute)) and binding.node is not node:
                for holder in self.containers.contents(binding.value):
                    self.graph.link(node.value, holder, Way.INTO)
                    for element in binding.value.slice if isinstance(binding.value, cst.Subscript) else ():
                        self.graph.link(element, holder, Way.CHOICE)

    def link_to_objects(self) -> None:
        """An object of the script's that is a container, or that a function remembers, holds what is put into it under
        any key."""
        for item in (item for items in self._items_at.values() for item in items):
            if item[0] == "stored" and isinstance(item[1], tuple) and item[1][0] == "changed":
                self.graph.link(item, item[1], Way.INTO)
        for holder, paths in self._items_of.items():
            if isinstance(holder, tuple) and holder[0] == "changed":
                for path in paths:
                    self.graph.link(("item", holder, path), holder, Way.INTO)


def _is_dictionary(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.node, (cst.Dict, cst.DictComp))
    return calls(value) == "builtins.dict" or calls(value).startswith("collections.")
