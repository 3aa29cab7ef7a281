"""Dictionaries that make entries for keys which they have not met."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Object, Result, Value, calls
from migrator.facts.program.tree import Tree

DEFAULTDICT = "collections.defaultdict"


class Defaults:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def factories(self, values: Iterable[Value]) -> list[cst.BaseExpression]:
        """What makes the entries of these, where they are such dictionaries."""
        return list(dict.fromkeys(made for value in values for made in self._of(value)))

    def is_dictionary(self, value: Value) -> bool:
        """Whether it is an object of a class of the program that derives from a dictionary of Python's."""
        return isinstance(value, Object) and self.resolver.derives_from(value.of, _is_dictionary)

    def _of(self, value: Value) -> Iterator[cst.BaseExpression]:
        if isinstance(value, Result) and calls(value) == DEFAULTDICT:
            yield from (arg.value for arg in value.call.args[:1])
        elif isinstance(value, Object) and self.resolver.derives_from(value.of, DEFAULTDICT.__eq__):
            yield from (arg.value for arg in (value.call.args if value.call is not None else ()))
            yield from self._given_to_base
        else:
            return
        yield from self._set

    @cached_property
    def _set(self) -> list[cst.BaseExpression]:
        """`table.default_factory = make`, of whichever table."""
        bound = self.tree.attributes.get("default_factory", ())
        return [b.value for b in bound if isinstance(b.value, cst.BaseExpression)]

    @cached_property
    def _given_to_base(self) -> list[cst.BaseExpression]:
        """`super().__init__(make)`, `defaultdict.__init__(self, make)` in a class that derives from it."""
        found: list[cst.BaseExpression] = []
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "__init__":
                function = self.tree.function_of(call)
                cls = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
                if cls is not None and self.resolver.derives_from(Class(cls), DEFAULTDICT.__eq__):
                    found += [arg.value for arg in call.args]
        return found


def _is_dictionary(path: str) -> bool:
    return path == "builtins.dict" or path.startswith("collections.")
