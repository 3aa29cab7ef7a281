"""Which expressions surely have no rows of a batch: a number that all rows were reduced to, and arrays of such numbers.

A loop may make them anew in each turn, of the batch (`(labels - labels.mean()) / labels.std()`) or of the losses of
earlier steps (`weights = ratios / ratios.sum()`). They stay whole beside a worker's rows.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrator.facts.objects.contents import Contents, Part, Parts
from migrator.facts.objects.numbers import Numbers
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.syntax import is_none, part_at
from migrator.facts.program.tree import Binding, Tree

_REDUCING = frozenset({"mean", "sum", "std", "var", "max", "min", "median", "amax", "amin"})
_REDUCING_OF_TENSORFLOW = frozenset(
    f"tensorflow.{module}reduce_{name}"
    for module in ("", "math.")
    for name in ("mean", "sum", "max", "min", "std", "variance", "logsumexp")
)
# They give what has the form of what they are given.
_ALIKE = frozenset({
    "numpy.array", "numpy.asarray", "numpy.exp", "numpy.log", "numpy.sqrt", "numpy.abs", "numpy.square", "numpy.clip",
    "numpy.maximum", "numpy.minimum", "numpy.float32", "numpy.float64", "numpy.copy", "builtins.list", "builtins.tuple",
    "builtins.abs", "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.cast", "tensorflow.identity",
    "tensorflow.stop_gradient", "tensorflow.exp", "tensorflow.sqrt", "tensorflow.abs", "tensorflow.square",
    "tensorflow.maximum", "tensorflow.minimum", "tensorflow.clip_by_value", "tensorflow.math.exp",
    "tensorflow.math.log", "numpy.tanh", "tensorflow.tanh", "tensorflow.math.tanh", "tensorflow.sigmoid",
    "tensorflow.nn.sigmoid", "tensorflow.math.sqrt", "tensorflow.math.divide_no_nan", "tensorflow.nn.softmax",
})  # fmt: skip
_ALIKE_METHODS = frozenset({"astype", "numpy", "copy", "tolist", "item"})
_STACKING = frozenset({"numpy.stack", "tensorflow.stack", "numpy.array", "numpy.asarray", "tensorflow.constant"})
_DOTS = frozenset({"tensorflow.tensordot", "numpy.dot", "numpy.vdot"})
_FILLS = frozenset({"numpy.ones", "numpy.zeros", "tensorflow.ones", "tensorflow.zeros"})
_LOOK_UPS = frozenset({"get", "setdefault", "pop"})
_MOST_STEPS = 1000  # of one question: what is not told by then is no number


class Rowless:
    def __init__(self, tree: Tree, resolver: Resolver, is_array: Callable[[cst.BaseExpression], bool]) -> None:
        """`is_array`: whether an expression surely is an array, of which a method may reduce the rows."""
        self.tree = tree
        self.resolver = resolver
        self._is_array = is_array
        self._numbers = Numbers(resolver)
        self._contents = Contents(tree, resolver)
        self._asked: set[tuple[cst.CSTNode | Binding, bool]] = set()  # these say nothing of themselves
        self._steps = 0

    def is_number(self, node: cst.CSTNode | None) -> bool:
        return self._is(node, several=False)

    def comes_to_a_number(self, node: cst.BaseExpression) -> bool:
        """Whether the array of numbers is read for one of them, `weights[0]`, or added up with others of its kind."""
        if not self._is(node, several=True):
            return False
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.BaseExpression):
                if self.is_number(owner):
                    return True
                if not self._is(owner, several=True):
                    return False
            elif not isinstance(owner, (cst.Arg, cst.Element)):
                return False
        return False

    def _is(self, node: cst.CSTNode | None, *, several: bool) -> bool:
        """Whether it is a number; `several`: or an array or list of such."""
        if not isinstance(node, cst.BaseExpression):
            return False
        self._steps = self._steps + 1 if self._asked else 0
        if self._steps > _MOST_STEPS:
            return False
        if (node, several) in self._asked or is_none(node) or self._numbers.is_number(node):
            return True
        self._asked.add((node, several))
        try:
            return self._is_made(node, several)
        finally:
            self._asked.discard((node, several))

    def _is_made(self, node: cst.BaseExpression, several: bool) -> bool:
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            return bool(bindings) and all(self._binds(b, several) for b in bindings)
        if isinstance(node, cst.UnaryOperation):
            return self._is(node.expression, several=several)
        if isinstance(node, cst.BinaryOperation):
            is_alike = not isinstance(node.operator, cst.MatrixMultiply)
            return is_alike and all(self._is(side, several=several) for side in (node.left, node.right))
        if isinstance(node, cst.IfExp):
            return all(self._is(side, several=several) for side in (node.body, node.orelse))
        if isinstance(node, (cst.Tuple, cst.List)):
            return several and all(self._is(element.value, several=False) for element in node.elements)
        if isinstance(node, cst.Subscript):
            return self._is_item(node)
        return isinstance(node, cst.Call) and self._is_called(node, several)

    def _binds(self, binding: Binding, several: bool) -> bool:
        if (binding, several) in self._asked:
            return True
        self._asked.add((binding, several))
        try:
            return self._gives(binding, several)
        finally:
            self._asked.discard((binding, several))

    def _gives(self, binding: Binding, several: bool) -> bool:
        if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
            return self._is(binding.value, several=several) and self._is(binding.target, several=several)
        if binding.kind == "param" and isinstance(binding.node, cst.Param):
            given = self.resolver.given(binding.node)
            return bool(given) and all(self._is(each, several=several) for each in given)
        if binding.kind != "assign" or binding.value is None:
            return False
        part = part_at(binding.value, binding.path)
        if part is not None:
            return self._is(part, several=several)
        ends = self._contents.ends(Parts([Part(binding.value, binding.path)]))
        return bool(ends) and all(self._is(end, several=several) for end in ends or ())

    def _is_item(self, node: cst.Subscript) -> bool:
        """`weights[0]`"""
        place = node.slice[0].slice
        is_one = len(node.slice) == 1 and isinstance(place, cst.Index) and self._numbers.is_number(place.value)
        return is_one and self._is(node.value, several=True)

    def _is_called(self, call: cst.Call, several: bool) -> bool:
        functions = self.resolver.values(call.func)
        own = [f.node for f in functions if isinstance(f, Function) and isinstance(f.node, cst.FunctionDef)]
        if own:
            returned = [each for node in own for each in self.resolver.returned(node)]
            is_seen = bool(returned) and len(own) == len(functions)
            return is_seen and all(self._is(each, several=several) for each in returned)
        names = set(self.resolver.public_alone(call.func))
        if any(arg.star for arg in call.args):
            return False
        if names:
            return self._is_known(call, names, several)
        if not isinstance(call.func, cst.Attribute):
            return False
        name, owner = call.func.attr.value, call.func.value
        if name in _REDUCING and not call.args:
            return self._is_array(owner) or self._is(owner, several=True)
        if name in _ALIKE_METHODS:
            return self._is(owner, several=several)
        return name in _LOOK_UPS and self._is_looked_up(call)

    def _is_known(self, call: cst.Call, names: set[str], several: bool) -> bool:
        """Of a function of a library's."""
        given = [arg.value for arg in call.args if arg.keyword is None]
        if len(call.args) == 1 and all(n in _REDUCING_OF_TENSORFLOW or _reduces_in_numpy(n) for n in names):
            return True
        if names <= _DOTS:
            is_along_one = len(given) == 2 or (len(given) == 3 and isinstance(given[2], cst.Integer))
            return is_along_one and all(self._is_vector(each) for each in given[:2])
        if several and names <= _FILLS:
            return bool(given) and isinstance(given[0], cst.Integer)
        if several and names <= _STACKING and given and isinstance(given[0], (cst.List, cst.Tuple)):
            return self._is(given[0], several=True)
        if names <= {"tensorflow.cast"}:
            given = given[:1]
        return names <= _ALIKE and bool(given) and all(self._is(each, several=several) for each in given)

    def _is_vector(self, node: cst.BaseExpression) -> bool:
        """Whether it has one axis, so that the product with another such is a number."""
        return self._is(node, several=True) and not self.is_number(node)

    def _is_looked_up(self, call: cst.Call) -> bool:
        """`first.setdefault("loss", float(loss))`"""
        if not isinstance(call.func, cst.Attribute) or not 0 < len(call.args) <= 2:
            return False
        held = self._contents.ends(Parts([Part(call.func.value, (None,))]))
        given = [arg.value for arg in call.args[1:]]
        return held is not None and bool([*held, *given]) and all(map(self.is_number, (*held, *given)))


def _reduces_in_numpy(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return module == "numpy" and last in _REDUCING
