"""Programs that change variables in a loop by rules of their own, from data, and by no gradient that is seen.

Expectation maximisation, Hebbian learning, evolution strategies and recursive least squares do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Element, External, Function, Member, Parameter, Unknown, Value
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_CHANGING = api.SETTING_VARIABLES | {"set_weights"}
# They run what they are given once for each of several; of optimizers of other libraries see unsupported.py.
_REPEATING = ("functools.", "itertools.", "builtins.", "tensorflow.")
_COMPUTING = ("tensorflow.", "numpy.", "builtins.", "math.", "keras.ops.", "keras.backend.")
# Of these, what brings data or chance.
_BRINGING = re.compile(
    r"^(?:tensorflow\.(?:data|io|random|compat|keras|Variable)\b|numpy\.(?:random\.|load|genfromtxt|fromfile|memmap)"
    r"|keras\.backend\.random|builtins\.(?:open|input|next|eval))"
)
_GIVING_VALUES = frozenset({"numpy", "value", "read_value"})
_OF_LAYERS = frozenset({"kernel", "bias", "gamma", "beta", "embeddings"})


class ByHand:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self._origins = Origins(resolver)

    @cached_property
    def changes(self) -> list[cst.Call]:
        """The calls that change variables in such a program, the first of each function; none where anything trains
        that is understood."""
        found: dict[cst.FunctionDef | None, cst.Call] = {}
        for call in () if self.training.sites else self._changes():
            found.setdefault(self.tree.function_of(call), call)
        return list(found.values())

    def _changes(self) -> Iterator[cst.Call]:
        for call, func in self.training.methods(*_CHANGING):
            if (
                call.args
                and self._is_changed(func)
                and not self._is_of_keras(call)
                and self._is_repeated(call, set())
                and not self._is_of_weights_alone(call)
            ):
                yield call

    def _is_changed(self, func: cst.Attribute) -> bool:
        """Whether the method is one of a variable, or of a model's weights."""
        owner = func.value
        if isinstance(owner, cst.Attribute) and owner.attr.value in _OF_LAYERS:
            return self._may_be(owner.value, self.kinds.has_weights)
        if self.training.is_input(owner):
            return False  # an image, not a model
        return self._may_be(
            owner, self.kinds.has_weights if func.attr.value == "set_weights" else self.kinds.is_variable
        )

    def _may_be(self, node: cst.BaseExpression, kind: Callable[[Value], bool]) -> bool:
        """What is not seen may be a weight: an element of a model's list, what a function is handed."""
        values = self.resolver.values(node)
        return not values or any(isinstance(v, (Element, Member, Parameter, Unknown)) or kind(v) for v in values)

    def _is_of_weights_alone(self, call: cst.Call) -> bool:
        """Whether no data and no chance come into it: weights that are pruned, scaled, averaged."""
        parts = self._origins.behind_all([arg.value for arg in call.args], self._are_weights)
        return all(self._is_of_weights(part) for part in parts)

    def _is_of_weights(self, part: cst.CSTNode) -> bool:
        """Whether it brings nothing but weights and numbers that are written out: no parameter that is not seen, no
        call but of what computes."""
        if self._are_weights(part):
            return True
        if isinstance(part, cst.Name):
            params = [b.node for b in self.resolver.reaching(part) if isinstance(b.node, cst.Param)]
            return all(self.resolver.given(param) for param in params)
        if not isinstance(part, cst.Call):
            return True
        paths = self.resolver.public(part.func)
        return bool(paths) and all(p.startswith(_COMPUTING) and not _BRINGING.match(p) for p in paths)

    def _are_weights(self, part: cst.CSTNode) -> bool:
        """Whether it gives weights, or tells how many of something there are."""
        if isinstance(part, cst.Call) and isinstance(part.func, cst.Attribute):
            asked = part.func.attr.value
            return asked == "get_weights" or (asked in _GIVING_VALUES and self._are_weights_of(part.func.value))
        if isinstance(part, cst.Call):
            return self.resolver.public_alone(part.func) == ["builtins.len"]
        return isinstance(part, (cst.Name, cst.Attribute)) and self._are_weights_of(part)

    def _are_weights_of(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Attribute) and node.attr.value in api.WEIGHT_LISTS | _OF_LAYERS:
            return True
        values = self.resolver.values(node)
        return bool(values) and all(self.kinds.has_weights(v) or self.kinds.is_variable(v) for v in values)

    def _is_of_keras(self, call: cst.Call) -> bool:
        """Whether a layer, metric or callback of the script's own counts something there."""
        function = self.tree.function_of(call)
        cls = self.tree.class_of(function) if function is not None else None
        return cls is not None and self.resolver.derives_from(Class(cls), lambda path: path.startswith("keras."))

    def _is_repeated(self, node: cst.CSTNode, passed: set[cst.FunctionDef]) -> bool:
        """Whether the node runs in a loop, also through the functions that call it."""
        if any(True for _ in self.tree.loops_around(node)):
            return True
        function = self.tree.function_of(node)
        if function is None or function in passed:
            return False
        callers = self.resolver.callers(function)
        return any(self._is_repeated(call, passed | {function}) for call in callers) or self._is_handed_on(function)

    def _is_handed_on(self, function: cst.FunctionDef) -> bool:
        """Whether a call gets it, that may run it many times: `functools.reduce(step, batches, weights)`."""
        return any(
            isinstance(value, Function) and value.node is function
            for call in self.tree.calls
            if any(isinstance(v, External) and v.path.startswith(_REPEATING) for v in self.resolver.values(call.func))
            for arg in call.args
            if isinstance(arg.value, (cst.Name, cst.Attribute, cst.Lambda))
            for value in self.resolver.values(arg.value)
        )
