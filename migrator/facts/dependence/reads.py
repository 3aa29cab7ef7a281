"""What names, attributes and objects are where they are read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.functions import Functions
from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.items import Items
from migrator.facts.dependence.libraries import is_of_keras
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.namespaces import Namespaces, asked_of, start_of_text
from migrator.facts.dependence.sizes import RANKS, SIZES, Sizes, is_shape
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, File, Literal, Object, Value
from migrator.facts.program.tree import Tree

_AGREED_ATTRIBUTES = frozenset({"trainable_variables", "trainable_weights", "dtype", "ndim", "name", "__name__"})
# As many of them on all workers.
_WEIGHT_LISTS = frozenset({"variables", "weights", "non_trainable_variables", "non_trainable_weights"})
_DATA = (
    cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp, cst.SetComp, cst.DictComp, cst.BaseNumber, cst.BaseString,
)  # fmt: skip
_ASKED_FOR_ANY = ("__getattr__", "__getattribute__")  # methods that give attributes by their names
_SPECIAL = (
    "__bool__", "__len__", "__float__", "__int__", "__index__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
    "__ne__", "__contains__", "__getitem__", "__iter__", "__next__", "__enter__", "__str__", "__format__",
    "__getattr__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
)  # fmt: skip


class Reads:
    def __init__(
        self,
        graph: Graph,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        names: Names,
        sizes: Sizes,
        functions: Functions,
        items: Items,
        namespaces: Namespaces,
    ) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.names = names
        self.sizes = sizes
        self.functions = functions
        self.items = items
        self.namespaces = namespaces

    def link_name(self, node: cst.Name) -> None:
        if not self.tree.is_read(node) or isinstance(self.tree.parent.get(node), (cst.Global, cst.Nonlocal)):
            return
        bindings = self.names.bindings_of(node)
        for binding in bindings:
            self.graph.link(binding, node)
        if not bindings:  # `globals()["best"] = loss`
            for name in (node.value, None):
                self.graph.link(("global", name), node)
        parent = self.tree.parent.get(node)
        if not (isinstance(parent, cst.For) and node is parent.iter):  # what a bar is told, it does not go through
            for binding in self.names.shown_by(node):
                self.graph.link(("shown", binding), node, Way.INTO)
        self.items.link_read(node, bindings)
        self.link_object(node)

    def link_attribute(self, node: cst.Attribute) -> None:
        name = node.attr.value
        if name in _AGREED_ATTRIBUTES or isinstance(self.tree.parent.get(node), cst.AssignTarget):
            return
        if name in RANKS and is_shape(node.value):
            return
        owners = self.resolver.values(node.value)
        bindings = self.names.bindings_of_attribute(node)
        is_list = name in _WEIGHT_LISTS and not bindings and bool(owners) and all(map(self._is_of_keras, owners))
        is_own = bool(owners) and all(isinstance(v, (Object, File)) for v in owners)
        if not (is_own and self.are_seen(owners)):
            is_size = name in SIZES or self.sizes.tells_number(node)
            self.graph.link(node.value, node, self.sizes.by_size(node.value) if is_size else Way.USED)
        parent = self.tree.parent.get(node)
        is_called = isinstance(parent, cst.Call) and parent.func is node
        sources: list[Key] = [*bindings, ("attribute", name)]
        if is_called and self._holds_data(name):  # it is a method of something else, or what is put there by name
            bindings, sources = [], [("put by name", name)]
        for binding in bindings:
            if binding.kind == "field":  # of a record, by what it is called with
                self.graph.link(binding.value, binding)
        for key in sources:
            self.graph.link(key, node, Way.INTO if is_list and isinstance(key, tuple) else Way.WHOLE)
        for owner in owners:
            if isinstance(owner, Object):
                self.graph.link(("changed", owner.of.node), node, Way.INTO if is_list else Way.USED)
                for asked in _ASKED_FOR_ANY:
                    method = self.resolver.method(owner.of, asked)
                    if method is not None:
                        self.functions.link_returned(method, node)
        self.items.link_read(node, sources)
        if name == "__dict__":
            self._link_attributes_of(owners, node)
            self._link_by_name(owners, node, asked_of(node, self.tree), "")
        if not is_called:
            for owner in owners:
                method = self.resolver.method(owner.of, name) if isinstance(owner, Object) else None
                if method is not None and not self._is_plain_method(method):  # a property, in one way or another
                    self.functions.link_returned(method, node)
            if any(isinstance(owner, Class) for owner in owners):
                for made in self.resolver.properties(node):
                    self.functions.link_returned(made, node)
            is_told = bool(owners) and all(map(_is_told, owners))
            for module_getter in self._asked_of_files:
                if any(isinstance(owner, File) for owner in owners) or not is_told:
                    self.functions.link_returned(module_getter, node)
            if self._asks_for_modules and not is_told:
                self.graph.link(("global", name), node)
                for module in self.tree.modules:
                    for binding in self.tree.scopes[module].bindings.get(name, ()):
                        self.graph.link(binding, node)
            for held in (value for binding in bindings for value in self.resolver.binding_values(binding)):
                getter = self.resolver.method(held.of, "__get__") if isinstance(held, Object) else None
                if getter is not None:
                    self.functions.link_returned(getter, node)
            self.link_object(node)

    @cached_property
    def _asked_of_files(self) -> list[cst.FunctionDef]:
        """The functions by which modules of the program give what has no name there."""
        functions = (f for f in self.tree.functions if f.name.value in _ASKED_FOR_ANY)
        return [f for f in functions if self.tree.class_of(f) is None and self.tree.function_of(f) is None]

    @cached_property
    def _asks_for_modules(self) -> bool:
        """Whether modules are asked for by name, `sys.modules["__main__"]`: their names are attributes then."""
        return "__main__" in self.tree.names or any(a.attr.value == "modules" for a in self.tree.all_of(cst.Attribute))

    def _is_plain_method(self, method: cst.FunctionDef) -> bool:
        """Whether the name gives the method itself, which is followed where it is called."""
        given = [self.resolver.values(decorator.decorator) for decorator in method.decorators]
        return all(External("tensorflow.function") in values for values in given)

    def link_object(self, node: cst.Name | cst.Attribute | cst.Call) -> None:
        """An object that is used as a whole is all that its attributes and special methods give."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            return
        for value in self.resolver.values(node):
            if isinstance(value, Object) and not self._is_no_whole(value):
                self.graph.link(("object", value.of.node), node, Way.INTO)
                self.graph.link(("changed", value.of.node), node, Way.INTO)
                for name in _SPECIAL:
                    method = self.resolver.method(value.of, name)
                    if method is not None:
                        self.functions.link_returned(method, node)

    def _holds_data(self, name: str) -> bool:
        """Whether all that the script assigns to attributes of that name are lists, tables, numbers and texts that are
        written out: none of them can be called."""
        bindings = self.tree.attributes.get(name, ())
        return bool(bindings) and all(
            b.kind == "assign" and not b.path and isinstance(b.value, _DATA) for b in bindings
        )

    def _link_attributes_of(self, owners: Iterable[Value], node: cst.Attribute) -> None:
        """`state.__dict__` holds what the attributes of the object are; of a model what is asked for by name."""
        for owner in owners:
            if isinstance(owner, Object) and not self.kinds.has_weights(owner):
                self.graph.link(("object", owner.of.node), node, Way.INTO)

    def link_reflection(self, call: cst.Call) -> None:
        """`vars(model)["losses"]`, `getattr(model, name)`: models and the like are not the whole of their attributes
        anywhere else."""
        for owner, names in self.namespaces.reflected(call):
            asked = asked_of(call, self.tree) if names is None else None
            self._link_by_name(self.resolver.values(owner), call, asked, start_of_text(names))

    def _link_by_name(self, owners: Iterable[Value], node: cst.BaseExpression, name: str | None, start: str) -> None:
        """The attribute that is asked for by its name, or, where that is not seen, all whose names start like this."""
        if name is None and not any(isinstance(v, Object) and self._is_no_whole(v) for v in owners):
            return
        for each in [name] if name is not None else [n for n in self.tree.attributes if n.startswith(start)]:
            holders = [*self.tree.attributes.get(each, ()), ("attribute", each)]
            for holder in holders:
                self.graph.link(holder, node, Way.INTO)
            self.items.link_read(node, holders)

    def _is_no_whole(self, value: Object) -> bool:
        return self.kinds.has_weights(value) or is_of_keras(value, self.resolver)

    def _is_of_keras(self, value: Value) -> bool:
        return isinstance(value, Object) and is_of_keras(value, self.resolver)

    def are_seen(self, owners: Iterable[Value]) -> bool:
        """Whether the attributes of these objects come from assignments alone: no dataclass, no named tuple."""
        return all(not isinstance(v, Object) or self.resolver.method(v.of, "__init__") is not None for v in owners)


def _is_told(owner: Value | None) -> bool:
    """Whether it is surely no module of the program, as `sys.modules[name]` may be one."""
    if isinstance(owner, External):
        return not owner.path.startswith(("__main__", "sys.modules"))
    return isinstance(owner, (Class, Literal, Object))
