"""Which local numbers may be combined over the workers where they stand: means, and sums, over the batches.

The mean (the sum) of what the workers have is then what one process has. Nothing else is: not the smallest loss so
far, not a counter of bad epochs, not a number that a worker has picked by another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.values import Operand, Repair
from migrator.analysis.verdicts import MEAN, SUM
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence.spreading import Marks
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External

_NEITHER = ""
_ROUNDING = frozenset({"builtins.int", "builtins.round", "builtins.bool", "numpy.round", "tensorflow.round"})


class Rows(Enum):
    """How often the rows of a batch count on all workers together, where these do not divide it: then either several
    workers have the same rows, so that means are right, or they have unequally many, so that sums are."""

    ANY = "not settled yet"
    ONCE = "once"
    REPEATED = "repeated"


class Means:
    def __init__(
        self,
        resolver: Resolver,
        locality: Locality,
        losses: Losses,
        repaired: Collection[Repair],
        rows: Rows,
        taped: Iterable[cst.CSTNode],
        combined: Collection[cst.CSTNode] = (),
    ) -> None:
        """`repaired`: what is put together for the losses, whatever is asked here. `taped`: the losses that tapes are
        asked for. `combined`: the names of which the losses know that they get a number of all workers."""
        self._taped = frozenset(taped)
        self._combined = set(combined)
        self.resolver = resolver
        self.locality = locality
        self.losses = losses
        self._repaired = frozenset(repaired)
        self._mean = _NEITHER if rows is Rows.ONCE else MEAN
        self._sum = _NEITHER if rows is Rows.REPEATED else SUM
        self._counts = Mark.NONE if rows is Rows.ONCE else Mark.COUNT

    def of(self, node: cst.BaseExpression) -> str:
        """MEAN or SUM where the local number is one over the batches; empty where that is not proven."""
        marks = self.locality.of(node)
        found = self._over_the_batches(node, marks & ~Mark.CHOSEN)
        # Last, since that takes the longest by far.
        return _NEITHER if found and marks & Mark.CHOSEN and not self._is_chosen_by_itself(node) else found

    def _over_the_batches(self, node: cst.BaseExpression, marks: Marks) -> str:
        """MEAN or SUM, whatever has picked the number."""
        if not marks or marks & Mark.OWN or (marks & self._counts and not self._is_of_one_batch(node)):
            return _NEITHER
        if marks & Mark.STATISTIC and not marks & (Mark.VALUE | Mark.INSIDE):
            return MEAN  # as near to one process as the statistics themselves are
        if _is_truth(node) or self.rounds(node):
            return _NEITHER
        verdict = self.losses.of_number(self._before_it_is_bound(node))
        unmade = {repair for repair in verdict.repairs if repair.form not in ("done", "bound")}
        if verdict.repairs and all(r.operands == {Operand(node, SUM)} and r.node is node for r in unmade) and unmade:
            return self._sum  # it is added up where it stands, for what is made of it
        if verdict.is_agreed or not unmade <= self._repaired:
            return _NEITHER  # it is local, whatever made it agree elsewhere
        if marks & self._counts and verdict.repairs:
            return _NEITHER
        return {MEAN: self._mean, SUM: self._sum}.get(verdict.reduction, _NEITHER)

    def _is_of_one_batch(self, node: cst.BaseExpression) -> bool:
        """Whether it is a loss that a tape is asked for: workers whose rows count alike in a batch may have another
        share of them in several."""
        if node in self._taped:
            return True
        bindings = self.locality.dependence.bindings_of(node) if isinstance(node, cst.Name) else []
        return bool(bindings) and all(binding.value in self._taped and not binding.path for binding in bindings)

    def _is_chosen_by_itself(self, node: cst.BaseExpression) -> bool:
        """Whether it is only what it has decided itself, turns before, that has picked what it is made of: once it is
        combined, workers that have done alike so far go on to. But not the best of several, which those behind it make
        the same."""
        if isinstance(node, cst.Name) and len(self.locality.dependence.bindings_of(node)) != 1:
            return False
        return not self.locality.is_made_by_others(node, Mark.CHOSEN)

    def _before_it_is_bound(self, node: cst.BaseExpression) -> cst.CSTNode:
        """For a name that gets a number of all workers, that which each has of its own."""
        bindings = self.locality.dependence.bindings_of(node) if isinstance(node, cst.Name) else []
        target = bindings[0].target if len(bindings) == 1 else None
        return target if target is not None and target in self._combined else node

    def condenses(self, call: cst.Call) -> bool:
        """Whether the call makes a number of what is none: `np.mean(losses)`, `tf.reduce_mean(errors)`."""
        given = [arg.value for arg in call.args if self.locality.of(arg.value)]
        return bool(given) and not any(self.losses.is_array(a) and self.losses.of_number(a).reduction for a in given)

    def rounds(self, node: cst.CSTNode) -> bool:
        """Whether it makes a number whole."""
        if isinstance(node, cst.BinaryOperation):
            return isinstance(node.operator, cst.FloorDivide)
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return any(isinstance(v, External) and v.path in _ROUNDING for v in values)


def _is_truth(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Comparison, cst.BooleanOperation, cst.BaseString)) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    )
