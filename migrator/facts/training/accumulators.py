"""Gradients that are added up over several steps before they are applied: where the sums are read for the update.

The workers' sums are reduced there, once, and not each gradient that goes into them; but for those that are clipped
or otherwise bent before they are added, which must be those of the global batch by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Binding, Tree, semantic_children
from migrator.facts.training.gradients import GradientFlow, Gradients


class Accumulators:
    """The variables, or lists of them, that a script adds gradients to."""

    def __init__(self, tree: Tree, resolver: Resolver, flow: GradientFlow) -> None:
        self.tree = tree
        self.resolver = resolver
        self.flow = flow
        self._bent: set[Gradients] = set()

    def read_in(self, expression: cst.BaseExpression) -> list[Gradients]:
        """The sums that the expression is made of, each at the place where it is read."""
        return [g for place in self._places(expression, set()) for g in self._sum_at(place)]

    def holds(self, target: cst.BaseExpression) -> bool:
        """Whether the variable is one of sums that are read elsewhere, and no weight."""
        return any(key in self._filled and key in self._applied for key in self._containers(target))

    def _keys_read(self, expression: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[object]:
        for node in self._places(expression, seen):
            yield from self._key(node)

    def _places(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.Name | cst.Attribute]:
        """Where the expression, or what it is made of, reads variables that gradients are added to."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, (cst.Name, cst.Attribute)):
            if any(key in self._filled for key in self._key(node)):
                yield node
                return
            for binding in self.resolver.reaching(node) if isinstance(node, cst.Name) else ():
                if binding.kind == "assign" and binding.value is not None:
                    yield from self._places(binding.value, seen)
            return
        for child in semantic_children(node):
            yield from self._places(child, seen)

    def _sum_at(self, place: cst.Name | cst.Attribute) -> Iterator[Gradients]:
        added = [g for key in self._key(place) for g in self._filled.get(key, ())]
        if any(g in self._bent for g in added):
            yield from added
            return
        tapes = tuple(dict.fromkeys(call for g in added for call in g.tape_calls))
        earlier = tuple(c for g in added for c in g.reduced_by) if all(g.is_reduced for g in added) else ()
        yield Gradients(place, None, tapes, (*self._reductions_around(place), *earlier), tuple(added))

    def _reductions_around(self, node: cst.CSTNode) -> Iterator[cst.Call]:
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.BaseStatement):
                return
            if isinstance(owner, cst.Call) and self.flow.reduces(owner):
                yield owner

    @cached_property
    def _filled(self) -> dict[object, list[Gradients]]:
        """What is added to the variables, by the name or attribute that leads to them."""
        found: dict[object, list[Gradients]] = {}
        for target, added in self._additions():
            gradients = self.flow.sources(added)
            if gradients and not self._is_linear(added, gradients, set()):
                self._bent.update(gradients)
            for key in self._containers(target) if gradients else ():
                found.setdefault(key, []).extend(gradients)
        return found

    def _additions(self) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        """What is added to in place, and what is added: to a variable, or to an array that a loop takes out of a list,
        `for a, g in zip(sums, gradients): a += g`."""
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and call.args and _adds(func.attr.value, call.args[0].value):
                yield func.value, call.args[0].value
        for change in self.tree.augmented:
            array: cst.BaseExpression = change.target
            while isinstance(array, cst.Subscript):
                array = array.value
            if isinstance(change.operator, cst.AddAssign) and isinstance(array, cst.Name) and self._is_looped(array):
                yield array, change.value

    def _is_looped(self, name: cst.Name) -> bool:
        """Whether the name is one that a loop gives; the addition itself gives it anew."""
        return any(b.kind == "for" for b in self.tree.scope_of(name).bindings.get(name.value, ()))

    def _is_linear(self, node: cst.CSTNode, gradients: list[Gradients], seen: set[cst.CSTNode]) -> bool:
        """Whether the expression gives a sum of multiples of the gradients: what is done to each worker's part, and
        then summed, is done to the whole."""
        if node in seen or any(node is g.computed for g in gradients):
            return True
        seen.add(node)
        if isinstance(node, cst.Name):
            holders = [g.holder for g in gradients]
            return all(
                b in holders or b.value is None or self._is_linear(self._iterated(b) or b.value, gradients, seen)
                for b in self.resolver.reaching(node)
            )
        if not self.flow.sources(node):
            return True  # a factor, or what was there before
        if isinstance(node, cst.BinaryOperation):
            operands = [operand for operand in (node.left, node.right) if self.flow.sources(operand)]
            adds = isinstance(node.operator, (cst.Add, cst.Subtract))
            scales = isinstance(node.operator, (cst.Multiply, cst.Divide)) and operands == [node.left]
            scales = scales or (isinstance(node.operator, cst.Multiply) and len(operands) == 1)
            return (adds or scales) and all(self._is_linear(o, gradients, seen) for o in operands)
        if isinstance(node, cst.Subscript):
            return self._is_linear(node.value, gradients, seen)
        return False

    @cached_property
    def _applied(self) -> set[object]:
        """The names and attributes that the arguments of updates are made of."""
        found: set[object] = set()
        for call in self.tree.calls:
            func = call.func
            if not isinstance(func, cst.Attribute) or func.attr.value not in ("apply_gradients", "apply"):
                continue
            given = [arg.value for arg in call.args[:1]]
            if not any(g.tape_calls for expression in given for g in self.flow.sources(expression)):
                for expression in given:
                    found.update(self._keys_read(expression, set()))
        return found

    def _containers(self, node: cst.CSTNode, passed: frozenset[Binding] = frozenset()) -> Iterator[object]:
        """The name or attribute behind `sums[i]`, or behind the loop that the variable comes from."""
        while isinstance(node, cst.Subscript):
            node = node.value
        loops = [b for b in self._loops(node) if b not in passed] if isinstance(node, cst.Name) else []
        for binding in loops:
            iterated = self._iterated(binding)
            if iterated is not None:
                yield from self._containers(iterated, passed | {binding})
        if not loops:
            yield from self._key(node)

    def _loops(self, node: cst.Name) -> list[Binding]:
        return [b for b in self.resolver.reaching(node) if b.kind == "for"]

    def _iterated(self, binding: Binding) -> cst.BaseExpression | None:
        """The list in `for a, g in zip(sums, gradients)` that the name runs through."""
        node, path = binding.value, binding.path
        while isinstance(node, cst.Call) and node.args:
            functions = self.resolver.values(node.func)
            if External("builtins.enumerate") in functions and path[:1] == (1,):
                node, path = node.args[0].value, path[1:]
            elif External("builtins.zip") in functions and path and 0 <= path[0] < len(node.args):
                node, path = node.args[path[0]].value, path[1:]
            else:
                return None
        return node if isinstance(node, cst.BaseExpression) else None

    def _key(self, node: cst.CSTNode) -> Iterator[object]:
        """What tells a variable of the script, or an attribute that it sets, from others."""
        if isinstance(node, cst.Name):
            variable = self.resolver.variable(node)
            if variable is not None:
                yield variable
        elif isinstance(node, cst.Attribute) and node.attr.value in self.tree.attributes:
            yield from self.resolver.bindings_of(node)


def _adds(method: str, value: cst.BaseExpression) -> bool:
    """`total.assign_add(g)`, `total.assign(total + g)`"""
    is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add)
    return method == "assign_add" or (method == "assign" and is_sum)
