"""Weights that are taken while their model is made: each worker's own random ones, before any broadcast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Object
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import WEIGHTS, Trained

_TAKING_METHODS = ("get_weights", "numpy", "read_value")
_ASKING_METHODS = frozenset({"call", "evaluate", "predict", "predict_on_batch", "test_on_batch"})
_TAKING = frozenset({
    "tensorflow.identity", "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.Variable", "numpy.array",
    "numpy.copy", "numpy.asarray", "copy.copy", "copy.deepcopy", "keras.backend.get_value", "keras.ops.copy",
    "keras.ops.convert_to_numpy",
})  # fmt: skip
_TELLING = ("builtins.print", "builtins.len", "logging.", "absl.logging.", "tensorflow.print")
# What they give is alike on all workers.
_PRETRAINED = "keras.applications."


class EarlyReads:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, trained: Trained) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.trained = trained

    def of(self, holder: Holder) -> cst.Call | None:
        """The first call that keeps weights of the object, or of a part of it, in the code that makes it."""
        bodies = self._making(holder.value)
        for call in (call for call in self.tree.calls if self.tree.is_in(call, bodies)):
            of = self._taken_by(call)
            if of is not None and self._keeps(call) and not self._is_named_outside(of, bodies):
                return call
        return None

    def takes(self, call: cst.Call) -> bool:
        """Whether it gives weights that are random, or what a model or layer makes by them."""
        func = call.func
        is_asked = isinstance(func, cst.Attribute) and func.attr.value in _ASKING_METHODS
        asked = func.value if is_asked and isinstance(func, cst.Attribute) else func
        return self._taken_by(call) is not None or self._is_random(asked)

    def _is_named_outside(self, of: cst.BaseExpression, bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether it has its name elsewhere than in the code that makes the object: it has been sent by then."""
        origins = self.trained.of(of)
        return bool(origins) and all(
            isinstance(o, Holder) and not self.tree.is_in(o.statement, bodies) for o in origins
        )

    def _making(self, made: cst.CSTNode) -> list[cst.CSTNode]:
        """What runs where the object is made, with what its layers do once they know the form of their inputs."""
        bodies = self.training.reached_from(made)
        for call in [call for call in self.tree.calls if self.tree.is_in(call, bodies)]:
            for value in self.resolver.values(call):
                build = self.resolver.method(value.of, "build") if isinstance(value, Object) else None
                if build is not None and self.kinds.has_weights(value):
                    bodies += [body for body in self.training.reached_from(build.body) if body not in bodies]
        return bodies

    def _taken_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """The model, layer or variable of which the call gives weights."""
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _TAKING_METHODS:
            if func.attr.value != "get_weights":
                return self._owner(func.value)
            return func.value if not self.resolver.values(func.value) or self._is_random(func.value) else None
        paths = set(self.resolver.public(func))
        given = call.args[0].value if call.args and paths & _TAKING else None
        if given is not None and self._is_random(given):
            return given
        return self._owner(given) if given is not None else None

    def _owner(self, weight: cst.BaseExpression) -> cst.BaseExpression | None:
        """What the weight belongs to, if it is one."""
        if isinstance(weight, cst.Subscript):
            return self._owner(weight.value)
        if isinstance(weight, cst.Attribute) and weight.attr.value in api.WEIGHT_LISTS | WEIGHTS:
            return weight.value if self._is_random(weight.value) else None
        for binding in self.resolver.reaching(weight) if isinstance(weight, cst.Name) else ():
            owner = self._owner(binding.value) if isinstance(binding.value, cst.Attribute) else None
            if binding.kind == "for" and owner is not None:
                return owner
        # Of variables that constructors make, others see to.
        is_variable = any(map(self.kinds.is_variable, self.resolver.values(weight)))
        return weight if is_variable and self._is_in_build(weight) else None

    def _is_in_build(self, node: cst.CSTNode) -> bool:
        function = self.tree.function_of(node)
        return function is not None and function.name.value == "build"

    def _is_random(self, node: cst.BaseExpression) -> bool:
        values = [v for v in self.resolver.values(node) if self.kinds.has_weights(v)]
        return any(not (origin(v).startswith(_PRETRAINED) or origin(v) in api.LOAD_MODEL) for v in values)

    def _keeps(self, call: cst.Call) -> bool:
        """Whether what it takes may be kept otherwise than in other weights that are sent, too, or to be told."""
        around = list(self._around(call))
        if any(isinstance(o, cst.Attribute) and o.attr.value == "shape" for o in around):
            return False
        outer = [o for o in around if isinstance(o, cst.Call)]
        sets = (o.func.attr.value for o in outer if isinstance(o.func, cst.Attribute))
        if any(name == "set_weights" or name in api.SETTING_VARIABLES for name in sets):
            return False
        paths = [v.path for o in outer for v in self.resolver.values(o.func) if isinstance(v, External)]
        return not any(path.startswith(_TELLING) for path in paths) and not self._is_sent_before(call)

    def _around(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        for owner in self.tree.ancestors(call):
            if isinstance(owner, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                return
            yield owner

    def _is_sent_before(self, call: cst.Call) -> bool:
        """Whether the function has sent weights by then."""
        function = self.tree.function_of(call)
        before = (c for c in self.tree.calls if self.tree.order[c] < self.tree.order[call])
        return function is not None and any(
            self.tree.contains(function, c) and _has_role(self.resolver.values(c.func), Role.BROADCAST) for c in before
        )


def _has_role(values: Sequence[object], role: Role) -> bool:
    return any(isinstance(v, External) and vocabulary.has_role(v.path, role) for v in values)
