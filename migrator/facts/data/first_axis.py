"""Batches that have another axis than that of their samples in front, where a batch is cut: pairs, time steps."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Literal, Result
from migrator.facts.program.syntax import argument

_STACKS = frozenset({
    "numpy.stack", "numpy.array", "numpy.asarray", "tensorflow.stack", "tensorflow.convert_to_tensor",
    "tensorflow.constant", "keras.ops.stack", "keras.ops.array", "keras.ops.convert_to_tensor",
})  # fmt: skip
_TRANSPOSES = frozenset({"numpy.transpose", "tensorflow.transpose", "keras.ops.transpose"})
_SWAPS = frozenset({"numpy.swapaxes", "numpy.moveaxis", "keras.ops.swapaxes", "keras.ops.moveaxis"})
_EXPANDS = frozenset({"numpy.expand_dims", "tensorflow.expand_dims", "keras.ops.expand_dims"})
_AXIS = {"numpy.stack": 1, "tensorflow.stack": 1, "keras.ops.stack": 1}


class FirstAxis:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def moved_in(self, node: cst.BaseExpression) -> cst.CSTNode | None:
        """The expression that puts another axis in front, in what a function returns or yields for a batch."""
        for leaf in self._leaves(node):
            if isinstance(leaf, cst.Subscript) and self._adds_axis(leaf):
                return leaf
            for value in self.resolver.values(leaf):
                if isinstance(value, Result) and isinstance(value.function, External) and self._moves(value):
                    return value.call
        return None

    def _leaves(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        if isinstance(node, (cst.Tuple, cst.List)):
            for element in node.elements:
                yield from self._leaves(element.value)
        elif isinstance(node, cst.Dict):
            for pair in node.elements:
                yield from self._leaves(pair.value)
        else:
            yield node

    def _adds_axis(self, node: cst.Subscript) -> bool:
        """`batch[None]`"""
        index = node.slice[0].slice
        if not isinstance(index, cst.Index):
            return False
        if isinstance(index.value, cst.Name) and index.value.value == "None":
            return True
        return any(name.endswith(".newaxis") for name in self.resolver.public(index.value))

    def _moves(self, made: Result) -> bool:
        path, call = made.function.path if isinstance(made.function, External) else "", made.call
        if not call.args:
            return False
        axis = argument(call, "axis", _AXIS.get(path, 1 if path in _EXPANDS else None))
        first = axis is None or _is_zero(axis.value)
        if path in _STACKS:
            return first and self._is_of_several(call.args[0].value)
        if path in _EXPANDS:
            return axis is not None and first
        if path in _SWAPS:
            return any(_is_zero(arg.value) for arg in call.args[1:])
        if path in _TRANSPOSES:
            order = argument(call, "axes", 1) or argument(call, "perm", 1)
            elements = order.value.elements if order and isinstance(order.value, (cst.Tuple, cst.List)) else ()
            return not (elements and _is_zero(elements[0].value))
        return False

    def _is_of_several(self, node: cst.BaseExpression) -> bool:
        """A list that is written out, of more than numbers: `[left, right]`"""
        displays = [v.node for v in self.resolver.values(node) if isinstance(v, Literal)]
        return any(
            isinstance(d, (cst.List, cst.Tuple))
            and bool(d.elements)
            and not any(isinstance(e.value, (cst.BaseNumber, cst.BaseString, cst.UnaryOperation)) for e in d.elements)
            for d in displays
        )


def _is_zero(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Integer) and node.evaluated_value == 0
