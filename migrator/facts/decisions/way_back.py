"""The way back from a value to what it is made of, through functions that several calls run.

A model that the training calls and an evaluation, too, gives each call what it makes of that call's arguments. So the
way leaves a function through the arguments of the calls by whose results it has come in. It leaves through those of all
calls where it has come in otherwise, for that may be any run of the function: by an attribute, a container, a closure,
a name of the whole program, or by a library that calls it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

import libcst as cst

from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Object
from migrator.facts.program.tree import Binding, FunctionLike, Tree


class WayBack:
    """One walk from `nodes` against the edges of the graph, without those of the ways `leaving`."""

    def __init__(self, tree: Tree, resolver: Resolver, dependence: Dependence, leaving: Collection[Way]) -> None:
        self.tree = tree
        self.resolver = resolver
        self.dependence = dependence
        self.leaving = leaving
        self._queue: list[Key] = []
        self._entered: dict[FunctionLike, set[cst.CSTNode]] = defaultdict(set)
        self._open: set[FunctionLike] = set()
        # What is given for the parameters that were come to, with the calls that give it.
        self._given: dict[FunctionLike, list[tuple[Key, cst.Call | None]]] = defaultdict(list)

    def from_(self, nodes: Iterable[Key], until: Callable[[Key], bool] = lambda key: False) -> set[Key]:
        found: set[Key] = set()
        for node in nodes:
            self._go(node)
        while self._queue:
            key = self._queue.pop()
            if key not in found and not until(key):
                found.add(key)
                for source, way in self.dependence.inputs(key):
                    if way not in self.leaving:
                        self._step(key, source)
        return found

    def _step(self, key: Key, source: Key) -> None:
        if isinstance(key, Binding) and key.kind == "param" and isinstance(key.node, cst.Param):
            self._leave(self.resolver.function_of_parameter(key.node), source)
            return
        returned = self._returned(key, source)
        if returned is not None:
            function, call = returned
            if call not in self._entered[function]:
                self._entered[function].add(call)
                self._queue += [given for given, by in self._given[function] if by is call]
            self._queue.append(source)
        elif self._is_of_one_run(key, source):
            self._queue.append(source)
        else:
            self._go(source)

    def _leave(self, function: FunctionLike, given: Key) -> None:
        call = self._call_giving(given, function)
        self._given[function].append((given, call))
        if function in self._open or call is None:
            self._go(given)
        elif call in self._entered[function]:
            self._queue.append(given)

    def _go(self, key: Key) -> None:
        """Goes on there, in any run of the function in which that stands."""
        queue = [key]
        while queue:
            key = queue.pop()
            self._queue.append(key)
            function = self._function_of(key)
            if function is not None and function not in self._open:
                self._open.add(function)
                queue += [given for given, _ in self._given[function]]

    def _returned(self, key: Key, source: Key) -> tuple[FunctionLike, cst.Call] | None:
        """The function that returns the source to the call that the key is, or gets its value from."""
        call = key.value if isinstance(key, Binding) else key
        if not isinstance(call, cst.Call) or not isinstance(source, cst.BaseExpression):
            return None
        function = self._function_of(source)
        if function is None or self.tree.contains(call, source) or not self._runs(call, function):
            return None
        ends = self.resolver.returned_by_itself(function)
        return (function, call) if any(self.tree.contains(end, source) for end in ends) else None

    def _runs(self, call: cst.Call, function: FunctionLike) -> bool:
        for value in self.resolver.values(call.func):
            if isinstance(value, Function) and value.node is function:
                return True
            if isinstance(value, Object) and function in (
                self.resolver.method(value.of, "__call__"), self.resolver.method(value.of, "call")
            ):  # fmt: skip
                return True
        return False

    def _call_giving(self, given: Key, function: FunctionLike) -> cst.Call | None:
        """The call that gives that to the function which it runs; None where it comes in any other way."""
        node = given if isinstance(given, cst.CSTNode) else None
        owner = self.tree.parent.get(node) if node is not None else None
        if isinstance(owner, cst.Attribute) and owner.value is node:
            node, owner = owner, self.tree.parent.get(owner)
            if not isinstance(owner, cst.Call) or owner.func is not node:
                return None
        if isinstance(owner, cst.Arg):
            owner = self.tree.parent.get(owner)
        return owner if isinstance(owner, cst.Call) and self._runs(owner, function) else None

    def _is_of_one_run(self, key: Key, source: Key) -> bool:
        """Whether the source is what the same run of the function has there, and no other: a part, a name's value."""
        if isinstance(source, Binding):
            is_read = isinstance(key, cst.Name) or (isinstance(key, Binding) and self._is_own_name(key))
            return is_read and self._is_own_name(source) and self._function_of(key) is self._function_of(source)
        node = key.node if isinstance(key, Binding) else key
        if not isinstance(node, cst.CSTNode) or not isinstance(source, cst.CSTNode):
            return False
        return self.tree.contains(node, source) and self._function_of(key) is self._function_of(source)

    def _is_own_name(self, binding: Binding) -> bool:
        """Whether each run of the function has its own value of the name."""
        if binding.kind == "param":
            return True
        scope = self.tree.scope_of(binding.node)
        is_sent_out = binding.name in scope.globals or binding.name in scope.nonlocals
        return isinstance(binding.target, cst.Name) and not is_sent_out

    def _function_of(self, key: Key) -> FunctionLike | None:
        if isinstance(key, Binding):
            if key.kind == "param" and isinstance(key.node, cst.Param):
                return self.resolver.function_of_parameter(key.node)
            return self.tree.callable_of(key.node) if key.node in self.tree.order else None
        return self.tree.callable_of(key) if isinstance(key, cst.CSTNode) else None
