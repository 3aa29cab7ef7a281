"""What functions of the script give to where they run: called, handed on, in a decorator's place, as operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Callable

import libcst as cst

from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.libraries import makes_new
from migrator.facts.dependence.loops import Loops
from migrator.facts.names.api import RUNTIME
from migrator.facts.objects.indirect import Indirect
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Element,
    External,
    Function,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
    calls,
)
from migrator.facts.program.tree import FunctionLike, Tree, semantic_children
from migrator.worklist import Worklist

# What makes of its parts nothing but what these are.
_PLAIN = (
    cst.Element, cst.List, cst.Tuple, cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation,
    cst.Comparison, cst.ComparisonTarget, cst.IfExp,
)  # fmt: skip
_ON_WHOLE_DATA = f"{RUNTIME}.on_whole_data"
_DESCRIBING = frozenset({"compute_output_shape", "get_config", "count_params"})


MetAt = Callable[[cst.Call], Collection[FunctionLike]]


class Functions:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver, indirect: Indirect, met_at: MetAt) -> None:
        """`met_at`: the functions that the abstract run has seen a call run, be they all or not: what names do not
        tell, such as the methods of what `__getattr__` asks."""
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.indirect = indirect
        self.loops = Loops(graph, tree, resolver)
        self._met_at = met_at

    def may_run(self, call: cst.Call, function: cst.CSTNode) -> bool:
        """Whether the call may run the function, one of those that the names say."""
        seen = self.indirect.run_at(call)  # it tells tables of functions apart that one function fills
        return seen is None or function in seen

    def run_by(self, call: cst.Call) -> list[cst.CSTNode]:
        """The functions of the script that the call runs for what they return."""
        found: dict[cst.CSTNode, None] = {}
        for value in self.resolver.values(call.func):
            if isinstance(value, Function):
                found[value.node] = None
            elif isinstance(value, Object):
                method = self._method_called(value)
                if method is not None:
                    found[method] = None
            elif isinstance(value, (Parameter, Unknown, Element)) or is_member_of_unknown(value):
                found.update(dict.fromkeys(self._methods_named(call)))
        for function in self.resolver.run_by.get(call, ()):
            if function.name.value != "__init__":
                found.setdefault(function)
        return [function for function in found if self.may_run(call, function)]

    def picks(self, function: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What decides which function it is: `name` of `TABLE[name]`, and of `f` after `f = TABLE.get(name)`."""
        queue = Worklist([function])
        for node in queue:
            if isinstance(node, cst.Subscript):
                yield from (e.slice.value for e in node.slice if isinstance(e.slice, cst.Index))
                queue.append(node.value)
            elif isinstance(node, cst.Call):
                given = self.resolver.values(node)
                if any(map(_is_partial, given)):
                    queue += [arg.value for arg in node.args[:1]]
                elif len(given) != 1 or not isinstance(given[0], (Function, Object)):  # one is no choice
                    yield from (arg.value for arg in node.args)
            elif isinstance(node, cst.IfExp):
                queue += [node.body, node.orelse]
            elif isinstance(node, cst.Name):
                queue += [b.value for b in self.resolver.reaching(node) if isinstance(b.value, cst.BaseExpression)]
            elif isinstance(node, cst.Attribute):
                bindings = self.tree.attributes.get(node.attr.value, ())
                queue += [b.value for b in bindings if isinstance(b.value, cst.BaseExpression)]

    def is_picked(self, value: Value) -> bool:
        """Whether it is a function of the script's, some arguments of which may be given already."""
        return self.is_own(value) or _is_partial(value)

    def is_own(self, value: Value) -> bool:
        """Whether a call of the value runs code of the script; where the object's class does not say what that is, a
        library's method runs, as that of a metric."""
        return isinstance(value, Function) or (isinstance(value, Object) and self._method_called(value) is not None)

    def _method_called(self, value: Object) -> cst.FunctionDef | None:
        methods = (self.resolver.method(value.of, name) for name in ("__call__", "call"))
        return next((method for method in methods if method is not None), None)

    def _methods_named(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The methods of the script that a call on an object that is not seen may run."""
        if not isinstance(call.func, cst.Attribute):
            return []
        return list(self.tree.methods.get(call.func.attr.value, ()))

    def returned(self, function: cst.CSTNode) -> list[cst.BaseExpression]:
        return self.resolver.returned_by_itself(function) if isinstance(function, cst.FunctionDef) else []

    def link_returned(self, function: cst.CSTNode, target: Key) -> None:
        if isinstance(function, cst.Lambda):
            self.graph.link(function.body, target)
        elif isinstance(function, cst.FunctionDef):
            for returned in self.returned(function):
                self.graph.link(returned, target)
            if function.decorators:
                self.graph.link(("changed", function), target)
            for given in self.tree.yields.get(function, ()):
                self.graph.link(given.value, target, Way.INTO)
        self.graph.link(("returns", function), target, Way.CHOICE)

    def link_handed(self, call: cst.Call) -> None:
        """Functions that are handed to a call run with what else it is given; so does any that the script has stored or
        handed on where it is not seen what is called."""
        if _ON_WHOLE_DATA in self.resolver.public(call.func):
            return  # which gives the function back, and runs nothing
        functions, given = self.indirect.handed(call)
        is_loop = self.loops.link(call)
        is_described = self._is_described(call)
        for function in functions:
            if is_described and isinstance(function, cst.Lambda):
                for name in self._closed_over(function):
                    self.graph.link(name, call, Way.USED)
                continue
            self.link_returned(function, call)
            for node in () if is_loop else given:
                self.graph.link(node, ("handed to", function), Way.USED)

    def link_met(self, call: cst.Call) -> None:
        """The functions that no name shows to run there get what the call gives."""
        for function in self._met_at(call):
            if call not in self.resolver.callers(function):
                self.link_returned(function, call)
                for arg in call.args:
                    self.graph.link(arg, ("handed to", function), Way.USED)

    def feed_back(self, calls: Iterable[cst.Call]) -> None:
        """Links what functions give that are handed to these calls to what they get there."""
        for call in calls:
            for function in self.indirect.handed(call)[0]:
                self.link_returned(function, ("handed to", function))

    def _is_described(self, call: cst.Call) -> bool:
        """Whether a layer of Keras's tells what it will give, and runs on no samples for that."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _DESCRIBING:
            return False
        owners = [v for v in self.resolver.values(call.func.value) if v != External("builtins.None")]
        return bool(owners) and all(calls(owner).startswith("keras.layers.") for owner in owners)

    def _closed_over(self, function: cst.Lambda) -> Iterator[cst.Name]:
        """What the function reads besides what it is called with."""
        for name in self.tree.names_in(function.body):
            reaching = self.resolver.reaching(name)
            if not any(b.kind == "param" and self.tree.contains(function, b.node) for b in reaching):
                yield name

    def link_lambda(self, function: cst.Lambda) -> None:
        """The function as a value: what it gives besides what it makes of its arguments, which come to those who call
        it."""
        own = {name.value for name in self.tree.names_in(function.params)}
        queue: list[cst.CSTNode] = [function.body]
        while queue:
            node = queue.pop()
            if isinstance(node, cst.Arg):
                queue.append(node.value)
            elif not any(name.value in own for name in self.tree.names_in(node)):
                self.graph.link(node, function)
            elif isinstance(node, _PLAIN) or self._makes_new(node):
                queue += semantic_children(node)
            elif not isinstance(node, cst.Name):
                self.graph.link(node, function)

    def _makes_new(self, node: cst.CSTNode) -> bool:
        """Whether a library's function makes something of its arguments alone."""
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return bool(values) and all(isinstance(v, External) and makes_new(v.path) for v in values)

    def link_wrappers(self, call: cst.Call) -> None:
        """The functions that decorators have put in the place of the one that is called get what it is given."""
        for function in self.indirect.wrappers_run_by(call):
            self.link_returned(function, call)
            for arg in call.args if call not in self.resolver.callers(function) else ():
                self.graph.link(arg, ("handed to", function), Way.USED)

    def link_cache(self, call: cst.Call) -> None:
        """`level.cache_info()` tells what the function was called with."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "cache_info":
            for value in self.resolver.values(call.func.value):
                callers = self.resolver.callers(value.node) if isinstance(value, Function) else ()
                for arg in (arg for caller in callers for arg in caller.args):
                    self.graph.link(arg, call, Way.USED)

    def link_operators(self, node: cst.CSTNode) -> None:
        for method, operands in self.indirect.operators.run(node):
            for operand in operands:
                self.graph.link(operand, ("handed to", method))
            if not isinstance(node, cst.AugAssign):
                self.link_returned(method, node)


def _is_partial(value: Value) -> bool:
    return isinstance(value, Result) and calls(value) == "functools.partial"


def is_member_of_unknown(value: Value) -> bool:
    while isinstance(value, Member):
        value = value.owner
    if isinstance(value, Element) and calls(value.of).startswith("matplotlib."):
        return False  # `figure, axes = plt.subplots()`
    return isinstance(value, (Parameter, Unknown, Element))
