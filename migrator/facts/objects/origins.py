"""All that a value is made of: the expressions behind it, through names, attributes and functions of the script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Callable, cast

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.tree import Binding, semantic_children
from migrator.worklist import Worklist


class Origins:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def behind(
        self,
        node: cst.CSTNode,
        is_end: Callable[[cst.CSTNode], bool] = lambda node: False,
        through_functions: bool = True,
    ) -> Iterator[cst.CSTNode]:
        """The node, its parts, and what they are made of: nothing of what is behind an end, and of what functions of
        the script return only on demand."""
        return self.behind_all([node], is_end, through_functions)

    def behind_all(
        self,
        nodes: Iterable[cst.CSTNode],
        is_end: Callable[[cst.CSTNode], bool] = lambda node: False,
        through_functions: bool = True,
    ) -> Iterator[cst.CSTNode]:
        """What is behind any of the nodes, each once."""
        stack = Worklist(nodes)
        for part in stack:
            yield part
            if is_end(part):
                continue
            if isinstance(part, cst.Name):
                for binding in self.resolver.reaching(part):
                    stack.extend(self.bound(binding))
            elif isinstance(part, cst.Attribute):
                stack.extend(b.value for b in self.resolver.bindings_of(part) if b.value is not None)
                stack.append(part.value)
            elif not isinstance(part, (cst.Lambda, cst.FunctionDef, cst.ClassDef)):
                stack.extend(semantic_children(part))
                if isinstance(part, cst.Call) and through_functions:
                    stack.extend(self._returned(part))

    def bound(self, binding: Binding) -> list[cst.CSTNode]:
        """The expressions that the binding may give its name; a whole tuple where its parts cannot be told apart."""
        if binding.kind == "param":
            return list(self.resolver.given(cast(cst.Param, binding.node)))
        value = binding.value if binding.kind in ("assign", "augmented", "for", "with") else None
        for index in binding.path:
            if not isinstance(value, (cst.Tuple, cst.List)) or not -len(value.elements) <= index < len(value.elements):
                break
            value = value.elements[index].value
        return [value] if value is not None else []

    def _returned(self, call: cst.Call) -> list[cst.CSTNode]:
        return [
            returned
            for v in self.resolver.values(call.func)
            if isinstance(v, Function)
            for returned in self.resolver.returned(v.node)
        ]
