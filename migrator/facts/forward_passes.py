"""Where a model's forward pass works on several samples at a time: each worker has only some of those."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrator.facts import api, operations
from migrator.facts.kinds import Kinds
from migrator.facts.loss_functions import integers
from migrator.facts.losses import Losses
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument, is_none
from migrator.facts.tree import Tree
from migrator.facts.values import Class, External, Function, Object

# Layers that take the axis that they work along first.
_AXIS_FIRST = frozenset(
    f"keras.layers.{name}" for name in ("Softmax", "Concatenate", "UnitNormalization", "LayerNormalization")
)
_FUNCTIONS = {"keras.layers.Lambda": ("function", 0), "keras.layers.Activation": ("activation", 0)}


@dataclass(frozen=True)
class Coupling:
    node: cst.CSTNode
    reason: str


class ForwardPasses:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, losses: Losses) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.losses = losses

    def couplings(self) -> list[Coupling]:
        """The places in models and layers of the script where samples meet each other."""
        found = {c.node: c for c in (*self._of_classes(), *self._of_calls())}
        return list(found.values())

    def _of_classes(self) -> Iterator[Coupling]:
        for node in self.tree.order:
            if isinstance(node, cst.ClassDef) and self.kinds.has_weights(Object(Class(node))):
                for statement in node.body.body:
                    if isinstance(statement, cst.FunctionDef) and statement.name.value in ("call", "__call__"):
                        yield from self._of_function(statement)

    def _of_function(self, function: cst.FunctionDef | cst.Lambda) -> Iterator[Coupling]:
        returned = [function.body] if isinstance(function, cst.Lambda) else self.resolver.returned(function)
        for result in returned:
            yield from self._of_result(result, function.params.params)

    def _of_result(self, node: cst.CSTNode, inputs: Sequence[cst.Param] = ()) -> Iterator[Coupling]:
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                yield from self._of_result(element.value, inputs)
            return
        if isinstance(node, cst.Dict):
            for pair in node.elements:
                yield from self._of_result(pair.value, inputs)
            return
        coupling = self.losses.coupling_in(node, inputs)
        if coupling is not None:
            yield Coupling(*coupling)

    def _of_calls(self) -> Iterator[Coupling]:
        for call in self.tree.calls:
            for value in self.resolver.values(call.func):
                if not isinstance(value, External):
                    continue
                if api.is_model_class(value.path):
                    outputs = argument(call, "outputs", 1)
                    if outputs is not None:
                        yield from self._of_result(outputs.value)
                elif api.is_layer_class(value.path):
                    yield from self._of_layer(value.path, call)

    def _of_layer(self, path: str, call: cst.Call) -> Iterator[Coupling]:
        axis = argument(call, "axis", 0) if path in _AXIS_FIRST else None
        if axis is not None and 0 in (integers(axis.value) or ()):
            yield Coupling(call, "this layer works along the axis of the samples")
        regulariser = argument(call, "activity_regularizer")
        if path.endswith(".ActivityRegularization") or (regulariser is not None and not is_none(regulariser.value)):
            yield Coupling(call, "this layer adds up a penalty over the samples, beside the loss")
        name, position = _FUNCTIONS.get(path, ("activation", None))
        given = argument(call, name, position)
        for value in self.resolver.values(given.value) if given is not None else ():
            if isinstance(value, Function):
                yield from self._of_function(value.node)
            elif isinstance(value, External) and self._relates(value.path):
                yield Coupling(call, f"`{value.path}` works across the samples of a batch")

    @staticmethod
    def _relates(path: str) -> bool:
        along = operations.axis_of(path)
        if along is not None:
            return along.default is None or along.default == 0
        return path.rpartition(".")[2] in ("reduce_mean", "reduce_sum", "mean", "sum", "transpose")
