"""Where of a value only the size matters: whether it is settled by how many were put in, or by a number."""

from __future__ import annotations

import libcst as cst

from migrator.facts.dependence.graph import Way
from migrator.facts.dependence.names import Names
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Result
from migrator.facts.program.syntax import dotted, part_at
from migrator.facts.program.tree import Binding, Tree

SIZES = frozenset({"shape", "size"})
RANKS = frozenset({"ndims", "rank"})  # of a shape
# They make containers that begin empty; a `defaultdict` also with what it is given.
_DEFAULTING = External("collections.defaultdict")
_COLLECTIONS = (
    *(External(f"builtins.{name}") for name in ("list", "dict", "set")),
    External("collections.deque"), _DEFAULTING, External("collections.OrderedDict"), External("collections.Counter"),
)  # fmt: skip
# So do these; they tell by methods how many they hold.
_QUEUES = tuple(External(f"queue.{name}") for name in ("Queue", "LifoQueue", "PriorityQueue", "SimpleQueue"))
_TELLING = frozenset({"qsize", "empty", "full"})
_WRITTEN = (cst.List, cst.Tuple, cst.Dict, cst.Set, cst.Call)
# Of a Keras model, which its `fit` and the like compile.
_STEPS = frozenset({"train_step", "test_step", "predict_step"})


class Sizes:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, names: Names) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.names = names

    def by_size(self, node: cst.BaseExpression) -> Way:
        """How the size of the value depends on it."""
        return Way.SIZE if self._collects(node) else Way.LENGTH

    def tells_number(self, node: cst.Attribute) -> bool:
        """`queue.empty`, of which only how many it holds matters."""
        values = self.resolver.values(node.value) if node.attr.value in _TELLING else ()
        return bool(values) and all(isinstance(v, Result) and self._is_queue(v.call) for v in values)

    def _is_queue(self, call: cst.Call) -> bool:
        return any(made in self.resolver.values(call.func) for made in _QUEUES)

    def repeating(self, iterated: cst.BaseExpression) -> Way:
        """How a comprehension depends on what it goes through: on how many there are, which `range` is given."""
        is_range = isinstance(iterated, cst.Call) and External("builtins.range") in self.resolver.values(iterated.func)
        return Way.USED if is_range else self.by_size(iterated)

    def _collects(self, node: cst.BaseExpression) -> bool:
        """Whether the value is seen to be written out, or to begin empty: what numbers it holds tells not how many."""
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict, cst.Set)):
            return True
        if isinstance(node, cst.Subscript):  # one of several
            return self._collects(node.value)
        if isinstance(node, cst.Call):
            empty = (_DEFAULTING,) if node.args else _COLLECTIONS
            return self._is_queue(node) or any(made in self.resolver.values(node.func) for made in empty)
        bindings: list[Binding] = []
        if isinstance(node, cst.Name):
            bindings = self.names.bindings_of(node)
        elif isinstance(node, cst.Attribute):
            bindings = self.names.bindings_of_attribute(node)
        values = [
            part_at(b.value, b.path) for b in bindings if b.kind in ("assign", "augmented") and b.value is not None
        ]
        written = [value for value in values if isinstance(value, _WRITTEN) and self._collects(value)]
        return bool(bindings) and len(written) == len(bindings)

    def counts_parts(self, call: cst.Call) -> bool:
        """`len(data)` in a model's step: of a tuple, since tensors have no length in the graph that `fit` makes."""
        function = self.tree.function_of(call)
        cls = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if function is None or cls is None or not self.kinds.is_keras_model_class(Class(cls)) or len(call.args) != 1:
            return False
        value = call.args[0].value
        bindings = self.names.bindings_of(value) if isinstance(value, cst.Name) else []
        return function.name.value in _STEPS and bool(bindings) and all(b.kind == "param" for b in bindings)


def is_shape(node: cst.CSTNode) -> bool:
    """`x.shape`, `tf.shape(x)`, `x.get_shape()`, `x.shape.as_list()`"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        asked = node.func.attr.value
        if asked == "get_shape" or (asked == "as_list" and is_shape(node.func.value)):
            return True
    return (isinstance(node, cst.Attribute) and node.attr.value == "shape") or (
        isinstance(node, cst.Call) and dotted(node.func).endswith(".shape")
    )


def is_size_of_another_axis(node: cst.Subscript) -> bool:
    """`x.shape[1]`, of which the number of samples is no part."""
    if not is_shape(node.value) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    index = node.slice[0].slice.value
    return (isinstance(index, cst.Integer) and index.value != "0") or isinstance(index, cst.UnaryOperation)
