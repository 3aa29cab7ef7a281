"""The terms of a loss that depend on the weights alone, where they are added to what depends on the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Callable, cast

import libcst as cst

from migrator.facts.loss_kinds import PENALTY
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import part_at
from migrator.facts.tree import Binding, Tree
from migrator.facts.values import External, Function

_SUMS = frozenset({
    "tensorflow.add_n", "tensorflow.math.add_n", "builtins.sum", "tensorflow.add", "tensorflow.math.add",
})  # fmt: skip
_SCALING = frozenset({"get_scaled_loss", "scale_loss"})


class Penalties:
    """`kind` tells what an expression of the loss is, seen over the batch."""

    def __init__(self, tree: Tree, resolver: Resolver, kind: Callable[[cst.CSTNode], str]) -> None:
        self.tree = tree
        self.resolver = resolver
        self._kind = kind

    def terms(self, loss: cst.CSTNode, bodies: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
        """The largest expressions that are a penalty and are added up in the loss, as the code in `bodies` has it."""
        return list(dict.fromkeys(self._terms(loss, bodies, set())))

    def parts(self, loss: cst.CSTNode, bodies: Sequence[cst.CSTNode]) -> list[cst.CSTNode]:
        """The loss and all that is added up in it, as the code in `bodies` has it."""
        found: dict[cst.CSTNode, None] = {}
        stack = [loss]
        while stack:
            node = stack.pop()
            if node not in found:
                found[node] = None
                stack.extend(self._parts(node, bodies))
        return list(found)

    def _terms(
        self, node: cst.CSTNode, bodies: Sequence[cst.CSTNode], seen: set[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression]:
        if node in seen:
            return
        seen.add(node)
        if self._kind(node) == PENALTY:
            yield cast(cst.BaseExpression, node)
            return
        for part in self._parts(node, bodies):
            yield from self._terms(part, bodies, seen)

    def _parts(self, node: cst.CSTNode, bodies: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """What is added up in the expression; a factor goes for all of them."""
        if isinstance(node, cst.Name):
            for binding in self.resolver.reaching(node):
                yield from self._parts_of_binding(binding, bodies)
        elif isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply)):
                yield from (node.left, node.right)
            elif isinstance(node.operator, cst.Divide):
                yield node.left
        elif isinstance(node, cst.UnaryOperation):
            yield node.expression
        elif isinstance(node, cst.IfExp):
            yield from (node.body, node.orelse)
        elif isinstance(node, (cst.List, cst.Tuple)):
            yield from (element.value for element in node.elements)
        elif isinstance(node, cst.Call):
            yield from self._parts_of_call(node)

    def _parts_of_binding(self, binding: Binding, bodies: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        if binding.kind == "augmented" and isinstance(binding.node, cst.AugAssign):
            yield binding.node.value
            if isinstance(binding.target, cst.Name):
                for before in self.resolver.reaching(binding.target):
                    if before is not binding:
                        yield from self._parts_of_binding(before, bodies)
        elif binding.kind == "assign" and binding.value is not None:
            part = part_at(binding.value, binding.path)
            if part is not None:
                yield part
        elif binding.kind == "param":
            given = self.resolver.given(cast(cst.Param, binding.node))
            yield from [a for a in given if any(self.tree.contains(b, a) for b in bodies)] or given

    def _parts_of_call(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        for function in self.resolver.values(call.func):
            if isinstance(function, External) and function.path in _SUMS:
                yield from (arg.value for arg in call.args)
            elif isinstance(function, Function):
                body = function.node
                yield from [body.body] if isinstance(body, cst.Lambda) else self.resolver.returned(body)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _SCALING:
            yield from (arg.value for arg in call.args[:1])
