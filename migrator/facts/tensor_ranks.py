"""How many axes a tensor has at least, as far as the text shows it: products of matrices are for each sample then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import libcst as cst

from migrator.facts import api, operations
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.tree import Binding
from migrator.facts.values import External, Function, Result

_RESHAPES = {"reshape": "shape", "transpose": "perm", "zeros": "shape", "ones": "shape", "placeholder": "shape"}
_KEEPING_LAYERS = ("Dense", "Dropout", "LayerNormalization", "Activation", "BatchNormalization")
_DEEPEST = 25


class TensorRanks:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver
        self._depth = 0

    def of(self, node: cst.CSTNode) -> int:
        """A number of axes that the tensor surely has; 0 where nothing is seen."""
        if self._depth > _DEEPEST:
            return 0
        self._depth += 1
        try:
            return self._of(node)
        finally:
            self._depth -= 1

    def last_size(self, node: cst.CSTNode) -> int | None:
        """The size of the last axis of what a model with a Dense layer at its end gives; None for all else."""
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            single = len(bindings) == 1 and bindings[0].kind == "assign" and not bindings[0].path
            return self.last_size(bindings[0].value) if single and isinstance(bindings[0].value, cst.Call) else None
        if not isinstance(node, cst.Call):
            return None
        found = {self._units(v) for v in self.resolver.values(node.func)}
        return found.pop() if len(found) == 1 else None

    def _units(self, value: object) -> int | None:
        if not isinstance(value, Result) or not isinstance(value.function, External):
            return None
        if value.function.path == "keras.layers.Dense":
            units = argument(value.call, "units", 0)
            return int(units.value.value) if units is not None and isinstance(units.value, cst.Integer) else None
        layers = argument(value.call, "layers", 0) if value.function.path in api.SEQUENTIAL else None
        if layers is None or not isinstance(layers.value, (cst.List, cst.Tuple)) or not layers.value.elements:
            return None
        found = {self._units(v) for v in self.resolver.values(layers.value.elements[-1].value)}
        return found.pop() if len(found) == 1 else None

    def _of(self, node: cst.CSTNode) -> int:
        if isinstance(node, cst.Name):
            return self._least(self._binding(b) for b in self.resolver.reaching(node))
        if isinstance(node, cst.BinaryOperation):
            return max(self.of(node.left), self.of(node.right))
        if isinstance(node, cst.Call):
            return self._least(self._called(f, node) for f in self.resolver.values(node.func))
        return 0

    def _binding(self, binding: Binding) -> int:
        if binding.kind == "assign" and binding.value is not None:
            value = binding.value
            for index in binding.path:
                if not isinstance(value, (cst.Tuple, cst.List)) or index >= len(value.elements):
                    return 0
                value = value.elements[index].value
            return self.of(value)
        if binding.kind == "param":
            return self._least(self.of(a) for a in self.resolver.given(cast(cst.Param, binding.node)))
        return 0

    @staticmethod
    def _least(ranks: Iterable[int]) -> int:
        return min(ranks, default=0)

    def _called(self, function: object, call: cst.Call) -> int:
        first = call.args[0].value if call.args else None
        if isinstance(function, Function):
            returned = (
                [function.node.body] if isinstance(function.node, cst.Lambda) else self.resolver.returned(function.node)
            )
            return self._least(self.of(r) for r in returned)
        if isinstance(function, External):
            return self._of_outside(function.path, call)
        if isinstance(function, Result) and isinstance(function.function, External) and first is not None:
            name = function.function.path.rpartition(".")[2]
            if name in _KEEPING_LAYERS:
                return self.of(first)
            return (
                4 if name.endswith("2D") and "Global" not in name else self.of(first) + 1 if name == "Embedding" else 0
            )
        return 0

    def _of_outside(self, path: str, call: cst.Call) -> int:
        name = path.rpartition(".")[2]
        if path in ("keras.Input", "keras.layers.Input"):
            shape = argument(call, "shape", 0)
            return _length(shape.value) + 1 if shape is not None else 0
        if name in _RESHAPES:
            shape = argument(call, _RESHAPES[name], 1)
            return _length(shape.value) if shape is not None else 0
        operands = [a.value for a in call.args if a.keyword is None]
        if name == "expand_dims" and operands:
            return self.of(operands[0]) + 1
        if name in ("matmul", "softmax", "dropout", "cast", "identity", "stop_gradient") or operations.keeps_apart(
            path
        ):
            return max((self.of(o) for o in operands), default=0)
        return 0


def _length(shape: cst.BaseExpression) -> int:
    return len(shape.elements) if isinstance(shape, (cst.Tuple, cst.List)) else 0
