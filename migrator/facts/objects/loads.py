"""Where the value is read that a name or an attribute gets."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, Tree


class Loads:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def of(self, binding: Binding) -> Iterator[cst.CSTNode]:
        """The places that may read the value which the binding gives."""
        if isinstance(binding.target, cst.Attribute):
            for node in self.tree.all_of(cst.Attribute):
                if node.attr.value == binding.name and node is not binding.target:
                    yield node
            return
        if self.tree.scopes.get(self.tree.module_of(binding.node)) is self.tree.scope_of(binding.node):
            yield from self._elsewhere(binding)
        for name in self.tree.names.get(binding.name, ()):
            parent = self.tree.parent.get(name)
            if isinstance(parent, (cst.Attribute, cst.Arg)) and getattr(parent, "attr", None) is name:
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is name:
                continue
            if isinstance(parent, (cst.AssignTarget, cst.Param, cst.FunctionDef)) or name is binding.target:
                continue
            if binding in self.resolver.reaching(name):
                yield name

    def _elsewhere(self, binding: Binding) -> Iterator[cst.CSTNode]:
        """Reads of a file's name by other files: `module.name`, and the name that an import gives it instead."""
        for name in self.tree.names.get(binding.name, ()):
            parent = self.tree.parent.get(name)
            if isinstance(parent, cst.Attribute) and parent.attr is name and parent is not binding.target:
                if binding in self.resolver.bindings_of(parent):
                    yield parent
            elif isinstance(parent, cst.ImportAlias) and parent.asname is not None:
                other = parent.asname.name
                for alias in self.tree.names.get(other.value, ()) if isinstance(other, cst.Name) else ():
                    if alias is not other and binding in self.resolver.reaching(alias):
                        yield alias
