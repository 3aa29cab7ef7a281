"""Which local numbers may be combined over the workers where they stand: means, and sums, over the batches.

The mean (the sum) of what the workers have is then what one process has. Nothing else is: not the smallest loss so
far, not a counter of bad epochs, not a number that a worker has picked by another.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import cast

import libcst as cst

from migrator.analysis.losses import MEAN, SUM, Losses
from migrator.analysis.values import Operand
from migrator.facts.decisions.locality import Locality, Mark
from migrator.facts.dependence import COLLECTING
from migrator.facts.objects.kinds import calls
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Binding, Tree

_ALIKE = "alike"
_NEITHER = ""
_ITSELF = "itself"  # `total = total + loss`: the other term tells
_DEEPEST = 40
_CONDENSING = frozenset({"mean", "reduce_mean", "average", "sum", "reduce_sum", "fmean", "fsum", "nanmean", "add_n"})
_ROUNDING = frozenset({"builtins.int", "builtins.round", "builtins.bool", "numpy.round", "tensorflow.round"})
_LINEAR_METHODS = frozenset(
    {"numpy", "item", "mean", "sum", "astype", "copy", "tolist", "read_value", "value", "values"}
)


class Rows(Enum):
    """How often the rows of a batch count on all workers together, where these do not divide it: then either several
    workers have the same rows, so that means are right, or they have unequally many, so that sums are."""

    ANY = "not settled yet"
    ONCE = "once"
    REPEATED = "repeated"


class Means:
    def __init__(self, tree: Tree, resolver: Resolver, locality: Locality, losses: Losses, rows: Rows) -> None:
        self.tree = tree
        self.resolver = resolver
        self.locality = locality
        self.losses = losses
        self._busy: set[object] = set()
        self._mean = _NEITHER if rows is Rows.ONCE else MEAN
        self._sum = _NEITHER if rows is Rows.REPEATED else SUM
        self._beyond = Mark.CHOSEN | Mark.OWN if rows is Rows.ONCE else Mark.CHOSEN | Mark.OWN | Mark.COUNT

    def of(self, node: cst.CSTNode) -> str:
        """MEAN or SUM where the local number is one over the batches; empty where that is not proven."""
        kind = self._of(node)
        return kind if kind in (MEAN, SUM) else _NEITHER

    def condenses(self, call: cst.Call) -> bool:
        """Whether the call makes one number of many: `np.mean(losses)`, `tf.reduce_mean(errors)`."""
        names = [v.path.rpartition(".")[2] for v in self.resolver.values(call.func) if isinstance(v, External)]
        names += [calls(v).rpartition(".")[2] for v in self.resolver.values(call)]
        return any(name in _CONDENSING for name in names)

    def _of(self, node: cst.CSTNode) -> str:
        marks = self.locality.of(node)
        if not marks:
            return _ALIKE
        if marks & self._beyond:
            return _NEITHER
        if node in self._busy:
            return _ITSELF
        if len(self._busy) > _DEEPEST:
            return _NEITHER
        self._busy.add(node)
        try:
            if marks & Mark.STATISTIC and not marks & (Mark.VALUE | Mark.INSIDE):
                return MEAN  # as near to one process as the statistics themselves are
            return self._made_of(node) or self._loss(node)
        finally:
            self._busy.discard(node)

    def _loss(self, node: cst.CSTNode) -> str:
        if not isinstance(node, cst.BaseExpression) or _is_truth(node) or self.rounds(node):
            return _NEITHER
        verdict = self.losses.of_number(node)
        if verdict.repairs and all(r.operands == {Operand(node, SUM)} and r.node is node for r in verdict.repairs):
            return self._sum  # it is added up where it stands, for what is made of it
        is_proven = not verdict.repairs and not verdict.is_agreed  # it is local, whatever made it agree elsewhere
        if not is_proven:
            return _NEITHER
        return self._mean if verdict.reduction == MEAN else self._sum if verdict.reduction == SUM else _NEITHER

    def rounds(self, node: cst.CSTNode) -> bool:
        """Whether it makes a number whole."""
        if isinstance(node, cst.BinaryOperation):
            return isinstance(node.operator, cst.FloorDivide)
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return any(isinstance(v, External) and v.path in _ROUNDING for v in values)

    def _made_of(self, node: cst.CSTNode) -> str:
        if isinstance(node, cst.Name):
            return self._bound(self.locality.dependence.bindings_of(node))
        if isinstance(node, cst.Attribute):
            bindings = [k for k in self.locality.inputs(node) if isinstance(k, Binding)]
            return self._bound(bindings) if bindings else _NEITHER
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, (cst.Minus, cst.Plus)):
            return self._of(node.expression)
        if isinstance(node, cst.Subscript):
            alike = not any(self.locality.of(part) for part in node.slice)
            return (self._item(node) or self._of(node.value)) if alike else _NEITHER
        if isinstance(node, (cst.List, cst.Tuple)):
            return _joined(self._of(e.value) for e in node.elements)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self._of(node.elt)
        if isinstance(node, cst.Call):
            return self._call(node)
        return _NEITHER

    def _item(self, node: cst.Subscript) -> str:
        """One number of a tuple or list that carries several: `acc = (acc[0] + loss, acc[1] + count)`."""
        place = node.slice[0].slice if len(node.slice) == 1 else None
        index = place.value if isinstance(place, cst.Index) else None
        if not isinstance(node.value, cst.Name) or not isinstance(index, cst.Integer):
            return _NEITHER
        kinds = []
        for binding in self.locality.dependence.bindings_of(node.value):
            display = binding.value if binding.kind == "assign" else None
            part = part_at(display, (*binding.path, int(index.value))) if display is not None else None
            if not isinstance(part, cst.BaseExpression):
                return _NEITHER
            kinds.append(self._part(part))
        return _joined(kinds) if kinds else _NEITHER

    def _part(self, part: cst.BaseExpression) -> str:
        if not self.locality.of(part):
            return _ALIKE if _is_zero(part) else "constant"
        return self._of(part)

    def _bound(self, bindings: Iterable[Binding]) -> str:
        """What the name gets, and what is put into the list that it is."""
        kinds = []
        for binding in bindings:
            kinds.append(self._binding(binding))
            kinds += [self._put_in(put) for put in self._put_into(binding)]
        return _joined(kinds) if kinds else _NEITHER

    def _put_into(self, binding: Binding) -> list[cst.Arg | None]:
        """What calls put into the container that the name holds, by whichever name; None where it is sorted by that."""
        queue, seen = list(self.locality.inputs(binding)), set()
        found: list[cst.Arg | None] = []
        while queue:
            key = queue.pop()
            if isinstance(key, cst.Arg):
                found.append(key)
            elif isinstance(key, tuple) and key[0] == "order":
                found.append(None)
            elif isinstance(key, tuple) and key[0] == "contents" and key not in seen:
                seen.add(key)
                queue += self.locality.inputs(key)
        return found

    def _put_in(self, arg: cst.Arg | None) -> str:
        call = self.tree.parent.get(arg) if arg is not None else None
        func = call.func if isinstance(call, cst.Call) else None
        if (
            arg is not None
            and isinstance(func, cst.Attribute)
            and func.attr.value in (*COLLECTING, "assign_add", "assign")
        ):
            return self._of(arg.value)
        return _NEITHER

    def _binding(self, binding: Binding) -> str:
        marks = self.locality.of(binding)
        if not marks:
            return _ALIKE if _is_zero(binding.value) else "constant"
        if marks & self._beyond or binding in self._busy:
            return _ITSELF if binding in self._busy else _NEITHER
        self._busy.add(binding)
        try:
            return self._gets(binding)
        finally:
            self._busy.discard(binding)

    def _gets(self, binding: Binding) -> str:
        value = binding.value
        if binding.kind == "param":
            return _joined(self._of(given) for given in self.resolver.given(cast(cst.Param, binding.node)))
        if value is None or binding.kind not in ("assign", "augmented", "for"):
            return _NEITHER
        if binding.kind == "augmented":
            operator = cst.ensure_type(binding.node, cst.AugAssign).operator
            target = binding.target
            before = [_ALIKE]
            if isinstance(target, cst.Name):
                before = [self._binding(b) for b in self.locality.dependence.bindings_of(target) if b is not binding]
            if isinstance(operator, (cst.AddAssign, cst.SubtractAssign)):
                return _joined([*before, self._of(value)])
            if isinstance(operator, (cst.DivideAssign, cst.MultiplyAssign)) and not self.locality.of(value):
                return _joined(before)
            return _NEITHER
        parts: list[cst.CSTNode | None] = [part_at(value, binding.path)]
        if parts == [None] and isinstance(value, cst.Call):
            parts = [part_at(r, binding.path) for r in self._returned(value)]
        if not parts or None in parts:
            return self._of(value) if not binding.path or binding.kind == "for" else _NEITHER
        return _joined(self._of(part) for part in parts if part is not None)

    def _returned(self, call: cst.Call) -> list[cst.BaseExpression]:
        functions = [v.node for v in self.resolver.values(call.func) if isinstance(v, Function)]
        return [
            returned
            for f in functions
            for returned in ([f.body] if isinstance(f, cst.Lambda) else self.resolver.returned(f))
        ]

    def _operation(self, node: cst.BinaryOperation) -> str:
        left, right = self._of(node.left), self._of(node.right)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            constant = node.left if left == _ALIKE else node.right
            if _ALIKE in (left, right) and SUM in (left, right) and not _is_zero(constant):
                return _NEITHER
            return _joined([left, right])
        if isinstance(node.operator, cst.Multiply) and _ALIKE in (left, right):
            return right if left == _ALIKE else left
        if isinstance(node.operator, cst.Divide) and right == _ALIKE:
            return left
        return _NEITHER

    def _call(self, call: cst.Call) -> str:
        values = self.resolver.values(call.func)
        if any(call is fit.call for fit in self.locality.training.batch_fits):
            return self._mean if not self.losses.odd_metrics(call) else _NEITHER
        returned = self._returned(call)
        if returned and all(isinstance(v, Function) for v in values):
            return _joined(self._of(r) for r in returned)
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value == "result" and not call.args:
            kinds = [self._of(given) for given in self.locality.fed_to(func.value)[:1]]
            is_metric = any(map(self.locality.is_metric, self.resolver.values(func.value)))
            return _joined(kinds) or self._mean if is_metric else _NEITHER
        if (
            isinstance(func, cst.Attribute)
            and func.attr.value in _LINEAR_METHODS
            and not any(self.locality.of(a) for a in call.args)
        ):
            return self._of(func.value)
        return _NEITHER


def _joined(kinds: Iterable[str]) -> str:
    """What may be one or the other, or is the sum of them; a constant beside a sum would count once a worker."""
    present = set(kinds)
    if _NEITHER in present or ("constant" in present and SUM in present) or {MEAN, SUM} <= present:
        return _NEITHER
    return next((k for k in (MEAN, SUM, _ITSELF) if k in present), _ALIKE)


def _is_zero(node: cst.CSTNode | None) -> bool:
    if isinstance(node, (cst.List, cst.Tuple)):
        return not node.elements
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value) == 0


def _is_truth(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Comparison, cst.BooleanOperation, cst.BaseString)) or (
        isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not)
    )
