"""Which models surely have no variables yet where their weights are asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Member, Object, Result, Value, calls
from migrator.facts.program.syntax import argument, has_unpacked_keywords
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import Trained

_SHAPES = frozenset({
    "input_shape", "batch_input_shape", "batch_shape", "input_dim", "input_length", "input_tensor", "weights",
})  # fmt: skip
# Keras 2 builds an Embedding that comes first by itself.
_BUILT_FIRST = re.compile(r"\.(?:Input|InputLayer|Embedding)$")
_BUILDS_NOTHING = api.WEIGHT_LISTS | {"compile", "name", "layers", "losses", "optimizer", "add", "trainable"}
_HOLDS_ONLY = frozenset({"tensorflow.train.Checkpoint", "tensorflow.train.CheckpointManager", "builtins.print"})
_PLAIN = ("keras.initializers.", "keras.regularizers.", "keras.activations.", "keras.constraints.", "builtins.")


class Unbuilt:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, trained: Trained) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.trained = trained

    def at(self, model: cst.BaseExpression, at: cst.Call) -> bool:
        """Whether the model is made without variables, and nothing gives it any between there and the call."""
        holders = self.trained.of(model)
        if len(holders) != 1 or not isinstance(holders[0], Holder):
            return False
        holder = holders[0]
        first, last = self.tree.last_order_in(holder.statement), self.tree.order[at]
        if first > last or not self._run_in_turn(holder.statement, at):
            return False
        uses = [n for n in self._uses(holder.target) if first < self.tree.order[n] < last]
        values = self.resolver.values(holder.value)
        return (
            bool(values)
            and all(self._has_no_variables(v, uses) for v in values)
            and not any(self._may_build(use) for use in uses)
            and not self._is_used_by_calls(holder.target, first, last)
        )

    def _run_in_turn(self, made: cst.CSTNode, at: cst.CSTNode) -> bool:
        """Whether each time the one is run, the other follows, in one function."""
        same = self.tree.function_of(made) is self.tree.function_of(at)
        return same and list(self.tree.loops_around(made)) == list(self.tree.loops_around(at))

    # -- how it is made ------------------------------------------------------------------------------------------

    def _has_no_variables(self, value: Value, uses: list[cst.BaseExpression]) -> bool:
        if isinstance(value, Result) and calls(value) in api.SEQUENTIAL:
            layers = argument(value.call, "layers", 0)
            if layers is None:
                added = next(self._added(uses), None)
                return added is not None and self._starts_unbuilt(added)
            if not isinstance(layers.value, (cst.List, cst.Tuple)) or not layers.value.elements:
                return False
            return self._starts_unbuilt(layers.value.elements[0].value)
        return isinstance(value, Object) and self.kinds.is_model(value) and self._makes_none(value.of)

    def _added(self, uses: list[cst.BaseExpression]) -> Iterator[cst.BaseExpression]:
        """The layers that `model.add(…)` adds, in order."""
        for use in uses:
            attribute = self.tree.parent[use]
            call = self.tree.parent[attribute]
            if isinstance(attribute, cst.Attribute) and attribute.attr.value == "add" and isinstance(call, cst.Call):
                yield from (arg.value for arg in call.args[:1])

    def _starts_unbuilt(self, layer: cst.BaseExpression) -> bool:
        """Whether a model that begins with this layer waits for its first input."""
        values = self.resolver.values(layer)
        return bool(values) and all(self._is_without_shape(v) for v in values)

    def _is_without_shape(self, layer: Value) -> bool:
        if calls(layer) in api.SEQUENTIAL:
            return self._has_no_variables(layer, [])
        if isinstance(layer, Object):
            return self.kinds.has_weights(layer) and self._makes_none(layer.of)
        path = calls(layer)
        if not isinstance(layer, Result) or not api.is_layer_class(path) or _BUILT_FIRST.search(path):
            return False
        keywords = {arg.keyword.value for arg in layer.call.args if arg.keyword is not None}
        return not keywords & _SHAPES and not has_unpacked_keywords(layer.call)

    def _makes_none(self, cls: Class) -> bool:
        """Whether the constructors of a class make layers that wait for their input, and nothing else."""
        inits = [m for c in self.resolver.lineage(cls) if (m := self._own(c, "__init__")) is not None]
        return bool(inits) and all(
            self._makes_no_variable(call)
            for init in inits
            for call in self.tree.calls
            if self.tree.contains(init.body, call)
        )

    def _own(self, cls: Class, name: str) -> cst.FunctionDef | None:
        nodes = (b.node for b in self.tree.scopes[cls.node].bindings.get(name, ()))
        return next((n for n in nodes if isinstance(n, cst.FunctionDef)), None)

    def _makes_no_variable(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Name) and call.func.value == "super":
            return True
        values = self.resolver.values(call.func)
        if any(isinstance(v, Member) and v.name == "__init__" for v in values):
            return not call.args or all(arg.keyword is not None and arg.keyword.value == "name" for arg in call.args)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            return True
        return bool(values) and all(
            (isinstance(v, External) and (v.path.startswith(_PLAIN) or v.path in api.SEQUENTIAL))
            or all(self._is_without_shape(made) for made in self.resolver.values(call))
            for v in values
        )

    # -- what is done with it ------------------------------------------------------------------------------------

    def _uses(self, target: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The places that name the same variable or attribute."""
        if isinstance(target, cst.Name):
            home = self.tree.scope_of(target).lookup(target.value)
            return [
                name
                for name in self.tree.names[target.value]
                if self.tree.scope_of(name).lookup(name.value) is home
                and not (isinstance(self.tree.parent[name], cst.Attribute) and self.tree.parent[name].attr is name)  # type: ignore[attr-defined]
            ]
        if not isinstance(target, cst.Attribute):
            return []
        owners = (self.tree.parent[name] for name in self.tree.names[target.attr.value])
        return [o for o in owners if isinstance(o, cst.Attribute) and o.deep_equals(target)]

    def _may_build(self, use: cst.BaseExpression) -> bool:
        parent = self.tree.parent[use]
        if isinstance(parent, cst.Attribute):
            return parent.attr.value not in _BUILDS_NOTHING
        if isinstance(parent, cst.Arg) and isinstance(call := self.tree.parent[parent], cst.Call):
            return not any(
                (name in _HOLDS_ONLY or vocabulary.meaning(name) is not None)
                for name in self.resolver.public(call.func)
            )
        return True

    def _is_used_by_calls(self, target: cst.BaseExpression, first: int, last: int) -> bool:
        """Whether functions of the script that run in between name it."""
        name = target.attr.value if isinstance(target, cst.Attribute) else cst.ensure_type(target, cst.Name).value
        between = [c for c in self.tree.calls if first < self.tree.order[c] < last]
        running = [c for c in between if any(isinstance(v, Function) for v in self.resolver.values(c.func))]
        return any(
            self.tree.contains(body, use)
            for call in running
            for body in self.training.reached_from(call)[1:]
            for use in self.tree.names[name]
        )
