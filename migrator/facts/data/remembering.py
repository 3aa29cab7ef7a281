"""Whether what a `map` makes of a sample depends on the samples before it: a draw from a generator, a running mean.

Such a function has to be given all samples, in their order, on every worker. Where TensorFlow runs it for several
samples at a time, it gives one device no fixed result either, and an op that is given no seed has one only where the
script sets a seed for all.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.data.pipeline import Step
from migrator.facts.names import api
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Literal, Member, Object, Result, Value
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Binding, FunctionLike, Tree
from migrator.facts.randomness.draws import GENERATOR_MAKERS, draws

_PARTIAL = "functools.partial"
_DRAWING = ("tensorflow.random.", "tensorflow.image.random_", "keras.random.")
_STATELESS = ("tensorflow.random.stateless_", "tensorflow.random.experimental.", "tensorflow.random.Generator")
_SEEDERS = frozenset({
    "tensorflow.random.set_seed", "keras.utils.set_random_seed", "tensorflow.compat.v1.set_random_seed",
})  # fmt: skip
# Methods that change what they are called on.
CHANGING = api.SETTING_VARIABLES | {
    "append", "extend", "appendleft", "extendleft", "insert", "update", "setdefault", "put", "add", "discard", "remove",
    "pop", "popleft", "popitem", "clear", "sort", "reverse", "rotate", "send", "get_nowait",
}  # fmt: skip


class Remembering:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def is_of(self, step: Step) -> bool:
        """Whether the `map` remembers samples, and surely gets them one after the other."""
        if step.method != "map" or not self._takes_turns(step):
            return False
        given = argument(step.call, "map_func", 0)
        functions = self.run_by(given.value) if given is not None else []
        if any(self._remembers(function, functions) for function in functions):
            return True
        nodes = [step.call, *functions]
        return any(self._carries(call) for call in self.tree.calls if self.tree.is_in(call, nodes))

    def _takes_turns(self, step: Step) -> bool:
        parallel = argument(step.call, "num_parallel_calls", 1)
        if parallel is None or is_none(parallel.value):
            return True
        values = self.resolver.values(parallel.value)
        return bool(values) and all(isinstance(v, Literal) and _is_one(v.node) for v in values)

    @cached_property
    def seeds_everything(self) -> bool:
        """Whether the script sets a seed for all that TensorFlow draws."""
        return any(name in _SEEDERS for call in self.tree.calls for name in self.resolver.public(call.func))

    def run_by(self, given: cst.BaseExpression) -> list[FunctionLike]:
        """The functions of the script that run for each sample, the one that is given first."""
        found = list(dict.fromkeys(functions_in(self.resolver, given)))
        for function in found:
            for call in (call for call in self.tree.calls if self.tree.contains(function, call)):
                for node in (call.func, *(arg.value for arg in call.args)):
                    found += [f for f in functions_in(self.resolver, node) if f not in found]
        return found

    def _remembers(self, function: FunctionLike, functions: list[FunctionLike]) -> bool:
        scope = self.tree.scopes[function]
        if scope.globals or scope.nonlocals:
            return True
        targets = self.tree.targets_in([function])
        changed = [target.value for target in targets if isinstance(target, (cst.Attribute, cst.Subscript))]
        calls = [call for call in self.tree.calls if self.tree.contains(function, call)]
        for call in calls:
            values = self.resolver.values(call.func)
            if any(map(draws, values)) or any(self._draws(call, value) for value in values):
                return True
            if any(v == External("builtins.next") for v in values):
                changed += [arg.value for arg in call.args[:1]]
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in CHANGING:
                changed.append(call.func.value)
        return any(self.tree.contains(function, node) and self._is_kept(node, functions, 0) for node in changed)

    def _carries(self, call: cst.Call) -> bool:
        """Whether it is a `functools.partial` with a generator, a container or an object of the script's, which what it
        is given to may change."""
        if not any(v == External(_PARTIAL) for v in self.resolver.values(call.func)):
            return False
        carried = (value for arg in call.args[1:] for value in self.resolver.values(arg.value))
        return any(
            isinstance(v, Object)
            or (isinstance(v, Result) and origin(v) in GENERATOR_MAKERS)
            or (isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Dict, cst.Set)))
            for v in carried
        )

    def _draws(self, call: cst.Call, value: Value) -> bool:
        if isinstance(value, Member):
            return origin(value).startswith("tensorflow.random.") and "Generator" in origin(value)
        if not isinstance(value, External) or not value.path.startswith(_DRAWING) or value.path.startswith(_STATELESS):
            return False
        return self.seeds_everything or argument(call, "seed") is not None

    def _is_kept(self, node: cst.CSTNode, functions: list[FunctionLike], depth: int) -> bool:
        """Whether what it holds outlives the sample: it is made outside of the functions that run for it."""
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        if not isinstance(node, cst.Name):
            return False
        bindings = self.resolver.reaching(node)
        return not bindings or any(self._is_bound_to_kept(b, functions, depth + 1) for b in bindings)

    def _is_bound_to_kept(self, binding: Binding, functions: list[FunctionLike], depth: int) -> bool:
        home = next((f for f in functions if self.tree.contains(f, binding.node)), None)
        if home is None or depth > len(functions) + 2:
            return True
        if not isinstance(binding.node, cst.Param):
            return binding.value is not None and self._is_kept(binding.value, functions, depth)
        is_method = isinstance(home, cst.FunctionDef) and self.tree.class_of(home) is not None
        names = [param.name.value for param in home.params.params][is_method:]
        if binding.node.name.value not in names:
            return is_method
        place = names.index(binding.node.name.value)
        given = [argument(call, names[place], place) for call in self.resolver.callers(home)]
        own = [a.value for a in given if a is not None and self.tree.is_in(a, functions)]
        return any(self._is_kept(value, functions, depth) for value in own)


def _is_one(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Integer) and node.evaluated_value == 1
