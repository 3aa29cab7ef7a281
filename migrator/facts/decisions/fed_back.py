"""What batches before feed back into the losses: a running mean that scales one, or how many samples a set holds."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import cast

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.values import Repair
from migrator.facts.decisions.brought_in import BroughtIn
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.metrics import Metrics
from migrator.facts.decisions.numbers_behind import NumbersBehind, order_of
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.dependence import DECIDING, Key
from migrator.facts.program.tree import Binding, Tree
from migrator.worklist import Worklist


class FedBack:
    def __init__(
        self,
        tree: Tree,
        locality: Locality,
        metrics: Metrics,
        losses: Losses,
        taped: TapedLosses,
        numbers: NumbersBehind,
        repaired: Collection[Repair],
        brought_in: BroughtIn,
    ) -> None:
        """`repaired`: what is put together for the losses, whatever is asked here."""
        self.tree = tree
        self.locality = locality
        self.metrics = metrics
        self.losses = losses
        self.taped = taped
        self.numbers = numbers
        self._repaired = frozenset(repaired)
        self.brought_in = brought_in

    def places(self) -> Iterator[cst.BaseExpression]:
        """What enters the losses that are differentiated otherwise than as samples: numbers of batches before, and what
        such a number has picked."""
        entering = self.taped.behind | self.taped.sizing | self.taped.handed_on
        # A line and what it binds stand at one place: the first that was asked for comes first, in every run.
        numbered = sorted(entering, key=self.locality.dependence.number)
        for key in sorted(numbered, key=partial(order_of, self.tree)):
            if self.locality.of(key) & Mark.CHOSEN:
                for chooser in list(self._choosers(key)):
                    if self.locality.deciding(chooser) & ~Mark.WITHIN:
                        self.locality.expect(chooser)
                        yield chooser
            if key not in self.taped.behind:
                continue
            is_read = isinstance(key, cst.BaseExpression) and self.locality.of(key) & Mark.VALUE
            if is_read and self._comes_from_outside(key) and self._may_be_combined(cast(cst.BaseExpression, key)):
                yield cast(cst.BaseExpression, key)
            elif isinstance(key, cst.BaseExpression) and self._is_overlooked(key):
                yield key
        yield from self.brought_in.places()

    def _is_given_to_tape(self, key: Key) -> bool:
        """`shrink(student, factors[best])`, of which the function reads the parameter under its tape."""
        queue = Worklist([key])
        for place in queue:
            for user in self.locality.dependence.users(place):
                if self.taped.is_under_tape(user):
                    return True
                is_passed = isinstance(user, cst.Arg) or (isinstance(user, Binding) and user.kind == "param")
                if is_passed or self._reads_parameter(user):
                    queue.append(user)
        return False

    def _is_in_lambda(self, key: Key) -> bool:
        """Whether it is a lambda, or a part of one: that may run under a tape."""
        return isinstance(key, cst.CSTNode) and any(
            isinstance(owner, cst.Lambda) for owner in (key, *self.tree.ancestors(key))
        )

    def _reads_parameter(self, key: Key) -> bool:
        bindings = self.locality.dependence.bindings_of(key) if isinstance(key, cst.Name) else []
        return bool(bindings) and all(b.kind == "param" for b in bindings)

    def _may_be_combined(self, node: cst.BaseExpression) -> bool:
        """Whether numbers behind it can be, and it is not the same on all workers by what the losses have repaired."""
        verdict = self.losses.of_number(node)
        is_settled = verdict.is_agreed and verdict.repairs and verdict.repairs <= self._repaired
        if any(repair.form == "bound" for repair in verdict.repairs):
            is_settled = False  # as long as the name gets that
        return not is_settled and self.numbers.are_behind(node)

    def _choosers(self, key: Key) -> Iterator[cst.BaseExpression]:
        """The expressions that decide what this is, also by deciding which of its returns a function comes to."""
        queue = [k for k, way in self.locality.dependence.inputs(key) if way in DECIDING]
        seen: set[Key] = set()
        while queue:
            chooser = queue.pop()
            if isinstance(chooser, cst.BaseExpression):
                yield chooser
            elif chooser not in seen:
                seen.add(chooser)
                queue += [k for k, _ in self.locality.dependence.inputs(chooser)]

    def _is_overlooked(self, node: cst.BaseExpression) -> bool:
        """Whether the code under the tape reads there what samples that came before have left behind (how many are in a
        set of them), and nothing is known to put together for that."""
        if not self.locality.of(node) & ~Mark.CHOSEN or not self.taped.is_under_tape(node):
            return False
        is_number = self.losses.is_array(node) and not self.losses.is_constant(node)
        if not is_number or not self.losses.is_same(node):
            return False
        if isinstance(node, cst.Call) and self.metrics.result(node) is not None:
            return True
        # Of a batch itself it is known what becomes of it.
        held = [p for p in self._parts(node) if not (self.losses.is_array(p) or self.losses.is_share(p))]
        reads = [node, *(part for part in held if not self.losses.is_same(part) or self._is_apart(part))]
        return any(isinstance(k, (cst.Name, cst.Attribute)) and self._comes_from_outside(k) for k in reads)

    def _is_apart(self, container: cst.BaseExpression) -> bool:
        """Whether what the container holds settles how many it holds: keys of a dictionary."""
        return bool(self.locality.of(container) & Mark.VALUE)

    def _parts(self, node: Key) -> Iterator[cst.BaseExpression]:
        """The expressions that make the expression local which stand in it."""
        for key in self.locality.inputs(node):
            if isinstance(key, cst.BaseExpression):
                yield key
            elif isinstance(key, cst.CSTNode):  # an argument, an element
                yield from self._parts(key)

    def _comes_from_outside(self, key: Key) -> bool:
        """Whether the code under the tape reads here what was made outside of it, or is given it through parameters."""
        if not self.taped.is_under_tape(key):
            return not self._is_in_lambda(key) and self._is_given_to_tape(key)
        if not isinstance(key, (cst.Name, cst.Attribute)):
            return False
        bindings = [k[-1] if isinstance(k, tuple) else k for k in self.locality.inputs(key)]
        return any(isinstance(b, Binding) and b.kind != "param" and not self.taped.is_under_tape(b) for b in bindings)
