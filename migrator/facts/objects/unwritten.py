"""Methods of the script's that run where no call of them is written: properties, texts of objects, operators."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object
from migrator.facts.program.syntax import operator_named
from migrator.facts.program.tree import Tree

_TEXTS = ("__str__", "__repr__", "__format__")
# What functions of Python's ask their arguments for.
_ASKED = {
    "print": _TEXTS, "str": _TEXTS, "repr": _TEXTS, "format": _TEXTS, "ascii": _TEXTS, "len": ("__len__", ),
    "bool": ("__bool__", "__len__"), "int": ("__int__", "__index__"), "float": ("__float__",), "abs": ("__abs__",),
    "hash": ("__hash__",), "round": ("__round__",), "iter": ("__iter__",), "next": ("__next__",),
    "reversed": ("__reversed__",),
}  # fmt: skip


class Unwritten:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def runs(self) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        """Where such methods run, with them."""
        yield from self._properties()
        if any(name.startswith("__") and name != "__init__" for name in self.tree.methods):
            yield from self._of_texts()
            yield from self._of_operators()
            yield from self._of_statements()

    def _properties(self) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        names = {f.name.value for f in self.tree.functions if f.decorators and self.tree.class_of(f) is not None}
        for node in self.tree.all_of(cst.Attribute) if names else ():
            if node.attr.value in names:
                yield from ((node, method) for method in self.resolver.properties(node))

    def _of_texts(self) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        for part in self.tree.all_of(cst.FormattedStringExpression):
            yield from self._of(part.expression, part.expression, _TEXTS)
        for call in self.tree.calls:
            names = [p.rpartition(".")[2] for p in self.resolver.public(call.func) if p.startswith("builtins.")]
            is_format = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("format", "join", "write")
            for asked in (*(_ASKED.get(name, ()) for name in names), *([_TEXTS] if is_format else [])):
                for arg in call.args:
                    yield from self._of(call, arg.value, asked)

    def _of_operators(self) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        for node in self.tree.all_of(cst.BinaryOperation):
            name = operator_named(node.operator)
            texts = _TEXTS if name == "mod" else ()
            yield from self._of(node, node.left, (f"__{name}__",))
            yield from self._of(node, node.right, (f"__r{name}__", *texts))
        for change in self.tree.all_of(cst.AugAssign):
            name = operator_named(change.operator)
            yield from self._of(change, change.target, (f"__i{name}__", f"__{name}__"))
        for comparison in self.tree.all_of(cst.Comparison):
            for target in comparison.comparisons:
                is_asked = isinstance(target.operator, (cst.In, cst.NotIn))
                name = f"__{'contains' if is_asked else operator_named(target.operator)}__"
                yield from self._of(comparison, comparison.left, (name,))
                yield from self._of(comparison, target.comparator, (name,))
        for operation in self.tree.all_of(cst.UnaryOperation):
            name = operator_named(operation.operator) or "bool"
            yield from self._of(operation, operation.expression, (f"__{name}__",))
        for item in self.tree.all_of(cst.Subscript):
            yield from self._of(item, item.value, ("__getitem__", "__missing__"))

    def _of_statements(self) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        for statement in self.tree.all_of(cst.With):
            for item in statement.items:
                yield from self._of(item.item, item.item, ("__enter__", "__exit__"))
        tests = [node.test for node in self.tree.all_of(cst.If)] + [node.test for node in self.tree.all_of(cst.While)]
        for test in (*tests, *(node.test for node in self.tree.all_of(cst.IfExp))):
            yield from self._of(test, test, ("__bool__", "__len__"))
        for target, _ in self.tree.item_assignments:
            yield from self._of(target, target.value, ("__setitem__",))

    def _of(
        self, node: cst.CSTNode, owner: cst.BaseExpression, names: tuple[str, ...]
    ) -> Iterator[tuple[cst.CSTNode, cst.FunctionDef]]:
        if not any(name in self.tree.methods for name in names):
            return
        for value in self.resolver.values(owner):
            for name in names if isinstance(value, Object) else ():
                method = self.resolver.method(value.of, name) if isinstance(value, Object) else None
                if isinstance(method, cst.FunctionDef):
                    yield node, method
