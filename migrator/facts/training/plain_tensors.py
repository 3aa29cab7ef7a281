"""Programs that keep their weights in plain tensors, in the style of JAX: a tape watches them, and each step gives new
ones. No variable could be sent to the workers, and what replaces the weights may stand anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Binding, Tree, semantic_children
from migrator.facts.training.carried import Carried
from migrator.facts.training.gradients import GradientFlow, is_jvp, watched_of
from migrator.facts.training.sites import Training

_JACOBIANS = frozenset({"jacobian", "batch_jacobian"})
# They take what is differentiated and what by, in this order.
_FUNCTIONS = frozenset({
    "tensorflow.gradients", "tensorflow.compat.v1.gradients", "tensorflow_probability.math.value_and_gradient",
})  # fmt: skip
_COUNTING = frozenset({"builtins.range", "tensorflow.range", "itertools.count"})


class PlainTensors:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, flow: GradientFlow) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.flow = flow

    @cached_property
    def trained(self) -> list[cst.Call]:
        """The calls that ask for gradients by which watched tensors are replaced, batch for batch; none for an image
        that is changed without data, and none of those that enter a training that is understood."""
        followed = {call for update in self.training.updates for g in update.gradients for call in g.tape_calls}
        taken = [call for call in self.tree.calls if call not in followed and self._takes_gradients(call)]
        if self.training.sites:
            return [call for call in taken if self._trains_beside(call)]
        return [call for call in taken if self._is_step(call) or self._carried.are_weights(call)]

    def _takes_gradients(self, call: cst.Call) -> bool:
        """Whether it does, of a tape or by a function, along a direction, or takes Jacobians."""
        if self.flow.is_tape_call(call) or is_jvp(call, self.resolver):
            return True
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _JACOBIANS:
            return any(map(self.training.kinds.is_tape, self.resolver.values(call.func.value)))
        return any(v.path in _FUNCTIONS for v in self.resolver.values(call.func) if isinstance(v, External))

    def _trains_beside(self, call: cst.Call) -> bool:
        """Whether it does so for itself, where other things train, too: no inner loop of theirs, which begins with
        weights each time."""
        if not self._carried.are_weights(call):
            return False
        return not self._carried.enters(call, self.training.sites) or not self._carried.begins_with_weights(call)

    @cached_property
    def _carried(self) -> Carried:
        return Carried(self.tree, self.resolver, self.training.kinds)

    def _is_step(self, call: cst.Call) -> bool:
        sources = watched_of(call, self.resolver)
        if sources is None:
            return False
        return any(self._is_replaced(name, call, set()) for name in self._roots(sources))

    def _roots(self, node: cst.BaseExpression) -> Iterator[cst.Name]:
        """The names that the expression is made of; of `params["w"]` the first."""
        yield from (name for name in self.tree.names_in(node) if self.tree.is_read(name))

    def _is_replaced(self, name: cst.Name, step: cst.Call, passed: set[cst.CSTNode]) -> bool:
        """Whether a loop over batches around the step, or around a call of its function, binds the name anew."""
        scope = self.tree.scope_of(name).lookup(name.value)
        bindings = scope.bindings[name.value] if scope is not None else []
        loops = list(self.tree.loops_around(step))
        within = loops[-1].body if any(map(self._goes_over_data, loops)) else None
        anew = [b for b in bindings if b.kind == "assign" and within is not None and self.tree.contains(within, b.node)]
        if anew:
            return not any(self._is_of_batch(binding, loop) for binding in anew for loop in loops)
        for binding in bindings:
            if isinstance(binding.node, cst.Param) and binding.node not in passed:
                passed.add(binding.node)
                if self._is_given_back(binding.node, passed):
                    return True
        return False

    def _is_of_batch(self, binding: Binding, loop: cst.For | cst.While) -> bool:
        """Whether the loop begins it with its batch: an adversarial example, and no weight."""
        if not isinstance(loop, cst.For) or binding.value is None:
            return False
        read = {name.value for name in self.tree.names_in(binding.value)}
        return binding.name not in read and not read.isdisjoint(name.value for name in self.tree.names_in(loop.target))

    def _is_given_back(self, param: cst.Param, passed: set[cst.CSTNode]) -> bool:
        """Whether what a function is given comes out of its calls anew."""
        for given in self.resolver.given(param):
            call = next((c for c in self.tree.ancestors(given) if isinstance(c, cst.Call)), None)
            if call is not None and any(self._is_replaced(name, call, passed) for name in self._roots(given)):
                return True
        return False

    def _goes_over_data(self, loop: cst.For | cst.While) -> bool:
        """Whether the loop takes batches out of what it goes over, or cuts them out of something."""
        if isinstance(loop, cst.For):
            iterated = loop.iter
            values = self.resolver.values(iterated.func) if isinstance(iterated, cst.Call) else ()
            if not any(isinstance(value, External) and value.path in _COUNTING for value in values):
                return True
        return any(isinstance(node, cst.Slice) for node in self._within(loop.body))

    def _within(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for child in semantic_children(node):
            yield child
            yield from self._within(child)
