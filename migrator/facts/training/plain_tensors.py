"""Programs that keep their weights in plain tensors, in the style of JAX: a tape watches them, and each step gives new
ones. No variable could be sent to the workers, and what replaces the weights may stand anywhere."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.analysis.uncut import Uncut
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Tree
from migrator.facts.training.carried import Carried
from migrator.facts.training.gradients import is_jvp, watched_of
from migrator.facts.training.sites import Training

_JACOBIANS = frozenset({"jacobian", "batch_jacobian"})
# They take what is differentiated and what by, in this order.
_FUNCTIONS = frozenset({
    "tensorflow.gradients", "tensorflow.compat.v1.gradients", "tensorflow_probability.math.value_and_gradient",
})  # fmt: skip


class PlainTensors:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, uncut: Uncut) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.flow = training.flow
        self.uncut = uncut

    @cached_property
    def trained(self) -> list[cst.Call]:
        """The calls that ask for gradients by which watched tensors are replaced, batch for batch; none for an image
        that is changed without data, and none of those that enter a training that is understood."""
        followed = {call for update in self.training.updates for g in update.gradients for call in g.tape_calls}
        taken = [call for call in self.tree.calls if call not in followed and self._takes_gradients(call)]
        return [call for call in taken if self._carried.are_weights(call) and not self._is_within_training(call)]

    def are_variables(self, call: cst.Call) -> bool:
        """Whether what the call takes the gradients of are variables, after all."""
        sources = watched_of(call, self.resolver)
        values = self.resolver.values(sources) if sources is not None else ()
        return bool(values) and all(map(self.training.kinds.is_variable, values))

    def _takes_gradients(self, call: cst.Call) -> bool:
        """Whether it does, of a tape or by a function, along a direction, or takes Jacobians."""
        if self.flow.is_tape_call(call) or is_jvp(call, self.resolver):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _JACOBIANS:
            return any(map(self.training.kinds.is_tape, self.resolver.values(call.func.value)))
        return any(v.path in _FUNCTIONS for v in self.resolver.values(call.func) if isinstance(v, External))

    def _is_within_training(self, call: cst.Call) -> bool:
        """Whether it is an inner loop of what else trains, which begins with weights each time."""
        return self._carried.enters(call, self.training.sites) and self._carried.begins_with_weights(call)

    @cached_property
    def _carried(self) -> Carried:
        return Carried(self.tree, self.resolver, self.training.kinds, self.uncut)
