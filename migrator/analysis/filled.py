"""Whether a model has others' weights before it is run for the first time, whatever the program decides by then."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import libcst as cst

from migrator.analysis.run import Run
from migrator.analysis.values import Atom, Bound, Class, Function

_CONDITIONAL = (cst.If, cst.While, cst.Try, cst.TryStar, cst.IfExp, cst.BooleanOperation, cst.Match, cst.CompIf)


class Filled:
    def __init__(self, run: Run) -> None:
        self.run = run

    def before_use(self, model: Atom, filling: Collection[cst.Call]) -> bool:
        """Whether one of the calls that fill the model surely runs before the first call of it."""
        first = self.run.first_use.get(model)
        return first is None or any(self._is_sure(call, first, ()) for call in filling)

    @cached_property
    def _order(self) -> dict[cst.CSTNode, int]:
        """How many expressions the run has met before each."""
        return {node: i for i, node in enumerate(self.run.seen)}

    def _is_sure(self, call: cst.CSTNode, first: int, within: tuple[cst.CSTNode, ...]) -> bool:
        if self._order.get(call, first) >= first:
            return False
        function = self.run.tree.callable_of(call)
        for owner in self.run.tree.ancestors(call):
            if owner is function:
                break
            if isinstance(owner, _CONDITIONAL) or _may_not_turn(owner):
                return False
        if function is None:
            return True
        callers = self._callers(function) if function not in within else []
        return any(self._is_sure(caller, first, (*within, function)) for caller in callers)

    def _callers(self, function: cst.CSTNode) -> list[cst.Call]:
        cls = self.run.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        return [
            call
            for call in self.run.tree.calls
            for atom in self.run.seen.get(call.func, ())
            if (isinstance(atom, Function) and atom.node is function)
            or (isinstance(atom, Bound) and atom.function.node is function)
            or (isinstance(atom, Class) and atom.node is cls and _is_constructor(function))
        ]


def _is_constructor(function: cst.CSTNode) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _may_not_turn(loop: cst.CSTNode) -> bool:
    """`for _ in range(warmup)` of what is no number that stands there; lists of weights are taken to hold some."""
    iterated = loop.iter if isinstance(loop, (cst.For, cst.CompFor)) else None
    if not isinstance(iterated, cst.Call) or not isinstance(iterated.func, cst.Name) or iterated.func.value != "range":
        return False
    return not all(isinstance(arg.value, cst.Integer) and arg.value.evaluated_value > 0 for arg in iterated.args[:1])
