"""Functions and classes that nothing in the program names: beside others, they run for nobody."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.names.finders import finders
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree

# These find classes that nobody names.
_OF_SUBCLASSES = frozenset({"__subclasses__", "__init_subclass__", "metaclass"})


class Unnamed:
    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._known: dict[cst.CSTNode, bool] = {}
        self._inside: dict[cst.CSTNode, bool] = {}

    def is_inside(self, node: cst.CSTNode) -> bool:
        """Whether the node stands in a class of which there are no objects, or a function that nothing calls: no
        decorator and no base class can have kept it. Where nothing else runs, a program may begin in it."""
        known = self._inside.get(node)
        if known is None:
            known = self._inside[node] = self._is_inside(node)
        return known

    def _is_inside(self, node: cst.CSTNode) -> bool:
        owners = [o for o in self.tree.ancestors(node) if isinstance(o, (cst.FunctionDef, cst.ClassDef))]
        outermost = owners[-1] if owners else None
        if isinstance(outermost, cst.FunctionDef):
            return not outermost.decorators and self.is_unnamed(outermost)
        return outermost is not None and self._has_no_objects(outermost)

    def is_of_no_object(self, node: cst.CSTNode) -> bool:
        """Whether the node stands in a class of which there are no objects."""
        return self.is_inside(node) and any(isinstance(o, cst.ClassDef) for o in self.tree.ancestors(node))

    def _has_no_objects(self, cls: cst.ClassDef) -> bool:
        known = self._known.get(cls)
        if known is None:
            kept = bool(cls.decorators) or self._finds_subclasses
            known = self._known[cls] = not kept and self.is_unnamed(cls)
        return known

    def is_unnamed(self, owner: cst.FunctionDef | cst.ClassDef) -> bool:
        """Whether the program neither names it nor may look it up by a name that no reader sees."""
        name = owner.name.value
        named = self.looks_names_up or any(n is not owner.name for n in self.tree.names[name])
        return not named and name not in self.texts

    @cached_property
    def _finds_subclasses(self) -> bool:
        return any(self.tree.names[name] for name in _OF_SUBCLASSES)

    @cached_property
    def looks_names_up(self) -> bool:
        """Whether functions may be found by names that no reader sees: `globals()["train_" + kind]`."""
        found = (*finders(self.tree), *self.tree.names["getattr"])
        return any(not self._names_a_literal(node) for node in found)

    def _names_a_literal(self, node: cst.Name) -> bool:
        """`getattr(step, "run")`: what it may find is one of `texts`."""
        call = self.tree.parent.get(node)
        name = argument(call, "name", 1) if isinstance(call, cst.Call) and call.func is node else None
        return name is not None and isinstance(name.value, cst.SimpleString)

    @cached_property
    def texts(self) -> set[str]:
        """The texts in the program, which may be names to look something up by."""
        return {str(node.evaluated_value) for node in self.tree.all_of(cst.SimpleString)}
