"""The methods of the script's objects that operators run, subscripts, and assignments to attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst

from migrator.facts.objects.defaults import Defaults
from migrator.facts.objects.lookups import Lookups
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Object, Value
from migrator.facts.program.syntax import REFLECTED, operator_named
from migrator.facts.program.tree import FunctionLike, Tree

Use = tuple[FunctionLike, Sequence[cst.CSTNode]]  # a method, and what an operator gives it


class Operators:
    """`run_by` gives the functions that run when somebody calls a value."""

    def __init__(self, tree: Tree, resolver: Resolver, run_by: Callable[[Value], Iterable[FunctionLike]]) -> None:
        self.tree = tree
        self.resolver = resolver
        self.defaults = Defaults(tree, resolver)
        self.lookups = Lookups(tree, resolver, self.defaults)
        self._run_by = run_by

    def run(self, node: cst.CSTNode) -> Iterator[Use]:
        """The methods of the script's objects that an operator runs."""
        if isinstance(node, cst.BinaryOperation):
            name = operator_named(node.operator)
            yield from self._methods(node.left, [f"__{name}__"], [node.right])
            yield from self._methods(node.right, [f"__r{name}__"], [node.left])
        elif isinstance(node, cst.AugAssign):
            name = operator_named(node.operator)
            yield from self._methods(node.target, [f"__i{name}__", f"__{name}__"], [node.value])
            yield from self._methods(node.value, [f"__r{name}__"], [node.target])
        elif isinstance(node, cst.Comparison):
            left: cst.BaseExpression = node.left
            for target in node.comparisons:
                if isinstance(target.operator, (cst.In, cst.NotIn)):
                    yield from self._methods(target.comparator, ["__contains__"], [left])
                else:
                    name = operator_named(target.operator)
                    yield from self._methods(left, [f"__{name}__"], [target.comparator])
                    yield from self._methods(target.comparator, [f"__{REFLECTED.get(name, '')}__"], [left])
                left = target.comparator
        for table, keys in self.lookups.at(node):
            yield from self._methods(table, ["__getitem__"], keys)
            yield from self._methods(table, ["__missing__"], keys)
            yield from ((function, keys) for function in self._factories(table))
        if isinstance(node, cst.Subscript):
            for value in self.resolver.values(node.value):
                method = self.resolver.method(value, "__class_getitem__") if isinstance(value, Class) else None
                if method is not None:
                    yield method, list(node.slice)

    def _factories(self, node: cst.BaseExpression) -> Iterator[FunctionLike]:
        """What a defaultdict runs for keys that it has not met."""
        for made in self.defaults.factories(self.resolver.values(node)):
            yield from (f for v in self.resolver.values(made) for f in self._run_by(v))

    def stores(self, target: cst.Subscript, value: cst.CSTNode) -> Iterator[Use]:
        """`log[key] = value` of an object of the script's"""
        yield from self._methods(target.value, ["__setitem__"], [*target.slice, value])

    def deletes(self, target: cst.Subscript) -> Iterator[Use]:
        """`del log[key]` of an object of the script's"""
        yield from self._methods(target.value, ["__delitem__"], list(target.slice))

    def sets(self, target: cst.Attribute, value: cst.CSTNode) -> Iterator[Use]:
        """`log.last = value` where that is a method's task: of a property, of `__setattr__`, of a descriptor."""
        name = target.attr.value
        yield from self._methods(target.value, ["__setattr__"], [value])
        for owner in self.resolver.values(target.value):
            for cls in self.resolver.kin(owner.of) if isinstance(owner, Object) else ():
                for binding in self.tree.scopes[cls.node].bindings.get(name, ()):
                    if isinstance(binding.node, cst.FunctionDef):
                        if any(_is_setter(d.decorator) for d in binding.node.decorators):
                            yield binding.node, [value]
                    elif binding.value is not None:
                        yield from self._methods(binding.value, ["__set__"], [value])
                        yield from ((setter, [value]) for setter in self._setters(binding.value))

    def _setters(self, node: cst.CSTNode) -> Iterator[FunctionLike]:
        """`rate = property(get, set)`"""
        if isinstance(node, cst.Call) and External("builtins.property") in self.resolver.values(node.func):
            yield from (f for arg in node.args for v in self.resolver.values(arg.value) for f in self._run_by(v))

    def _methods(self, node: cst.CSTNode, names: Iterable[str], operands: Sequence[cst.CSTNode]) -> Iterator[Use]:
        for value in self.resolver.values(node):
            if isinstance(value, Object):
                classes = [value.of, *(self.resolver.subclasses(value.of) if value.call is None else ())]
                for method in dict.fromkeys(self.resolver.method(cls, name) for cls in classes for name in names):
                    if method is not None:
                        yield method, operands


def _is_setter(decorator: cst.BaseExpression) -> bool:
    return isinstance(decorator, cst.Attribute) and decorator.attr.value == "setter"
