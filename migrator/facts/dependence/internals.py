"""What is carried through the insides of functions and frames: defaults, cells, code, and the names that a frame has.

Which function or frame it is may not be seen: then it is any.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.dependence.namespaces import is_of_modules
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.program.tree import Binding, FunctionLike, Tree

_DEFAULTS = frozenset({"__defaults__", "__kwdefaults__"})
_CODE = "__code__"
_CELL = "cell_contents"
_NAMES = frozenset({"__globals__", "f_globals", "f_locals", "nonlocals"})


class Internals:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver

    def link_read(self, node: cst.Attribute) -> None:
        """`get.__closure__[0].cell_contents`, `frame.f_locals["loss"]`"""
        if node.attr.value in _NAMES or node.attr.value == _CELL:
            for binding in self._variables:
                self.graph.link(binding, node, Way.USED)

    def link_set(self, binding: Binding) -> None:
        """`f.__defaults__ = (loss,)`, `cell.cell_contents = loss`, `f.__code__ = g.__code__`"""
        target = binding.target
        name = target.attr.value if isinstance(target, cst.Attribute) else ""
        if not isinstance(target, cst.Attribute) or binding.value is None:
            return
        if External("builtins") in self.resolver.values(target.value) or is_of_modules(target.value):
            self.graph.link(binding, ("global", name))
        if name in _DEFAULTS:
            for function in self._functions(target.value):
                self.graph.link(binding, ("handed to", function), Way.USED)
        elif name == _CODE:
            code = binding.value.value if isinstance(binding.value, cst.Attribute) else None
            given = [arg for call in self._callers(target.value) for arg in call.args]
            for function in self._functions(code):
                for arg in given:
                    self.graph.link(arg, ("handed to", function))
        elif name == _CELL:
            for variable in self._variables:
                self.graph.link(binding, variable, Way.USED)

    def link_item(self, target: cst.Subscript, value: cst.BaseExpression) -> None:
        """`f.__kwdefaults__["rate"] = loss`, `f.__globals__["rate"] = loss`"""
        holder = target.value
        name = holder.attr.value if isinstance(holder, cst.Attribute) else ""
        if isinstance(holder, cst.Attribute) and name in _DEFAULTS:
            for function in self._functions(holder.value):
                self.graph.link(value, ("handed to", function), Way.USED)
        elif name in _NAMES:
            for variable in self._variables:
                self.graph.link(value, variable, Way.USED)

    def _functions(self, node: cst.CSTNode | None) -> Iterator[FunctionLike]:
        seen = [value.node for value in self.resolver.values(node) if isinstance(value, Function)]
        yield from seen or self.tree.functions

    def _callers(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        seen = [value.node for value in self.resolver.values(node) if isinstance(value, Function)]
        yield from (c for f in seen for c in self.resolver.callers(f)) if seen else self.tree.calls

    @cached_property
    def _variables(self) -> list[Binding]:
        """What names are given, but those of functions, classes and modules."""
        return [b for b in self.tree.bindings if b.kind not in ("import", "def", "class")]
