"""Which models have their variables as soon as they are made, and which get them with their first batch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Object, Result, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Statement, Tree
from migrator.facts.training.sites import Training, is_super

_INPUTS = frozenset({"keras.Input", "keras.layers.Input", "keras.layers.InputLayer"})
_INPUT_SHAPES = ("input_shape", "batch_input_shape", "batch_shape", "input_dim")


class Built:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    def when_made(self, value: Value) -> bool:
        """Whether the model, layer or module has all its variables where it is made; False where that is not seen."""
        if isinstance(value, Object):
            return self._object(value)
        if not isinstance(value, Result):
            return False
        path = calls(value)
        if path in api.SEQUENTIAL:
            return self._sequential(value)
        if path in api.COPIES:
            return bool(value.call.args) and self._all(value.call.args[0].value)
        if path in api.MODEL_CLASSES:
            return bool(value.call.args)  # of its inputs and outputs
        return api.makes_model(path)

    def by_hand(self, target: cst.BaseExpression, made: cst.CSTNode, until: cst.CSTNode) -> bool:
        """Whether the script builds or calls what the target names between the two statements, the last included."""
        first, last = self.tree.order[made], self.tree.last_order_in(until)
        return any(first < self.tree.order[call] <= last for call in self._building(target, made))

    def later(self, target: cst.BaseExpression, made: cst.CSTNode, training: Training) -> Statement | None:
        """The first statement after the given one, in its block and before any training, that builds the target."""
        statement = self.tree.statement_of(made)
        block = list(getattr(self.tree.block_of(statement), "body", ()))
        calls = list(self._building(target, made))
        sites = [*(f.call for f in training.fits), *(u.call for u in training.updates)]
        for following in block[block.index(statement) + 1 :]:
            if isinstance(following, (cst.FunctionDef, cst.ClassDef)):
                continue
            if isinstance(following, cst.SimpleStatementLine) and any(self.tree.contains(following, c) for c in calls):
                return following
            bodies = training.reached_from(following)
            if any(self.tree.contains(body, site) for body in bodies for site in sites):
                return None
        return None

    def _building(self, target: cst.BaseExpression, made: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls of the target, and of its `build`, in the function where it is made."""
        function = self.tree.function_of(made)
        for call in self.tree.calls:
            func = call.func
            owner = func.value if isinstance(func, cst.Attribute) and func.attr.value == "build" else func
            if owner.deep_equals(target) and self.tree.function_of(call) is function:
                yield call

    def _all(self, node: cst.CSTNode) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(self.when_made(v) for v in values)

    # -- Sequential ----------------------------------------------------------------------------------------------

    def _sequential(self, value: Result) -> bool:
        first = next(self._layers(value), None)
        return first is not None and self._gives_shape(first)

    def _layers(self, value: Result) -> Iterator[cst.BaseExpression]:
        """What the model is made of: the listed layers, then the added ones."""
        listed = argument(value.call, "layers", 0)
        if listed is not None and isinstance(listed.value, (cst.List, cst.Tuple)):
            yield from (element.value for element in listed.value.elements)
        for call in self.tree.calls:
            func = call.func
            if (
                isinstance(func, cst.Attribute)
                and func.attr.value == "add"
                and call.args
                and value in self.resolver.values(func.value)
            ):
                yield call.args[0].value

    def _gives_shape(self, layer: cst.BaseExpression) -> bool:
        for value in self.resolver.values(layer):
            if calls(value) in _INPUTS or self.when_made(value):
                return True
            if isinstance(value, Result) and any(argument(value.call, name) is not None for name in _INPUT_SHAPES):
                return True
        return False

    # -- classes of the script -----------------------------------------------------------------------------------

    def _object(self, value: Object) -> bool:
        if self.kinds.is_model(value):
            return any(map(self._is_functional, self.resolver.lineage(value.of)))
        return self.kinds.is_plain_module(value) and not any(map(self._makes_layers, self.resolver.lineage(value.of)))

    def _is_functional(self, cls: Class) -> bool:
        """`super().__init__(inputs, outputs)`"""
        return any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "__init__"
            and is_super(call.func.value)
            and (argument(call, "outputs", 1) is not None)
            for call in self.tree.calls
            if self.tree.contains(cls.node, call)
        )

    def _makes_layers(self, cls: Class) -> bool:
        return any(
            self.kinds.has_weights(value)
            for call in self.tree.calls
            if self.tree.contains(cls.node, call)
            for value in self.resolver.values(call)
        )
