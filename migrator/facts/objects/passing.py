"""What a function's parameter is on one way of calls, and on all ways: a flag may tell training from evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import is_false, is_true


class Passing:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def literal(self, node: cst.CSTNode, way: Collection[cst.Call] | None = None) -> cst.BaseExpression | None:
        """The one constant that the expression is on this way of calls; None where it is none, or not always one."""
        found = list(self.literals(node, way))
        return found[0] if len(found) == 1 else None

    def literals(self, node: cst.CSTNode, way: Collection[cst.Call] | None = None) -> Iterator[cst.BaseExpression]:
        """The constants that reach the expression through parameters; an expression that is none stands for itself."""
        yield from self._leaves(node, way, set())

    def _leaves(
        self, node: cst.CSTNode, way: Collection[cst.Call] | None, seen: set[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else []
        param = bindings[0].node if len(bindings) == 1 and bindings[0].kind == "param" else None
        if not isinstance(param, cst.Param):
            yield cast(cst.BaseExpression, node)
        elif param not in seen:
            seen.add(param)
            for given in self.resolver.arguments(param, self.resolver.function_of_parameter(param), way):
                yield from self._leaves(given, way, seen)
            seen.discard(param)

    def training_flag(self, function: cst.FunctionDef, ways: Collection[Collection[cst.Call]]) -> str | None:
        """The parameter that is True on these ways of calls and False on all others."""
        for param in (*function.params.params, *function.params.kwonly_params):
            given = self.resolver.arguments(param, function)
            leaves = [leaf for node in given for leaf in self.literals(node)]
            if not leaves or not all(is_true(leaf) or is_false(leaf) for leaf in leaves):
                continue
            on_ways = [
                self.literal(node, way) for way in ways for node in self.resolver.arguments(param, function, way)
            ]
            true = {id(leaf) for leaf in leaves if is_true(leaf)}
            if true and true == {id(leaf) for leaf in on_ways} and len(true) < len(leaves):
                return param.name.value
        return None
