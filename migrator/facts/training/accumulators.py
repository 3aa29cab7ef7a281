"""Gradients that are added up over several steps before they are applied: where the sums are read for the update.

The workers' sums are reduced there, once, and not each gradient that goes into them; but for those that are clipped
or otherwise bent before they are added, which must be those of the global batch by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Object
from migrator.facts.program.syntax import declared_fields
from migrator.facts.program.tree import Binding, Tree, nodes_in, semantic_children
from migrator.facts.training.gradients import GradientFlow, Gradients

# Where tensors are read, with the name of the sums.
Place = tuple[cst.BaseExpression, Union[cst.Name, cst.Attribute]]
_OF_TENSORS = frozenset({"shape", "dtype", "get_shape", "numpy"})  # what a variable has, too


class Accumulators:
    """The variables, or lists of them, that a script adds gradients to."""

    def __init__(self, tree: Tree, resolver: Resolver, flow: GradientFlow) -> None:
        self.tree = tree
        self.resolver = resolver
        self.flow = flow
        self._iteration = Iteration(tree, resolver)
        self._bent: set[Gradients] = set()
        self._read: set[cst.BaseExpression] = set()

    def read_in(self, expression: cst.BaseExpression) -> list[Gradients]:
        """The sums that the expression is made of, each at the place where its tensors are read."""
        places = dict(self._places(expression, set()))
        return [g for place, sums in places.items() for g in self._sum_at(place, sums)]

    def are_sums(self, gradients: Gradients) -> bool:
        """Whether they are what has been added up in variables."""
        return gradients.computed in self._read

    def holds(self, target: cst.BaseExpression) -> bool:
        """Whether the variable is one of sums that are read elsewhere, and no weight."""
        return any(key in self._filled and key in self._applied for key in self._containers(target))

    def _keys_read(self, expression: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[object]:
        for _, sums in self._places(expression, seen):
            yield from self._key(sums)

    def _places(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Place]:
        """Where the expression, or what it is made of, reads variables that gradients are added to."""
        if node in seen or self._is_length(node):
            return
        seen.add(node)
        if isinstance(node, (cst.Name, cst.Attribute)) and self._is_filled(node):
            loops = self._loops_over(node)
            if not loops or self._takes_tensors(loops):
                yield self._tensors(node), node
            return
        if isinstance(node, cst.Name):
            for binding in self._bindings_of(node):
                if binding.kind == "assign" and binding.value is not None:
                    held = self.flow.contents.held(binding.value) if not binding.path else []
                    for value in (binding.value, *(part.node for part in held)):
                        yield from self._places(value, seen)
                elif binding.kind == "for":
                    yield from self._looped(node, binding, seen)
            return
        for function in self._run_by(node) if isinstance(node, cst.Call) else ():
            for returned in self.resolver.returned(function):
                yield from self._places(returned, seen)
        for child in semantic_children(node):
            if not isinstance(node, cst.CompFor) or child is not node.target:
                yield from self._places(child, seen)

    def _looped(self, name: cst.Name, loop: Binding, seen: set[cst.CSTNode]) -> Iterator[Place]:
        """What a loop takes out of a list of sums: the list, where the loop may have tensors for the variables."""
        sums = self._iterated(loop, reduced=True)
        if not isinstance(sums, (cst.Name, cst.Attribute)) or not self._is_filled(sums):
            return
        if self._takes_tensors([loop]):
            yield from self._places(sums, seen)
            return
        tensor = self._tensors(name)
        owner = self.tree.parent[tensor]
        yield owner if isinstance(owner, cst.ListComp) and owner.elt is tensor else tensor, sums

    def _loops_over(self, sums: cst.Name | cst.Attribute) -> list[Binding]:
        """The loop that goes through the list which is named there."""
        around = self.tree.ancestors(sums)
        loop = next((o for o in around if not isinstance(o, (cst.Arg, cst.Call))), None)
        if not isinstance(loop, (cst.For, cst.CompFor)):
            return []
        targets = (n for n in nodes_in(loop.target) if isinstance(n, cst.Name))
        found = (b for n in targets for b in self.tree.scope_of(n).bindings.get(n.value, ()) if b.target is n)
        return [b for b in found if self._iterated(b, reduced=True) is sums]

    def _takes_tensors(self, loops: list[Binding]) -> bool:
        """Whether nothing is asked of the loops' variables but what a tensor has, too."""
        names = (n for loop in loops for n in self.tree.names[loop.name] if loop in self._bindings_of(n))
        asked = (self.tree.parent[n] for n in names)
        return all(not isinstance(a, cst.Attribute) or a.attr.value in _OF_TENSORS for a in asked)

    def _bindings_of(self, name: cst.Name) -> list[Binding]:
        return self.resolver.reaching(name) if self.tree.is_read(name) else []

    def _tensors(self, read: cst.BaseExpression) -> cst.BaseExpression:
        """`sums[i].value()` around the name of the sums, or of one of them: that is no variable."""
        owner = self.tree.parent[read]
        while isinstance(owner, cst.Subscript) and owner.value is read:
            read, owner = owner, self.tree.parent[owner]
        if isinstance(owner, cst.Attribute) and owner.attr.value in ("value", "read_value"):
            call = self.tree.parent[owner]
            return call if isinstance(call, cst.Call) and call.func is owner else read
        return read

    def _run_by(self, call: cst.Call) -> list[cst.FunctionDef]:
        functions = (v.node for v in self.resolver.values(call.func) if isinstance(v, Function))
        return [function for function in functions if isinstance(function, cst.FunctionDef)]

    def _is_filled(self, node: cst.Name | cst.Attribute) -> bool:
        return any(key in self._filled for key in self._key(node))

    def _is_length(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and External("builtins.len") in self.resolver.values(node.func)

    def _sum_at(self, place: cst.BaseExpression, sums: cst.Name | cst.Attribute) -> Iterator[Gradients]:
        added = [g for key in self._key(sums) for g in self._filled.get(key, ())]
        if any(g in self._bent for g in added):
            yield from added
            return
        tapes = tuple(dict.fromkeys(call for g in added for call in g.tape_calls))
        earlier = tuple(c for g in added for c in g.reduced_by) if all(g.is_reduced for g in added) else ()
        self._read.add(place)
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

    def _iterated(self, binding: Binding, *, reduced: bool = False) -> cst.BaseExpression | None:
        """The list in `for a, g in zip(sums, gradients)` that the name runs through; `reduced`: before it is."""
        if binding.value is None:
            return None
        node, path = self._iteration.narrowed(binding.value, binding.path)
        while reduced and isinstance(node, cst.Call) and self.flow.reduces(node):
            node, path = self._iteration.narrowed(node.args[0].value, path)
        return node if isinstance(node, cst.BaseExpression) and not isinstance(node, cst.Call) else None

    def _key(self, node: cst.CSTNode) -> Iterator[object]:
        """What tells a variable of the script, or an attribute that it sets, from others."""
        if isinstance(node, cst.Name):
            variable = self.resolver.variable(node)
            if variable is not None:
                yield variable
        elif isinstance(node, cst.Attribute):
            yield from (b for b in self.resolver.bindings_of(node) if b.kind != "field")  # made anew each time
            owners = [v for v in self.resolver.values(node.value) if isinstance(v, Object)]
            records = dict.fromkeys(c for owner in owners for c in self.resolver.lineage(owner.of))
            yield from ((c, node.attr.value) for c in records if node.attr.value in declared_fields(c.node))


def _adds(method: str, value: cst.BaseExpression) -> bool:
    """`total.assign_add(g)`, `total.assign(total + g)`"""
    is_sum = isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add)
    return method == "assign_add" or (method == "assign" and is_sum)
