"""What a tape watches and what is replaced by what is made of its gradients, in whichever form the program carries it
from step to step: a loop, a recursion, `functools.reduce`, `tf.scan`, a generator that is sent batches, attributes.

It is followed through the graph of dependence/: gradients that come to be what the tape watches next are those of
weights, but where it is the input of a model that they move: an image, an adversarial example.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis.uncut import Uncut
from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member
from migrator.facts.program.syntax import is_constant
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.gradients import differentiated, watched_of

_CARRYING = frozenset({Way.WHOLE, Way.USED, Way.INTO})
_COUNTING = frozenset({"builtins.range", "tensorflow.range", "itertools.count"})
# They give none of the samples that a program learns from, or nothing but what they are given.
_EMPTY = (
    "tensorflow.GradientTape", "time.", "math.", "builtins.print", "builtins.range", "builtins.float", "builtins.int",
    "builtins.len", "builtins.bool", "builtins.ord", "builtins.min", "builtins.max", "builtins.abs", "builtins.round",
    "builtins.pow",
)  # fmt: skip
# They make a tensor of a number, or another number.
_HOLDING_ONE = frozenset({
    "numpy.exp", "numpy.log", "numpy.sqrt", "numpy.cos", "numpy.sin", "numpy.tanh", "numpy.clip", "numpy.minimum",
    "numpy.maximum", "numpy.power",
    "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.Variable", "tensorflow.cast", "numpy.array",
    "numpy.asarray", "numpy.float32", "numpy.float64", "keras.ops.convert_to_tensor",
})  # fmt: skip
_STARTS = (
    "tensorflow.random.", "tensorflow.zeros", "tensorflow.ones", "tensorflow.fill", "tensorflow.constant",
    "tensorflow.convert_to_tensor", "tensorflow.Variable", "tensorflow.cast", "keras.initializers.",
    "tensorflow.initializers.", "numpy.random.", "numpy.zeros", "numpy.ones", "numpy.full", "numpy.array",
    "numpy.float32",
)  # fmt: skip
_OF_SAMPLES = f"{api.RUNTIME}.sample_gradients"
_GENERATORS = ("numpy.random.RandomState", "numpy.random.default_rng", "tensorflow.random.Generator", "random.Random")


class Carried:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, uncut: Uncut) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.uncut = uncut

    def are_weights(self, call: cst.Call) -> bool:
        """Whether what the call takes the gradients of is replaced by them, from data, and is no model's input."""
        if self._are_said_to_be_of_samples(call):
            return False
        loss, state = differentiated(call), self._state(call)
        if loss is None or not state:
            return False
        losses = [loss, *self._given_by(loss)]
        read = self._made_of(losses, state, call)
        if not any(map(self._is_data, read)) and not any(
            map(self._is_found, self._made_of(losses, (), call).difference(state))
        ):
            return False
        return not any(self._is_input(args, state, call, read) for args in self._fed_to_models(state))

    def _are_said_to_be_of_samples(self, call: cst.Call) -> bool:
        """Whether the runtime is told that they are, as the tool writes it where the loss is of all rows."""
        argument = self.tree.parent[call]
        told = self.tree.parent[argument] if isinstance(argument, cst.Arg) else None
        return isinstance(told, cst.Call) and External(_OF_SAMPLES) in self.resolver.values(told.func)

    def _given_by(self, loss: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What the functions return that `value_and_gradient` is given in place of a loss."""
        for value in self.resolver.values(loss):
            if isinstance(value, Function):
                yield from self.resolver.returned(value.node)

    @cached_property
    def _dependence(self) -> Dependence:
        found = Dependence(self.tree, self.resolver, self.kinds)
        found.feed_back()
        return found

    def begins_with_weights(self, call: cst.Call) -> bool:
        """Whether what is replaced begins as the weights of a model, or as variables: those of an inner loop do."""
        state = self._state(call)
        return any(self._holds_weights(key) for key in self._started(state, call))

    def _holds_weights(self, key: Key) -> bool:
        values = self.resolver.values(key) if isinstance(key, (cst.Name, cst.Attribute)) else ()
        return any(map(self.kinds.is_variable, values)) or any(
            isinstance(v, Member) and v.name in api.WEIGHT_LISTS for v in values
        )

    def _started(self, state: Collection[Key], call: cst.Call) -> set[Key]:
        """All that the state, before any gradients have changed it, is made of."""
        return self._made_of((k for key in state for k in self._begun_with(key, state)), (), call)

    def _state(self, call: cst.Call) -> set[Key]:
        """All that is made of the gradients and of which they are taken again."""
        sources = watched_of(call, self.resolver)
        if sources is None:
            return set()
        after = self._after(call)
        before, queue = dict[Key, None]({sources: None}), list[Key]([sources])
        for key in queue:
            queue += self._new(before, self._dependence.inputs(key))
        return after.keys() & before.keys()

    def _after(self, call: cst.Call) -> dict[Key, None]:
        """All that is made of the call's gradients."""
        after, queue = dict[Key, None]({call: None}), list[Key]([call])
        for key in queue:
            queue += self._new(after, self._dependence.used_by(key))
        return after

    @staticmethod
    def _new(known: dict[Key, None], found: Iterable[tuple[Key, Way]]) -> list[Key]:
        new = [key for key, way in found if way in _CARRYING and key not in known]
        known.update(dict.fromkeys(new))
        return new

    def _made_of(self, keys: Iterable[Key], state: Collection[Key], call: cst.Call) -> set[Key]:
        """What these are made of besides the state, in any way; not what that has begun with."""
        queue = list(keys)
        seen = set(queue)
        for key in queue:
            inputs = [] if key is call else [k for k, _ in self._dependence.inputs(key)]
            found = inputs if key not in state else [k for k in inputs if k not in self._begun_with(key, state)]
            queue += [k for k in dict.fromkeys(found) if k not in seen]
            seen.update(found)
        return seen.difference(state)

    def _begun_with(self, key: Key, state: Collection[Key]) -> set[Key]:
        """What the state may be before any gradients have changed it, where a name or attribute holds it."""
        if not isinstance(key, (Binding, cst.Name, cst.Attribute)):
            return set()
        return {k for k, _ in self._dependence.inputs(key) if k not in state}

    def _fed_to_models(self, state: Collection[Key]) -> Iterator[list[cst.BaseExpression]]:
        """What the calls of models and layers are given, where the state is among it."""
        for call in self.tree.calls:
            given = [arg.value for arg in call.args]
            if any(node in state for node in given) and any(
                map(self.kinds.has_weights, self.resolver.values(call.func))
            ):
                yield given

    def enters(self, call: cst.Call, others: Iterable[cst.Call]) -> bool:
        """Whether what is made of the call's gradients comes to any of the others."""
        after = self._after(call)
        given = (node for other in others for node in (other, *(arg.value for arg in other.args)))
        return any(node in after for node in given)

    def _is_input(
        self, given: Sequence[cst.BaseExpression], state: Collection[Key], call: cst.Call, read: Collection[Key]
    ) -> bool:
        """Whether the state is an input by itself, or what each of the samples has of its own."""
        if not any(map(self._is_data, self._made_of(given, state, call))):
            return True
        of_start = self._started(state, call)
        return any(isinstance(key, Binding) and key in read and self._is_data_in(key) for key in of_start)

    def _is_data_in(self, binding: Binding) -> bool:
        made = self.resolver.values(binding.value) if isinstance(binding.value, cst.BaseExpression) else ()
        return binding.kind in ("for", "assign", "param") and not any(origin(v).startswith(_GENERATORS) for v in made)

    def _is_data(self, key: Key) -> bool:
        """Whether it may be samples to learn from: all that is not a number, a function or a tape."""
        if isinstance(key, Binding):
            return key.kind == "for" and not self._counts(key)
        if not isinstance(key, cst.Call):
            return False
        values = self.resolver.values(key.func)
        if values and all(isinstance(v, External) and v.path.startswith(_EMPTY) for v in values):
            return False
        if any(map(self.kinds.has_weights, self.resolver.values(key))):
            return False
        is_number = values and all(isinstance(v, External) and v.path in _HOLDING_ONE for v in values)
        return not (is_number and all(self._is_single(arg.value) for arg in key.args))

    def _is_found(self, key: Key) -> bool:
        """Whether it surely is no mere start: cut out of something, or neither drawn nor filled with one number."""
        if isinstance(key, cst.Slice):
            return True
        values = self.resolver.values(key.func) if isinstance(key, cst.Call) else ()
        return self._is_data(key) and not (values and all(origin(v).startswith(_STARTS) for v in values))

    def _is_single(self, node: cst.BaseExpression) -> bool:
        return is_constant(node) or self.uncut.is_number(node)

    def _counts(self, binding: Binding) -> bool:
        iterated = binding.value
        values = self.resolver.values(iterated.func) if isinstance(iterated, cst.Call) else ()
        return bool(values) and all(isinstance(v, External) and v.path in _COUNTING for v in values)
