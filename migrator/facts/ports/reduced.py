"""Which updates apply gradients that are reduced over the workers: by a call, by their tape, or by the optimizer."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal, Object, calls
from migrator.facts.ports.ported import PortCall, Ports
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree
from migrator.facts.training.gradients import Gradients
from migrator.facts.training.sites import Training, Update

_CONSTANTS = frozenset({
    "tensorflow.constant", "tensorflow.zeros", "tensorflow.ones", "tensorflow.convert_to_tensor", "numpy.array",
    "numpy.zeros", "numpy.ones",
})  # fmt: skip


class Reduced:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, ports: Ports, origins: Origins
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.ports = ports
        self.origins = origins

    # -- by the optimizer ----------------------------------------------------------------------------------------

    def is_wrapped(self, update: Update) -> bool:
        """Whether the optimizer of this update surely reduces what it applies."""
        optimizers = self._optimizers(update)
        return bool(optimizers) and all(
            bool(values := self.resolver.values(o)) and all(map(self.kinds.is_distributed_optimizer, values))
            for o in optimizers
        )

    def may_be_wrapped(self, update: Update) -> bool:
        return any(map(self.is_distributed, self._optimizers(update)))

    def is_distributed(self, optimizer: cst.CSTNode) -> bool:
        """Whether the expression may be an optimizer that reduces, be it inside of another (for loss scaling)."""
        calls = {site.call for site in self.ports.of(Role.OPTIMIZER)}
        return bool(calls) and any(part in calls for part in self.origins.behind(optimizer))

    def is_surely_plain(self, optimizer: cst.BaseExpression) -> bool:
        """Whether the expression is seen to be an optimizer, or its name, and never one that reduces."""
        values = self.resolver.values(optimizer)
        seen = bool(values) and all(isinstance(v, Literal) or self.kinds.is_optimizer(v) for v in values)
        return seen and not self.is_distributed(optimizer)

    def _optimizers(self, update: Update) -> list[cst.BaseExpression]:
        """The expression that the update is called on; where it is a model's `optimizer`, what the model is compiled
        with."""
        func = update.call.func
        if not isinstance(func, cst.Attribute):
            return []
        owner = func.value
        if isinstance(owner, cst.Attribute) and owner.attr.value == "optimizer":
            compiled = self._compiled(owner.value)
            if compiled:
                return compiled
        return [owner]

    def _compiled(self, model: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The optimizers with which models of the same class are compiled."""
        classes = {cls for v in self.resolver.values(model) if isinstance(v, Object) for cls in [v.of]}
        found = []
        for compile_ in self.training.compiles:
            if any(isinstance(v, Object) and set(self.resolver.lineage(v.of)) & classes for v in compile_.values):
                optimizer = argument(compile_.call, "optimizer", 0)
                if optimizer is not None:
                    found.append(optimizer.value)
        return found

    # -- by a call -----------------------------------------------------------------------------------------------

    def unreduced(self, update: Update) -> list[Gradients]:
        """The gradients of which no way to this update reduces them."""
        if self.may_be_wrapped(update):
            return []
        reduced = {tape for g in update.gradients if g.is_reduced for tape in g.tape_calls}
        return [g for g in update.gradients if not g.is_reduced and not reduced.intersection(g.tape_calls)]

    @cached_property
    def dropped(self) -> list[PortCall]:
        """Reductions whose result goes nowhere: thrown away, or of gradients that are applied as they were before."""
        return [site for site in self.ports.of(Role.REDUCE) if self._is_thrown_away(site) or self._is_passed_by(site)]

    def _is_thrown_away(self, site: PortCall) -> bool:
        top: cst.CSTNode = site.call
        while isinstance(self.tree.parent[top], (cst.ListComp, cst.List, cst.Tuple, cst.Element)):
            top = self.tree.parent[top]
        if not isinstance(self.tree.parent[top], cst.Expr) or not site.call.args:
            return False
        return not self._is_signal(site.call.args[0].value)

    def _is_signal(self, value: cst.BaseExpression) -> bool:
        """A constant, reduced so that all wait for each other."""
        if isinstance(value, (cst.List, cst.Tuple, cst.BaseNumber)):
            return True
        values = self.resolver.values(value)
        return bool(values) and all(isinstance(v, Literal) or calls(v) in _CONSTANTS for v in values)

    def tapes(self, site: PortCall) -> set[cst.Call]:
        """The calls of tapes whose gradients the reduction is given."""
        return {c for arg in site.call.args[:1] for g in self.training.flow.sources(arg.value) for c in g.tape_calls}

    def _is_passed_by(self, site: PortCall) -> bool:
        tapes = self.tapes(site)
        updates = [u for u in self.training.updates if any(tapes.intersection(g.tape_calls) for g in u.gradients)]
        return bool(updates) and all(
            any(tapes.intersection(g.tape_calls) for g in self.unreduced(update)) for update in updates
        )

    # -- twice ---------------------------------------------------------------------------------------------------

    @cached_property
    def doubled(self) -> list[cst.Call]:
        """The calls that reduce gradients which are reduced once more, or wrap what is wrapped already."""
        found: dict[cst.Call, None] = {}
        for update in self.training.updates:
            # What scales them is none of them, whatever that is made of.
            gradients = [g for g in update.gradients if g.tape_calls] or update.gradients
            every = [g for g in gradients if not self._is_among_some(g)]
            if every and len(every) == len(gradients) and all(g.is_reduced for g in every):
                if self.is_wrapped(update):
                    found.setdefault(every[0].reduced_by[0])
                found.update(dict.fromkeys(g.reduced_by[0] for g in every if len(set(g.reduced_by)) > 1))
        for site in self.ports.of(Role.OPTIMIZER, Role.TAPE):
            if not self.ports.is_own(site) and site.call.args and self._wraps_wrapped(site):
                found.setdefault(site.call)
        return list(found)

    def _is_among_some(self, gradients: Gradients) -> bool:
        """Whether one of the reductions is over some of the processes only."""
        return any(argument(call, "process_set") is not None for call in gradients.reduced_by)

    def _wraps_wrapped(self, site: PortCall) -> bool:
        values = self.resolver.values(site.call.args[0].value)
        is_wrapped = self.kinds.is_distributed_tape if site.role is Role.TAPE else self.kinds.is_distributed_optimizer
        return bool(values) and all(is_wrapped(v) for v in values)
