"""A program's tree with the modules of packages beside it, of which only look-ups by a node tell.

What is listed (calls, names, imports, all nodes of a kind) is the program's alone: nothing that goes through a program
ever meets the code of a package.
"""

from __future__ import annotations

import libcst as cst

from migrator.facts.program.tree import Tree


class WiderTree(Tree):
    def __init__(self, program: Tree) -> None:
        self.__dict__.update(vars(program))
        self.parent = dict(program.parent)
        self.scopes = dict(program.scopes)
        self._scope_of = dict(program._scope_of)
        self.around_walruses = set(program.around_walruses)
        self.generators: set[cst.CSTNode] = set()

    def add(self, module: cst.Module) -> None:
        """Adds a module of a package."""
        tree = Tree([module])
        self.parent.update(tree.parent)
        self.scopes.update(tree.scopes)
        self._scope_of.update(tree._scope_of)
        self.around_walruses |= tree.around_walruses
        self.generators.update(f for f in map(tree.callable_of, tree.all_of(cst.Yield)) if f is not None)

    def module_of(self, node: cst.CSTNode) -> cst.Module:
        for owner in self.ancestors(node):
            node = owner
        return node if isinstance(node, cst.Module) else self.modules[0]

    def contains(self, outer: cst.CSTNode, node: cst.CSTNode) -> bool:
        return node is outer or any(owner is outer for owner in self.ancestors(node))
