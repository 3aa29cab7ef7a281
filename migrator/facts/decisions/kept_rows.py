"""Rows that a training loop keeps for a report: in a table for all samples, or in a list that is joined behind it.

Nothing is steered by them; but a worker's part does not fit into the place that the table has for a batch
(`table[i : i + n] = predictions`), nor the joined rows beside the labels of all samples.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.decisions.gathering import Gathering
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree

_JOINING = frozenset({
    "numpy.concatenate", "numpy.vstack", "numpy.hstack", "numpy.row_stack", "numpy.array", "numpy.asarray",
    "tensorflow.concat", "keras.ops.concatenate", "itertools.chain.from_iterable",
})  # fmt: skip
_ARRAYS = ("numpy.", "tensorflow.", "keras.")


class KeptRows:
    def __init__(self, tree: Tree, resolver: Resolver, gathering: Gathering) -> None:
        self.tree = tree
        self.resolver = resolver
        self.gathering = gathering

    def all(self) -> Iterator[cst.BaseExpression]:
        """What is a worker's rows where it is kept."""
        for node in (*self._put_into_tables(), *self._collected()):
            rows = self.gathering.leaf(node)
            if rows is not None:
                yield rows

    def _put_into_tables(self) -> Iterator[cst.BaseExpression]:
        for target, value in self.tree.item_assignments:
            made = (origin(v) for v in self.resolver.values(target.value))
            if isinstance(target.slice[0].slice, cst.Slice) or any(path.startswith(_ARRAYS) for path in made):
                yield value

    def _collected(self) -> Iterator[cst.BaseExpression]:
        for call in self.tree.calls:
            func = call.func
            if not isinstance(func, cst.Attribute) or len(call.args) != 1:
                continue
            if func.attr.value == "extend" or (func.attr.value == "append" and self._is_joined(func.value)):
                yield call.args[0].value

    def _is_joined(self, held: cst.BaseExpression) -> bool:
        """Whether a call joins what the list holds, by the name that it has here."""
        joining = (c for c in self.tree.calls if c.args and _JOINING.intersection(self.resolver.public(c.func)))
        return any(self._is_same(call.args[0].value, held) for call in joining)

    def _is_same(self, read: cst.BaseExpression, held: cst.BaseExpression) -> bool:
        if isinstance(read, cst.Name) and isinstance(held, cst.Name):
            return self.resolver.variable(read) == self.resolver.variable(held)
        return isinstance(read, cst.Attribute) and isinstance(held, cst.Attribute) and read.deep_equals(held)
