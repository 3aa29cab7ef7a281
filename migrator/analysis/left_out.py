"""Code that a program trains by and does not run as it is set up now: `USE_GAN = False` and `if USE_GAN:` before a
second step. Who edits the setting expects that step to be migrated like the others."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.analysis.run import Run
from migrator.facts.program.tree import Tree


class LeftOut:
    """What an abstract run has not reached, and the conditions that keep it from that."""

    def __init__(self, tree: Tree, run: Run) -> None:
        self.tree = tree
        self._run = run
        self._asked: set[cst.CSTNode] = set()

    def conditions(self, sites: Iterable[cst.CSTNode]) -> set[cst.CSTNode]:
        """The branches of which only one way was run, where the other one leads to a site."""
        return {found for site in sites if not self._is_reached(site) for found in self._before(site)}

    def _is_reached(self, node: cst.CSTNode) -> bool:
        if node not in self._run.seen:
            return False
        owners = {f for f in self.tree.ancestors(node) if isinstance(f, cst.FunctionDef)}
        return owners.isdisjoint(self._run.alone)

    def _before(self, node: cst.CSTNode) -> set[cst.CSTNode]:
        child = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.If, cst.IfExp)) and self._is_left_out(child, owner):
                return {owner}
            if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
                found = self._before_naming(owner)
                if found:
                    return found
            child = owner
        return set()

    def _before_naming(self, owner: cst.FunctionDef | cst.ClassDef) -> set[cst.CSTNode]:
        """What leaves out the places where the function or class is named, which may call it; or another one of this
        name, of which more is run then than need be."""
        if owner in self._asked:
            return set()
        self._asked.add(owner)
        named = self.tree.names[owner.name.value]
        return {found for name in named if name is not owner.name for found in self._before(name)}

    def _is_left_out(self, child: cst.CSTNode, branch: cst.If | cst.IfExp) -> bool:
        way = True if child is branch.body else False if child is branch.orelse else None
        return way is not None and self._run.ways[branch] == {not way}
