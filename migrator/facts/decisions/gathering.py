"""Where all rows of a batch are put together, so that what the script makes of them in Python and NumPy is the same on
all workers: what it collects, counts, or remembers of each sample, and is steered by later.

That is where rows enter such code, at the last expression that is seen to be rows: from there on only what is whole is
known. It is proven in two ways: by the graph of dependence/, that all which steers depends on nothing but such rows,
and by a run in which they are whole, that they meet no worker's part of a batch.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence import Key
from migrator.facts.files.writes import Files
from migrator.facts.program.syntax import clauses
from migrator.facts.program.tree import Tree

_ROW_BY_ROW = frozenset({"jacobian", "batch_jacobian", "jvp"})
_COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


class Gathering:
    def __init__(self, tree: Tree, files: Files, losses: Losses, locality: Locality) -> None:
        self.tree = tree
        self.files = files
        self.losses = losses
        self.locality = locality

    def leaf(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The expression, or the array that it makes a list of, if all rows can be put together around it: it is rows,
        and all workers come there."""
        if not self.losses.is_rows(node) or self.files.is_chief_only(node) or not self._is_met_by_all(node):
            return None
        return self.losses.array_in(node) if not self._may_be_of_a_row(node) else None

    def _may_be_of_a_row(self, node: cst.BaseExpression) -> bool:
        """Whether it is made of what may be one row: `y[0]` of a tuple of batches, or of a batch."""
        # What a batch is picked by, before a worker takes its rows of it, tells nothing of how many these are.
        return bool(self._items) and not self._items.isdisjoint(self.locality.made_local_by(node))

    @cached_property
    def _items(self) -> set[Key]:
        """The items that may be one row."""
        every = self.tree.all_of(cst.Subscript)
        return {node for node in every if _takes_an_item(node) and self.losses.may_be_a_row(node)}

    def _is_met_by_all(self, node: cst.BaseExpression) -> bool:
        """Whether no loop within an expression, of which each worker makes as many turns as it has rows, is around it;
        of statements, the conditions are made to agree. Nor a tape, which would not know what is put together."""
        child: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.BaseStatement):
                return True
            if isinstance(owner, cst.Lambda):
                return False
            if isinstance(owner, cst.Call) and self.locality.training.flow.is_tape_call(owner):
                return False
            if isinstance(owner, _COMPREHENSIONS) and any(
                self.locality.of(clause.iter) & ~Mark.WITHIN for clause in clauses(owner.for_in)
            ):
                return child is owner.for_in and self.tree.contains(owner.for_in.iter, node)
            child = owner
        return True

    def meets_unseen(self, gathered: Collection[cst.BaseExpression]) -> bool:
        """Whether what may hold all rows without being seen as that meets a worker's part of them, or is
        differentiated row by row, which gives each worker its own part."""
        dependence = self.locality.dependence
        made = self.locality.made_of(gathered)
        for number in made.marks:
            node = dependence.keys[number]
            if not isinstance(node, cst.BaseExpression):
                continue
            if _differentiates(node) or (self.losses.may_be_rows(node) and self._meets_rows(node)):
                return True
        return False

    def _meets_rows(self, node: cst.BaseExpression) -> bool:
        """Whether a worker's part enters the expression that the node is a part of."""
        owner = self.tree.parent.get(node)
        while owner is not None and not isinstance(owner, (cst.BaseExpression, cst.BaseStatement)):
            owner = self.tree.parent.get(owner)
        is_cut = owner in self.locality.sharding.cut_rows  # each worker takes its rows there of what all have
        is_cut = is_cut or self.losses.is_apart(node)
        return owner is not None and not is_cut and self.losses.meets_rows(owner)


def _differentiates(node: cst.BaseExpression) -> bool:
    func = node.func if isinstance(node, cst.Call) else None
    return isinstance(func, cst.Attribute) and func.attr.value in _ROW_BY_ROW


def _takes_an_item(node: cst.Subscript) -> bool:
    place = node.slice[0].slice if len(node.slice) == 1 else None
    return isinstance(place, cst.Index) and not isinstance(place.value, cst.SimpleString)
