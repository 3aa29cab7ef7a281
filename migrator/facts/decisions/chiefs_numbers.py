"""Where the workers take what the chief has in the place of what is each one's own: the time, a flag of a thread."""

from __future__ import annotations

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.decisions.local_number import LocalNumber, bound_nearby
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.steering import SteeringPlaces
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.dependence.spreading import Marks
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Literal, Value
from migrator.facts.program.tree import Tree

_TOLD_BY_THREADS = frozenset({"threading.Event", "multiprocessing.Event"})


class ChiefsNumbers:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        locality: Locality,
        losses: Losses,
        places: SteeringPlaces,
        taped: TapedLosses,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.locality = locality
        self.losses = losses
        self.places = places
        self.taped = taped

    def of(self, node: cst.BaseExpression, marks: Marks) -> LocalNumber | None:
        """What the chief has in the place of what is each worker's own: a truth, or a number that is compared."""
        if not marks & Mark.OWN or isinstance(node, cst.BooleanOperation):
            return None
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return None
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            truth = len(bindings) == 1 and bindings[0].value is not None and _is_number_or_truth(bindings[0].value)
            binding = bound_nearby(node, self.tree, self.locality, self.taped) if truth else None
            if binding is not None:
                return LocalNumber(node, binding, "chief")
        if isinstance(node, cst.Comparison) or (self.is_asked(node) and self._is_truth(node)):
            return LocalNumber(node, None, "chief")
        if self.tree.parent.get(node) is not None and (node in self.places.inputs or _is_number_or_truth(node)):
            outside = isinstance(node, cst.Call) and any(
                isinstance(v, External) for v in self.resolver.values(node.func)
            )
            return LocalNumber(node, None, "chief") if outside or not isinstance(node, cst.Call) else None
        return None

    def is_small(self, number: LocalNumber) -> bool:
        """Whether it is one number or truth, for which it does not matter how often it is sent."""
        node = number.expression
        return isinstance(node, cst.Comparison) or self.losses.is_number(node) or self._is_truth(node)

    def is_asked(self, node: cst.BaseExpression) -> bool:
        """Whether all that is asked of the value there is whether it is true."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.BooleanOperation) or (
            isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        ):
            return self.is_asked(parent)
        return isinstance(parent, (cst.If, cst.While, cst.IfExp)) and node is parent.test

    def _is_truth(self, node: cst.BaseExpression) -> bool:
        """Whether it is true or false, or a number, on all ways there: what the chief can send."""
        values = self.resolver.values(node)
        if isinstance(node, cst.Call):
            return bool(values) and all(origin(v) in _TOLD_BY_THREADS for v in values)
        return bool(values) and all(map(_is_flag, values))


def _is_flag(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.node, cst.BaseNumber)
    return value in (External("builtins.True"), External("builtins.False"))


def _is_number_or_truth(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Comparison, cst.BinaryOperation, cst.Call, cst.UnaryOperation))
