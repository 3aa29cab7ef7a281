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
            functions = [v.node for v in self.resolver.values(node.func) if isinstance(v, Function)]
            return [f for f in functions if isinstance(f, cst.FunctionDef) and f in self.tree.yields]
        return (
            [f for made in self.made(node) for f in self.of(made)]
            if isinstance(node, (cst.Name, cst.Attribute))
            else []
        )

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
