"""What goes on from where it was: iterators, which whoever goes through them leaves other than they were."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Literal, Value, calls
from migrator.facts.program.tree import Tree

_MAKING = frozenset({
    "builtins.iter", "builtins.map", "builtins.filter", "builtins.zip", "builtins.enumerate", "builtins.reversed",
})  # fmt: skip
# Of which nothing is taken where it is handed to them.
_KEEPING = ("builtins.print", "builtins.isinstance", "builtins.type", "builtins.id", "builtins.repr", "builtins.iter")


class Advancing:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def given_to(self, call: cst.Call) -> list[cst.Arg]:
        """The iterators that a function of Python's is given, which may take items out of them."""
        paths = self.resolver.public(call.func)
        if not paths or any(path in _KEEPING for path in paths):
            return []
        return [arg for arg in call.args if self._is_iterator(arg.value)]

    def gone_through(self, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """The iterators of which loops and `in` take items there."""
        found: list[cst.BaseExpression] = [loop.iter for loop in self.tree.all_of(cst.For)]
        found += [clause.iter for clause in self.tree.all_of(cst.CompFor)]
        for comparison in self.tree.all_of(cst.Comparison):
            for target in comparison.comparisons:
                if isinstance(target.operator, (cst.In, cst.NotIn)):
                    found.append(target.comparator)
        yield from (node for node in found if self.tree.contains(body, node) and self._is_iterator(node))

    def _is_iterator(self, node: cst.BaseExpression) -> bool:
        """Whether it is the name of an iterator: what is made on the spot is nobody else's."""
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        if any(map(_is_made_iterator, self.resolver.values(node))):
            return True
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else ()
        return any(isinstance(b.value, cst.Call) and not b.path and self._is_generator(b.value) for b in bindings)

    def _is_generator(self, call: cst.Call) -> bool:
        return any(isinstance(v, Function) and v.node in self.tree.yields for v in self.resolver.values(call.func))


def _is_made_iterator(value: Value) -> bool:
    path = calls(value)
    is_display = isinstance(value, Literal) and isinstance(value.node, cst.GeneratorExp)
    return is_display or path in _MAKING or path.startswith("itertools.")
