"""Generator functions of the script, and which of them an expression is a generator of."""

from __future__ import annotations

from typing import cast

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.tree import Tree


class Generators:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def of(self, node: cst.CSTNode) -> list[cst.FunctionDef]:
        """The generator functions of the script whose generator the expression is."""
        if isinstance(node, cst.Call):
            return self._called(node, set())
        return (
            [f for made in self.made(node) for f in self.of(made)]
            if isinstance(node, (cst.Name, cst.Attribute))
            else []
        )

    def _called(self, call: cst.Call, seen: set[cst.CSTNode]) -> list[cst.FunctionDef]:
        """Those that the call runs, and those that the functions hand on which it runs: of one that may return anything
        else, none."""
        seen.add(call)
        functions = [v.node for v in self.resolver.values(call.func) if isinstance(v, Function)]
        found = [f for f in functions if isinstance(f, cst.FunctionDef) and f in self.tree.yields]
        for function in functions:
            if isinstance(function, cst.FunctionDef) and function not in self.tree.yields:
                found += self._handed_on(function, seen)
        return list(dict.fromkeys(found))

    def _handed_on(self, function: cst.FunctionDef, seen: set[cst.CSTNode]) -> list[cst.FunctionDef]:
        found: list[cst.FunctionDef] = []
        for returned in self.resolver.returned(function):
            several = self._called(returned, seen) if isinstance(returned, cst.Call) and returned not in seen else []
            if not several:
                return []
            found += several
        return found

    def made(self, node: cst.Name | cst.Attribute) -> list[cst.Call]:
        """The calls that made what the name stands for, as far as each is seen."""
        found = []
        for binding in self.resolver.bound(node):
            given = self.resolver.given(cast(cst.Param, binding.node)) if binding.kind == "param" else [binding.value]
            for value in given:
                if isinstance(value, cst.Call) and not binding.path:
                    found.append(value)
                elif isinstance(value, cst.Name) and value is not node and not binding.path:
                    found.extend(self.made(value))
        return found
