"""Which bindings a name or an attribute may have its value from, those of other functions and objects among them."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.names.api import BARS
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Element, External, File, Object, Parameter, Unknown
from migrator.facts.program.tree import Binding, Tree


class Names:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self._known: dict[cst.Name, list[Binding]] = {}

    def bindings_of(self, name: cst.Name) -> list[Binding]:
        """All bindings that the name may have its value from, those of other functions (`global`) among them."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._found(name)
        return known

    def _found(self, name: cst.Name) -> list[Binding]:
        found = dict.fromkeys(self.resolver.reaching(name))
        scope = self.tree.scope_of(name).lookup(name.value)
        if scope is not None:
            home = scope.node if isinstance(scope.node, cst.FunctionDef) else None
            for binding in scope.bindings[name.value]:
                if binding.target is not None and self.tree.function_of(binding.node) is not home:
                    found.setdefault(binding)
        return list(found)

    def shown_by(self, node: cst.BaseExpression) -> list[Binding]:
        """Where the name gets the bar that it is, which shows how far a loop is, and what it is told besides; nothing
        where it may be anything else."""
        bindings = self.bindings_of(node) if isinstance(node, cst.Name) else []
        return bindings if all(map(self._is_bar, bindings)) else []

    def _is_bar(self, binding: Binding) -> bool:
        """`bar = tqdm(batches)`, `with tqdm(batches) as bar`"""
        made = binding.value if binding.kind in ("assign", "with") and not binding.path else None
        values = self.resolver.values(made.func) if isinstance(made, cst.Call) else ()
        return bool(values) and all(isinstance(v, External) and v.path in BARS for v in values)

    def bindings_of_attribute(self, node: cst.Attribute) -> list[Binding]:
        """Where the attribute gets its value; by its name alone where it is not seen whose it is."""
        owners = self.resolver.values(node.value)
        name = node.attr.value
        if owners and all(isinstance(v, (Object, File, External)) for v in owners):
            found = dict.fromkeys(self.resolver.bindings_of(node))
            for owner in owners:
                for cls in self.resolver.lineage(owner.of) if isinstance(owner, Object) else ():
                    found.update(dict.fromkeys(self.tree.scopes[cls.node].bindings.get(name, ())))
            # `Class.name = …` in some method, or of an object that is not seen
            for binding in self.tree.attributes.get(name, ()):
                target = cast(cst.Attribute, binding.target)
                targeted = self.resolver.values(target.value)
                if not targeted or any(isinstance(v, (Class, Parameter, Unknown, Element)) for v in targeted):
                    found.setdefault(binding)
            return list(found)
        if any(isinstance(v, Class) for v in owners):
            classes = [v.node for v in owners if isinstance(v, Class)]
            inside = [b for c in classes for b in self.tree.scopes[c].bindings.get(name, ())]
            return [*inside, *self.tree.attributes.get(name, ())]
        return list(self.tree.attributes.get(name, ()))

    @cached_property
    def attributes_read(self) -> set[str]:
        return {node.attr.value for node in self.tree.all_of(cst.Attribute)}
