"""Which expressions are batches that the script cuts out of arrays by itself: `x[i : i + size]`, `x[indices]`.

Only what surely has the samples along its first axis counts, since a batch is split there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import libcst as cst

from migrator.analysis.uncut import Uncut
from migrator.facts.names import api
from migrator.facts.objects.contents import Contents, Part, Parts
from migrator.facts.objects.generators import Generators
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Object
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Binding, Tree
from migrator.records import dataclass

# They give an array of the rows that they are given.
_KEEPING = frozenset({
    "numpy.array", "numpy.asarray", "numpy.ascontiguousarray", "numpy.float32", "numpy.float64", "numpy.int32",
    "numpy.int64", "numpy.stack", "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.cast",
    "tensorflow.identity", "tensorflow.one_hot", "tensorflow.stack", "keras.utils.to_categorical", "builtins.list",
    "keras.ops.convert_to_tensor", "keras.ops.cast", "keras.ops.one_hot",
})  # fmt: skip
_KEEPING_METHODS = frozenset({"astype", "copy", "numpy", "toarray", "todense", "to_numpy"})
_SPLITS = frozenset({"numpy.array_split", "numpy.split"})
_TAKES = frozenset({"numpy.take", "tensorflow.gather"})
_MOST_PARTS = 8


@dataclass(frozen=True)
class Rows:
    """Rows of an array: the array, and what chooses the rows, both as the script writes them."""

    array: str
    chosen: str


class RowFinder:
    def __init__(self, tree: Tree, resolver: Resolver, uncut: Uncut) -> None:
        self.tree = tree
        self.resolver = resolver
        self.generators = Generators(tree, resolver)
        self.contents = Contents(tree, resolver)
        self.uncut = uncut
        self._busy: set[cst.CSTNode] = set()

    def of(self, node: cst.CSTNode, path: tuple[int, ...] = ()) -> Rows | None:
        """The rows that the expression, or its part at that path, surely is; None where that is not certain."""
        if node in self._busy:
            return None
        self._busy.add(node)
        try:
            return self._of(node, path)
        finally:
            self._busy.discard(node)

    def several(self, node: cst.BaseExpression) -> list[Rows]:
        """The rows that the expression is, or that are in the tuple that it is."""
        rows = self.of(node)
        return [rows] if rows is not None else self.parts(node)

    def _of(self, node: cst.CSTNode, path: tuple[int, ...]) -> Rows | None:
        if isinstance(node, cst.Name):
            return self._bound(self.resolver.reaching(node), path)
        if isinstance(node, cst.Call):
            return self._called(node, path)
        if isinstance(node, cst.Subscript) and (methods := self._item_methods(node)):
            return _if_all(self.of(r, path) for method in methods for r in self.resolver.returned(method))
        if path:
            inside = isinstance(node, (cst.Tuple, cst.List)) and -len(node.elements) <= path[0] < len(node.elements)
            return self.of(cast(cst.Tuple, node).elements[path[0]].value, path[1:]) if inside else None
        if isinstance(node, cst.Attribute):
            return self._bound(self.resolver.bindings_of(node), path)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self.of(node.for_in.iter) if node.for_in.inner_for_in is None and not node.for_in.ifs else None
        if isinstance(node, cst.BinaryOperation):
            return self._arithmetic(node)
        return None

    def _bound(self, bindings: Iterable[Binding], path: tuple[int, ...]) -> Rows | None:
        return _if_all(self._binding(b, path) for b in bindings)

    def _binding(self, binding: Binding, path: tuple[int, ...]) -> Rows | None:
        if binding.kind == "assign" and binding.value is not None:
            return self.of(binding.value, (*binding.path, *path))
        if binding.kind == "param":
            return _if_all(self.of(a, path) for a in self.resolver.given(cast(cst.Param, binding.node)))
        if binding.kind == "for" and isinstance(binding.value, cst.Call):
            return self.dealt_out(binding.value, (*binding.path, *path))
        return None

    # -- choosing rows -------------------------------------------------------------------------------------------

    def _subscript(self, node: cst.Subscript) -> Rows | None:
        first = node.slice[0].slice
        if isinstance(first, cst.Slice):
            if first.lower is None and first.upper is None:
                return self.of(node.value) if first.step is None else None
            return Rows(self._text(node.value), self._text(first))
        index = cst.ensure_type(first, cst.Index).value
        if isinstance(index, cst.Integer):
            return self.of(node.value, (int(index.value),))
        if isinstance(index, cst.Ellipsis):
            return self.of(node.value)
        return Rows(self._text(node.value), self._text(index)) if self.are_indices(index) else None

    def _item_methods(self, node: cst.Subscript) -> list[cst.FunctionDef]:
        """The `__getitem__` of the script's that an index calls; empty where it may be anything else."""
        values = self.resolver.values(node.value)
        found = [self.resolver.method(v.of, "__getitem__") if isinstance(v, Object) else None for v in values]
        methods = [method for method in found if method is not None]
        return methods if len(methods) == len(found) else []

    def are_indices(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is surely several indices, and no single one."""
        return self.of(node) is not None or self.uncut.are_several(node) or self.uncut.is_part(node)

    def dealt_out(self, iterated: cst.Call, path: tuple[int, ...]) -> Rows | None:
        """What a loop gets from `np.array_split(x, 10)`, `zip` and `enumerate` of such."""
        names = set(self.resolver.public(iterated.func))
        args = [a.value for a in iterated.args if a.keyword is None]
        if names & _SPLITS and len(args) > 1 and not path:
            axis = argument(iterated, "axis", 2)
            return Rows(self._text(args[0]), self._text(args[1])) if axis is None else None
        if "builtins.zip" in names and path and 0 <= path[0] < len(args):
            part = args[path[0]]
            return self.dealt_out(part, path[1:]) if isinstance(part, cst.Call) else None
        if "builtins.enumerate" in names and path[:1] == (1,) and args and isinstance(args[0], cst.Call):
            return self.dealt_out(args[0], path[1:])
        return None

    # -- keeping rows --------------------------------------------------------------------------------------------

    def _called(self, call: cst.Call, path: tuple[int, ...]) -> Rows | None:
        functions = self.resolver.values(call.func)
        own = [f.node for f in functions if isinstance(f, Function) and isinstance(f.node, cst.FunctionDef)]
        if own and len(own) == len(functions):
            return _if_all(self.of(r, path) for f in own for r in self.resolver.returned(f))
        first = call.args[0].value if call.args else None
        names = {v.path for v in functions if isinstance(v, External)}
        if names == {"builtins.next"} and first is not None:
            return _if_all(self.of(y, path) for y in self._yielded(first)) if path else None
        if names:
            if first is None or path or not self._keeps(call, names):
                return None
            if names <= _TAKES and len(call.args) > 1 and self.are_indices(call.args[1].value):
                return Rows(self._text(first), self._text(call.args[1].value))
            return self.of(first) if names <= _KEEPING else None
        if isinstance(call.func, cst.Attribute) and not path:
            name = call.func.attr.value
            if name in _KEEPING_METHODS or (name == "reshape" and self._opens_first_axis(call)):
                return self.of(call.func.value)
        return None

    def parts(self, node: cst.BaseExpression) -> list[Rows]:
        """The rows in the tuple that `next` gives of a generator, or that a list holds which the script fills; empty
        where they are not all seen."""
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)) or self._makes_dictionary(node):
            return self._displayed(node)
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
            if isinstance(value, (cst.Call, cst.Tuple, cst.Dict)) and not bindings[0].path:
                return self.parts(value)
        if not isinstance(node, cst.Call) or External("builtins.next") not in self.resolver.values(node.func):
            return self._held(node) if isinstance(node, (cst.Name, cst.Subscript)) else []
        yielded = list(self._yielded(node.args[0].value)) if node.args else []
        lengths = {len(y.elements) if isinstance(y, (cst.Tuple, cst.List)) else 0 for y in yielded}
        found = [self.of(node, (i,)) for i in range(lengths.pop() if len(lengths) == 1 else 0)]
        return [rows for rows in found if rows is not None] if all(found) else []

    def _makes_dictionary(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Call) and self.resolver.public_alone(node.func) == ["builtins.dict"]

    def _displayed(self, node: cst.BaseExpression) -> list[Rows]:
        """`{"a": x[i : i + n], "b": y[i : i + n]}`, `dict(…)` of such, and what the script puts in later."""
        each = [
            self.several(part.node) if isinstance(part.node, cst.BaseExpression) and not part.path else []
            for part in self.contents.held(node)
        ]
        return [rows for found in each for rows in found] if all(each) and not _unpacks(node) else []

    def _held(self, node: cst.BaseExpression) -> list[Rows]:
        """`batches[i]`, and the `batch` of a loop over `batches`, of `[(x[i : i + n], y[i : i + n]) for i in …]`."""
        found: list[Rows] = []
        while len(found) < _MOST_PARTS:
            ends = self.contents.ends(Parts([Part(node, (len(found),))]))
            if ends is not None and not ends:
                break
            rows = _if_all(map(self.of, ends or ()))
            if rows is None:
                return []
            found.append(rows)
        return found

    def _yielded(self, generator: cst.BaseExpression) -> Iterator[cst.CSTNode]:
        for function in self.generators.of(generator):
            for each in self.tree.yields.get(function, ()):
                yield each.value if isinstance(each.value, cst.BaseExpression) else each

    @staticmethod
    def _keeps(call: cst.Call, names: set[str]) -> bool:
        axis = argument(call, "axis")
        if argument(call, "batch_dims") is not None:  # it picks of each row
            return False
        first_axis = axis is None or (isinstance(axis.value, cst.Integer) and axis.value.value == "0")
        if any(n.endswith("one_hot") for n in names):
            return axis is None
        return first_axis

    @staticmethod
    def _opens_first_axis(call: cst.Call) -> bool:
        """`x.reshape(-1, 28, 28, 1)`: the number of rows follows from the rest."""
        shape = call.args[0].value if call.args else None
        if isinstance(shape, (cst.Tuple, cst.List)) and shape.elements:
            shape = shape.elements[0].value
        return isinstance(shape, cst.UnaryOperation) and isinstance(shape.expression, cst.Integer)

    def _arithmetic(self, node: cst.BinaryOperation) -> Rows | None:
        """`x[a:b] / 255.0`, `x + rng.normal(size=x.shape)`"""
        left, right = (self.of(side) or self._shaped_like(side) for side in (node.left, node.right))
        if left is not None and right is not None:
            return left
        rows, other = (node.left, node.right) if left is not None else (node.right, node.left)
        return (left or right) if self.uncut.has_fewer_axes(other, rows) else None

    def _shaped_like(self, node: cst.BaseExpression) -> Rows | None:
        """The rows of which a library's function is given the whole shape, to draw or to fill as many."""
        if isinstance(node, cst.BinaryOperation):  # `0.1 * rng.normal(size=x.shape)`
            left, right = node.left, node.right
            one, other = (right, left) if self.uncut.is_number(left) else (left, right)
            return self._shaped_like(one) if self.uncut.is_number(other) else None
        if not isinstance(node, cst.Call):
            return None
        functions = self.resolver.values(node.func)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING_METHODS:
            return self._shaped_like(node.func.value)
        if node.args and {v.path for v in functions if isinstance(v, External)} & _KEEPING:
            return self._shaped_like(node.args[0].value)
        if not functions or not all(isinstance(f, (External, Member)) for f in functions) or self.uncut.is_number(node):
            return None
        shaped = (shape for arg in node.args if (shape := self._shape_of(arg.value)) is not None)
        return next(filter(None, map(self.of, shaped)), None)

    def _shape_of(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The x of `x.shape`, `tf.shape(x)`."""
        if isinstance(node, cst.Attribute) and node.attr.value == "shape":
            return node.value
        if not isinstance(node, cst.Call) or not node.args:
            return None
        is_asked = any(name in api.SHAPES for name in self.resolver.public(node.func))
        return node.args[0].value if is_asked else None

    def _text(self, node: cst.CSTNode) -> str:
        return self.tree.modules[0].code_for_node(node)


def _unpacks(node: cst.BaseExpression) -> bool:
    """`(x, *rest)`, `{**batch}`"""
    starred = (cst.StarredElement, cst.StarredDictElement)
    return isinstance(node, (cst.Tuple, cst.List, cst.Dict)) and any(isinstance(e, starred) for e in node.elements)


def _if_all(found: Iterator[Rows | None]) -> Rows | None:
    """The first of them where all are rows."""
    every = list(found)
    return every[0] if every and all(rows is not None for rows in every) else None
