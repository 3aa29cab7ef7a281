"""Whether a model has others' weights before it is run for the first time, whatever the program decides by then."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import libcst as cst

from migrator.analysis.run import Run
from migrator.analysis.values import Atom, Bound, Class, Function, Instance, Made

_CONDITIONAL = (cst.If, cst.While, cst.Try, cst.TryStar, cst.IfExp, cst.BooleanOperation, cst.Match, cst.CompIf)
_CATCHING = (cst.Try, cst.TryStar)


class Filled:
    def __init__(self, run: Run) -> None:
        self.run = run

    def before_use(self, model: Atom, filling: Collection[cst.Call]) -> bool:
        """Whether one of the calls that fill the model surely runs before the first call of it that gives anything: not
        before `model(tf.zeros((1, 4)))`, which makes its weights."""
        first = self.run.first_use.get(model)
        if first is not None and not self._keeps_what_it_makes:
            first = self.run.first_taken.get(model, len(self.run.seen))
        return first is None or any(
            self._is_sure(call, first, (), model) or self._follows_making(call, first, model) for call in filling
        )

    def _follows_making(self, call: cst.Call, first: int, model: Atom) -> bool:
        """Whether the call surely runs wherever the model is made, some lines further down."""
        tree, made = self.run.tree, _made_at(model)
        function = tree.callable_of(call)
        is_known = made is not None and made in tree.order and tree.callable_of(made) is function
        if not is_known or made is None or self._order.get(call, first) >= first:
            return False
        is_apart = True
        for owner in tree.ancestors(call):
            if owner is function:
                break
            is_apart = is_apart and not tree.contains(owner, made)
            if isinstance(owner, _CATCHING) or (is_apart and (isinstance(owner, _CONDITIONAL) or _may_not_turn(owner))):
                return False
        return not self._may_leave_before(call, model)

    def _may_leave_before(self, call: cst.CSTNode, model: Atom) -> bool:
        """Whether the function may return, or a turn of a loop end, above the call, with the model made by then."""
        tree, made = self.run.tree, _made_at(model)
        function = tree.callable_of(call)
        is_beside = made is not None and made in tree.order and tree.callable_of(made) is function
        begin = tree.order[made] if is_beside and made is not None else -1
        loops = set(tree.loops_around(call))
        return any(
            begin < tree.order[leaving] < tree.order[call]
            and tree.callable_of(leaving) is function
            and (isinstance(leaving, cst.Return) or not loops.isdisjoint(tree.loops_around(leaving)))
            for leaving in tree.all_of(cst.Return, cst.Break, cst.Continue)
        )

    @cached_property
    def _keeps_what_it_makes(self) -> bool:
        """Whether the forward pass of any model or layer may keep something, which what it drops may stand in: it sets
        attributes, or calls what gives nothing that it uses, as `self.kept.append(z)`."""
        tree = self.run.tree
        setting = (tree.function_of(b.node) for bindings in tree.attributes.values() for b in bindings)
        if any(f is not None and f.name.value not in ("__init__", "build") for f in setting):
            return True
        calling = (tree.function_of(line) for line in tree.all_of(cst.Expr) if isinstance(line.value, cst.Call))
        return any(f is not None and f.name.value in ("call", "__call__") for f in calling)

    @cached_property
    def _order(self) -> dict[cst.CSTNode, int]:
        """How many expressions the run has met before each."""
        return {node: i for i, node in enumerate(self.run.seen)}

    def _is_sure(self, call: cst.CSTNode, first: int, within: tuple[cst.CSTNode, ...], model: Atom) -> bool:
        if self._order.get(call, first) >= first or self._may_leave_before(call, model):
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
        return any(self._is_sure(caller, first, (*within, function), model) for caller in callers)

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


def _made_at(model: Atom) -> cst.CSTNode | None:
    return model.site.node if isinstance(model, (Made, Instance)) else None


def _is_constructor(function: cst.CSTNode) -> bool:
    return isinstance(function, cst.FunctionDef) and function.name.value == "__init__"


def _may_not_turn(loop: cst.CSTNode) -> bool:
    """`for _ in range(warmup)` of what is no number that stands there; lists of weights are taken to hold some."""
    iterated = loop.iter if isinstance(loop, (cst.For, cst.CompFor)) else None
    if not isinstance(iterated, cst.Call) or not isinstance(iterated.func, cst.Name) or iterated.func.value != "range":
        return False
    return not all(isinstance(arg.value, cst.Integer) and arg.value.evaluated_value > 0 for arg in iterated.args[:1])
