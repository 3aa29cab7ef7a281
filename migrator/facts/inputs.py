"""What the code that trains makes of a batch before a model takes it: by several rows, it needs all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from migrator.facts.kinds import Kinds
from migrator.facts.origins import Origins
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.tree import Tree
from migrator.facts.values import External, Object, Result, Value

_STATISTICS = frozenset({
    *(f"{module}{name}" for module in ("tensorflow.", "tensorflow.math.") for name in (
        "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_std", "reduce_variance",
    )),
    *(f"{module}{name}" for module in ("numpy.", "keras.ops.") for name in (
        "mean", "sum", "max", "min", "std", "var", "amax", "amin", "median", "percentile", "quantile", "ptp",
    )),
    "tensorflow.nn.moments", "tensorflow.math.l2_normalize", "tensorflow.linalg.normalize", "tensorflow.norm",
    "tensorflow.linalg.norm", "tensorflow.nn.l2_normalize", "numpy.linalg.norm",
})  # fmt: skip
_METHODS = frozenset({"mean", "sum", "max", "min", "std", "var", "ptp"})
_POSITIONS = {"numpy.percentile": 2, "numpy.quantile": 2, "tensorflow.norm": 2, "numpy.linalg.norm": 2,
              "tensorflow.linalg.norm": 2, "tensorflow.linalg.normalize": 2}  # fmt: skip


class Inputs:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._origins = Origins(tree, resolver)

    def statistic(self, bodies: Iterable[cst.CSTNode]) -> cst.Call | None:
        """A number over all rows of a batch that the bodies make, in what they give a model."""
        within = list(bodies)
        models = [call for call in self._calls_in(within) if self._is_model(call)]
        inputs = [call.args[0].value for call in models if call.args]
        for part in self._origins.behind_all(inputs, self._is_model):
            is_inside = any(self.tree.contains(body, part) for body in within)
            if is_inside and isinstance(part, cst.Call) and self._is_over_rows(part):
                return part
        return None

    def _calls_in(self, bodies: list[cst.CSTNode]) -> Iterator[cst.Call]:
        yield from (c for c in self.tree.calls if any(self.tree.contains(body, c) for body in bodies))

    def _is_model(self, node: cst.CSTNode) -> bool:
        """`model(x)`"""
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return any(isinstance(v, (Result, Object)) and self.kinds.is_model(v) for v in values)

    def _is_over_rows(self, call: cst.Call) -> bool:
        paths = [v.path for v in self.resolver.values(call.func) if isinstance(v, External)]
        position = 1
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _METHODS and not paths:
            if not any(map(self._is_tensor, self.resolver.values(call.func.value))):
                return False
            position = 0
        elif not any(path in _STATISTICS for path in paths):
            return False
        else:
            position = next((_POSITIONS[p] for p in paths if p in _POSITIONS), 1)
        axis = argument(call, "axis", position) or argument(call, "axes", position)
        return axis is None or not _spares_rows(axis.value)

    @staticmethod
    def _is_tensor(value: Value) -> bool:
        return Kinds.is_array(value)


def _spares_rows(axis: cst.BaseExpression) -> bool:
    """Whether the axes are written out, and the first is none of them."""
    nodes = [e.value for e in axis.elements] if isinstance(axis, (cst.Tuple, cst.List)) else [axis]
    return all(
        (isinstance(n, cst.Integer) and n.evaluated_value > 0)
        or (isinstance(n, cst.UnaryOperation) and isinstance(n.operator, cst.Minus))
        for n in nodes
    )
