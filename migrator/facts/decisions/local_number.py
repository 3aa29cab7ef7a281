"""A number that differs from worker to worker and steers training, and where it can be combined."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.metrics import MetricResult
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.program.tree import Binding, Tree
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class LocalNumber:
    """A number of this worker's own that steers training.

    `binding`, where given, is the statement right after which it can be averaged for all that follows; else it is
    averaged where the expression stands. `reduction`: "mean" or "sum"; "chief" where the workers take what the chief
    has (the time); "gather" where they take the rows of all, see Gathering; empty where nothing makes the workers
    agree. The number of samples seen cannot be averaged.
    `metric`, where given, says that the expression is a metric's result, whether or not it steers. `cause`: the first
    expression behind one that nothing makes the workers agree on, which is not followed any further. `left_out`: for
    how many more such places it stands, which nobody looks into.
    """

    expression: cst.BaseExpression
    binding: Binding | None = None
    reduction: str = ""
    is_count: bool = False
    metric: MetricResult | None = None
    cause: cst.BaseExpression | None = None
    left_out: int = 0
    by_chance: bool = False

    @property
    def place(self) -> cst.CSTNode:
        """Where it is combined: the expression, or the statement that binds it."""
        return self.expression if self.binding is None else self.binding.node

    @property
    def is_settled(self) -> bool:
        """Whether something makes the workers agree on it."""
        return bool(self.reduction) or (self.metric is not None and not self.is_count)


def bound_nearby(
    expression: cst.BaseExpression,
    tree: Tree,
    locality: Locality,
    taped: TapedLosses,
    divisors: Collection[object] = (),
) -> Binding | None:
    """The one assignment of a plain name, where each of its turns comes to the condition: averaged there, what is
    derived from it (the best so far) agrees as well. Tapes go back through the loss itself, which stays this worker's
    until then; but not through the names of `divisors`, which it needs whole anyway."""
    if not isinstance(expression, cst.Name):
        return None
    bindings = locality.dependence.bindings_of(expression)
    if len(bindings) != 1 or bindings[0].kind != "assign" or isinstance(bindings[0].target, cst.Subscript):
        return None
    node = bindings[0].node
    alike = list(tree.loops_around(node)) == list(tree.loops_around(expression))
    same = tree.function_of(node) is tree.function_of(expression)
    if not (alike and same and isinstance(node, cst.Assign)):
        return None
    return bindings[0] if bindings[0].target in divisors or not taped.goes_back_through(bindings[0]) else None
