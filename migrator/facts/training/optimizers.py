"""Where optimizers are made: the places at which they can be made to reduce the gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Member, Object, Result, Value
from migrator.facts.training.sites import Fit, Minimization, Training, Update
from migrator.records import dataclass


@dataclass(frozen=True)
class Made:
    """An optimizer by the call that makes it."""

    call: cst.Call


@dataclass(frozen=True)
class Compiled:
    """The optimizer that models hold which are compiled by these calls."""

    calls: tuple[Fit, ...]


@dataclass(frozen=True)
class Unseen:
    """An optimizer that is made out of sight."""


class Optimizers:
    def __init__(self, resolver: Resolver, kinds: Kinds, training: Training) -> None:
        self.resolver = resolver
        self.kinds = kinds
        self.training = training

    def origins(self, expression: cst.BaseExpression) -> Iterator[Made | Compiled | Unseen]:
        """Where the optimizer that the expression stands for may come from; what is distributed already is left out."""
        values = self.resolver.values(expression)
        for value in values:
            if not self.kinds.is_distributed_optimizer(value):
                yield self._origin(value)
        if not values:
            yield Unseen()

    def _origin(self, value: Value) -> Made | Compiled | Unseen:
        if isinstance(value, (Result, Object)) and value.call is not None and self.kinds.is_optimizer(value):
            return Made(value.call)
        if isinstance(value, Member) and self.kinds.is_optimizer(value):
            compiles = tuple(self.training.compiles_of([value.owner]))
            return Compiled(compiles) if compiles else Unseen()
        return Unseen()

    def will_reduce(self, update: Update) -> bool:
        """Whether the optimizer of the update is going to reduce the gradients, since it minimises elsewhere."""
        func = update.call.func
        if not isinstance(func, cst.Attribute):
            return False
        origins = list(self.origins(func.value))
        return bool(origins) and all(isinstance(o, Made) and o.call in self._minimising for o in origins)

    @property
    def _minimising(self) -> set[cst.Call]:
        return {
            origin.call
            for update in self.training.updates
            if isinstance(update, Minimization)
            for origin in self.origins(update.optimizer)
            if isinstance(origin, Made)
        }
