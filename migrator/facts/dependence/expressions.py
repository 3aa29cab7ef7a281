"""What each form of expression makes of its parts."""

from __future__ import annotations

import libcst as cst

from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.dependence.item_paths import COMPREHENSIONS
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.sizes import Sizes, is_size_of_another_axis
from migrator.facts.program.presence import asks_for_presence
from migrator.facts.program.syntax import is_slice, part_at
from migrator.facts.program.tree import Tree

# These have walks of their own.
_LINKED_APART = frozenset({cst.Call, cst.Attribute, cst.Name, cst.Lambda})
# What these make of each of their parts; others ask which part it is.
_WAYS_OF_PARTS = {
    **dict.fromkeys((cst.List, cst.Tuple, cst.Dict), Way.INTO),
    **dict.fromkeys((cst.Element, cst.StarredElement, cst.ComparisonTarget, cst.SubscriptElement), Way.WHOLE),
    **dict.fromkeys((cst.Index, cst.Slice, cst.Await), Way.WHOLE),
    **dict.fromkeys((cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation), Way.USED),
    **dict.fromkeys((cst.FormattedString, cst.FormattedStringExpression), Way.USED),
    cst.CompIf: Way.CHOICE,
}


class Expressions:
    def __init__(self, graph: Graph, tree: Tree, names: Names, sizes: Sizes) -> None:
        self.graph = graph
        self.tree = tree
        self.names = names
        self.sizes = sizes

    def link_part(self, node: cst.CSTNode, parent: cst.CSTNode) -> None:
        """What an expression makes of its parts."""
        if type(parent) in _LINKED_APART:
            return
        way: Way | None = _WAYS_OF_PARTS.get(type(parent))
        if way is not None:
            self.graph.link(node, parent, way)
            return
        way = Way.USED
        if isinstance(parent, cst.Arg):
            way = None if node is parent.keyword else Way.WHOLE
        elif isinstance(parent, cst.DictElement) and node is parent.key:
            self.graph.link(node, self.tree.parent[parent], Way.USED)
            way = None
        elif isinstance(parent, COMPREHENSIONS):
            way = Way.WHOLE if node is parent.for_in else Way.INTO
            if isinstance(parent, cst.SetComp) or (isinstance(parent, cst.DictComp) and node is parent.key):
                way = Way.USED  # how many there are is settled by what they are
        elif isinstance(parent, cst.CompFor):
            repeated = self.sizes.repeating(parent.iter) if node is parent.iter else Way.WHOLE
            way = None if node is parent.target else repeated
        elif isinstance(parent, cst.Comparison):
            way = Way.PRESENCE if asks_for_presence(self.tree, parent) else Way.USED
        elif isinstance(parent, cst.IfExp):
            way = Way.CHOICE if node is parent.test else Way.WHOLE
        elif isinstance(parent, cst.NamedExpr):
            way = Way.WHOLE if node is parent.value else None
        elif isinstance(parent, cst.Subscript) and node is parent.value:
            way = self._way_into_item(parent)
        if way is not None:
            self.graph.link(node, parent, way)

    def _way_into_item(self, node: cst.Subscript) -> Way | None:
        """How what is taken out depends on what it is taken out of; where it is an item of a tuple that is seen, it is
        linked to that."""
        if is_size_of_another_axis(node):
            return None
        items = self._items_of_tuples(node)
        if not items:
            return Way.WHOLE if is_slice(node) else Way.USED
        for item in items:
            self.graph.link(item, node, Way.WHOLE)
        # An item may be a list, or an array, that is filled in place.
        for binding in self.names.bindings_of(cst.ensure_type(node.value, cst.Name)):
            for put_in in ("stored", "contents", "items"):
                self.graph.link((put_in, binding), node, Way.INTO)
        return Way.PRESENCE  # which tuple it is

    def _items_of_tuples(self, node: cst.Subscript) -> list[cst.CSTNode]:
        """What `acc[1]` takes out of each of the tuples that the name is given; nothing where another value may be."""
        place = node.slice[0].slice if len(node.slice) == 1 else None
        index = place.value if isinstance(place, cst.Index) else None
        if not isinstance(node.value, cst.Name) or not isinstance(index, cst.Integer):
            return []
        found = []
        for binding in self.names.bindings_of(node.value):
            display = part_at(binding.value, binding.path) if binding.kind == "assign" and binding.value else None
            part = part_at(display, (int(index.value),)) if isinstance(display, cst.Tuple) else None
            if part is None:
                return []
            found.append(part)
        return found
