"""What settles the order of objects: how their classes compare them, and what a key reads of them that is no function
of the script's."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.functions import Functions
from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.libraries import is_of_keras
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Member, Object, Result, Value, calls
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree

_ORDERING = frozenset({
    "builtins.min", "builtins.max", "builtins.sorted", "builtins.list.sort", "itertools.groupby", "numpy.sort",
    "numpy.argsort", "numpy.argmin", "numpy.argmax", "numpy.min", "numpy.max", "numpy.amin", "numpy.amax",
    "numpy.unique", "numpy.searchsorted",
})  # fmt: skip
_ORDERING_IN = ("heapq.", "bisect.", "statistics.", "queue.", "sortedcontainers.")
_FILLING = ("heapq.heap", "bisect.insort", "builtins.list.sort")  # in an order, their first argument
# Methods that compare what containers hold.
_COMPARING = frozenset({"sort", "index", "count", "remove"})
_OF_QUEUES = frozenset({"put", "put_nowait", "get", "get_nowait"})
_COMPARISONS = ("__lt__", "__gt__", "__le__", "__ge__", "__eq__")
_TOLD = ("__str__", "__repr__", "__len__", "__float__", "__int__", "__index__", "__hash__", "__bool__", "__abs__",
         "__neg__", "__getitem__", "__iter__", "__call__", "__format__")  # fmt: skip
_ATTRGETTER, _METHODCALLER = "operator.attrgetter", "operator.methodcaller"
_SEEN_KEYS = frozenset({_ATTRGETTER, _METHODCALLER, "functools.cmp_to_key"})
_KEY_PLACES = {"heapq.nlargest": 2, "heapq.nsmallest": 2, "itertools.groupby": 1}
_NONE = External("builtins.None")


class Ordering:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver, kinds: Kinds, functions: Functions) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.functions = functions

    def link(self, call: cst.Call, paths: Collection[str]) -> None:
        """`paths`: what the call calls."""
        self._link_getter(call, paths)
        if not self._orders(call, paths):
            return
        for method in self._compared:  # of whatever object: what containers hold is not seen
            for returned in self.functions.returned(method):
                self.graph.link(returned, call, Way.CHOICE)
            self.graph.link(("returns", method), call, Way.CHOICE)
        for key in _keys(call, paths):
            values = [v for v in self.resolver.values(key) if v != _NONE]
            if not values or not all(map(self._is_seen, values)):
                self._link_all(call)

    def filled_by(self, call: cst.Call, paths: Collection[str]) -> cst.BaseExpression | None:
        """What the call puts in an order."""
        if any(path.startswith(_FILLING) for path in paths):
            return call.args[0].value if call.args else None
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in ("sort", "put", "put_nowait"):
            return None
        is_own = bool(self._compared) or any(True for _ in _keys(call, paths))  # numbers order themselves
        return call.func.value if is_own and self._orders(call, paths) else None

    def _orders(self, call: cst.Call, paths: Collection[str]) -> bool:
        method = method_called(call)
        if method in _COMPARING and not paths:
            return True
        if method in _OF_QUEUES:
            owners = (v.owner for v in self.resolver.values(call.func) if isinstance(v, Member))
            return any(calls(owner).startswith("queue.") for owner in owners)
        return any(path in _ORDERING or path.startswith(_ORDERING_IN) for path in paths)

    def _link_getter(self, call: cst.Call, paths: Collection[str]) -> None:
        """`attrgetter("loss")`, `methodcaller("score")`: as a value, what it gives of any object."""
        if _ATTRGETTER in paths:
            for arg in call.args:
                names = _text(arg.value)
                if names is None:
                    self._link_all(call)
                for name in names.split(".") if names is not None else ():
                    for holder in (*self.tree.attributes.get(name, ()), ("attribute", name)):
                        self.graph.link(holder, call, Way.USED)
                    self._link_methods(name, call)
        elif _METHODCALLER in paths and call.args:
            method = _text(call.args[0].value)
            if method is None:
                self._link_all(call)
            else:
                self._link_methods(method, call)

    def _link_all(self, target: Key) -> None:
        """All that objects of the script's classes hold, and what they say of themselves."""
        for cls in self._classes:
            self.graph.link(("object", cls.node), target, Way.USED)
            self.graph.link(("changed", cls.node), target, Way.USED)
            for name in _TOLD:
                method = self.resolver.method(cls, name)
                if method is not None:
                    self.functions.link_returned(method, target)

    def _link_methods(self, name: str, target: Key) -> None:
        for method in self.tree.methods.get(name, ()):
            self.functions.link_returned(method, target)

    def _is_seen(self, key: Value) -> bool:
        """Whether it is followed where it runs, or where it is made."""
        if isinstance(key, Result) and calls(key) == "functools.partial" and key.call.args:
            return all(isinstance(v, (Function, Object)) for v in self.resolver.values(key.call.args[0].value))
        return isinstance(key, (Function, Object)) or calls(key) in _SEEN_KEYS

    @cached_property
    def _classes(self) -> list[Class]:
        """The script's classes, but for models and the like, which have walks of their own."""
        classes = [Class(node) for node in self.tree.classes]
        objects = [(cls, Object(cls)) for cls in classes]
        return [c for c, o in objects if not self.kinds.has_weights(o) and not is_of_keras(o, self.resolver)]

    @cached_property
    def _compared(self) -> list[cst.FunctionDef]:
        methods = (self.resolver.method(cls, name) for cls in self._classes for name in _COMPARISONS)
        return list(dict.fromkeys(method for method in methods if method is not None))


def _keys(call: cst.Call, paths: Collection[str]) -> Iterator[cst.BaseExpression]:
    """What may be the key by which the call orders."""
    place = next((place for path, place in _KEY_PLACES.items() if path in paths), None)
    for i, arg in enumerate(call.args):
        if arg.keyword.value == "key" if arg.keyword is not None else arg.star == "**" or i == place:
            yield arg.value


def _text(node: cst.BaseExpression) -> str | None:
    value = node.evaluated_value if isinstance(node, cst.SimpleString) else None
    return value if isinstance(value, str) else None
