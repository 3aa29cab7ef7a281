"""Which expressions surely are single numbers of Python's: counters, and what is worked out from them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.facts.objects.contents import Contents
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Literal, Object
from migrator.facts.program.syntax import is_truth_value, part_at
from migrator.facts.program.tree import Binding

# They give a number, whatever they are given.
_CONVERSIONS = frozenset({"builtins.float", "builtins.int", "builtins.len", "builtins.bool", "builtins.ord"})
# They give a number where they are given numbers.
_FUNCTIONS = frozenset({
    "builtins.min", "builtins.max", "builtins.abs", "builtins.round", "builtins.pow", "numpy.exp", "numpy.log",
    "numpy.sqrt", "numpy.cos", "numpy.sin", "numpy.tanh", "numpy.clip", "numpy.minimum", "numpy.maximum",
    "numpy.float32", "numpy.float64", "numpy.power",
})  # fmt: skip


_CONSTANTS = frozenset(f"{library}.{name}" for library in ("math", "numpy") for name in ("e", "inf", "nan", "pi"))


class Numbers:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._contents = Contents(resolver.tree, resolver)
        self._asked: set[cst.Subscript] = set()  # of which is asked now: a list that is made of its own items

    def is_number(self, node: cst.BaseExpression, passed: frozenset[Binding] = frozenset()) -> bool:
        """Whether the expression surely is a number; `passed`: bindings that are on the way, and so say nothing."""
        if isinstance(node, cst.BaseNumber) or is_truth_value(node):
            return True
        if isinstance(node, cst.UnaryOperation):
            return self.is_number(node.expression, passed)
        if isinstance(node, cst.BinaryOperation):
            return self.is_number(node.left, passed) and self.is_number(node.right, passed)
        if isinstance(node, cst.IfExp):
            return self.is_number(node.body, passed) and self.is_number(node.orelse, passed)
        if isinstance(node, cst.Call):
            return self._is_worked_out(node, passed)
        if isinstance(node, cst.Subscript):
            return self._is_item(node, passed)
        if isinstance(node, (cst.Name, cst.Attribute)) and self._is_constant(node):
            return True
        if isinstance(node, cst.Name):
            return self._are_numbers(self.resolver.reaching(node), passed)
        if isinstance(node, cst.Attribute) and all(isinstance(v, Object) for v in self.resolver.values(node.value)):
            found = (*self.resolver.bindings_of(node), *self.resolver.class_bindings_of(node))
            return self._are_numbers(found, passed)
        return False

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(isinstance(v, External) and v.path in _CONSTANTS for v in values)

    def _are_numbers(self, bindings: Sequence[Binding], passed: frozenset[Binding]) -> bool:
        return bool(bindings) and all(b in passed or self._binds(b, passed | {b}) for b in bindings)

    def _is_item(self, node: cst.Subscript, passed: frozenset[Binding]) -> bool:
        """Whether it is one of numbers that a list or dictionary of the script holds: `losses[-1]`."""
        if node in self._asked:
            return True
        self._asked.add(node)
        try:
            ends = self._contents.ends(self._contents.items(node)) or ()
            return bool(ends) and all(
                isinstance(end, cst.BaseExpression) and self.is_number(end, passed) for end in ends
            )
        finally:
            self._asked.discard(node)

    def _is_worked_out(self, node: cst.Call, passed: frozenset[Binding]) -> bool:
        paths = [v.path if isinstance(v, External) else "" for v in self.resolver.values(node.func)]
        if paths and all(path in _CONVERSIONS for path in paths):
            return True
        known = paths and all(path in _FUNCTIONS or path.startswith("math.") for path in paths)
        return bool(known) and all(not arg.star and self.is_number(arg.value, passed) for arg in node.args)

    def _binds(self, binding: Binding, passed: frozenset[Binding]) -> bool:
        value = binding.value
        if binding.kind == "for":
            return self._counts(binding)
        if binding.kind == "augmented":
            before = binding.target if isinstance(binding.target, (cst.Name, cst.Attribute)) else None
            is_number = isinstance(value, cst.BaseExpression) and self.is_number(value, passed)
            return is_number and before is not None and self.is_number(before, passed)
        made = part_at(value, binding.path) if binding.kind == "assign" and value is not None else None
        if isinstance(made, cst.BaseExpression):
            if self.is_number(made, passed):
                return True
            found = self.resolver.values(made)
            return bool(found) and all(isinstance(v, Literal) and isinstance(v.node, cst.BaseNumber) for v in found)
        return False

    def _counts(self, binding: Binding) -> bool:
        """`for step in range(n)`, `for step, … in enumerate(…)`"""
        if not isinstance(binding.value, cst.Call):
            return False
        names = set(self.resolver.public(binding.value.func))
        return (names == {"builtins.range"} and not binding.path) or (
            names == {"builtins.enumerate"} and binding.path == (0,)
        )
