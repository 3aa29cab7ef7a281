"""A call of an op whose result is to be placed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import Op
from migrator.analysis.ops.elementwise import Elementwise
from migrator.analysis.placement import Sharded
from migrator.analysis.values import Data, Repair
from migrator.records import dataclass

if TYPE_CHECKING:
    from migrator.analysis.run import Run


@dataclass(frozen=True)
class Operation:
    """`row`: that of the op in the tables, None for what has none; `made`: the arguments that its object was made with;
    `leaves`: all data that the arguments hold."""

    row: Op | None
    path: str
    args: Arguments
    node: cst.CSTNode
    made: Arguments | None
    leaves: tuple[Data, ...]

    @cached_property
    def needs(self) -> frozenset[Repair]:
        """The repairs without which the arguments do not stand as they are said to."""
        return frozenset(r for d in self.leaves for r in d.needs)

    @cached_property
    def symbolic(self) -> bool:
        return any(d.symbolic for d in self.leaves)

    @cached_property
    def whole(self) -> bool:
        """Whether some of it holds all rows of the batch, and does not fit beside a worker's part of them."""
        return any(d.whole and not self._is_broadcast(d) for d in self.leaves)

    def _is_broadcast(self, table: Data) -> bool:
        """Whether each row meets all of the table, which has one itself, made of what all rows settle: as many
        positions, or words, as a vocabulary has."""
        if table.rows != 1 or table.rank is None or self.row is None or not isinstance(self.row.kind, Elementwise):
            return False
        rows = [d for d in self.leaves if isinstance(d.placement, Sharded)]
        return bool(rows) and all(
            d.placement == Sharded(0) and (d.rank == table.rank or (d.rank is None and d.least > 1)) for d in rows
        )


def operation(
    run: Run, row: Op | None, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None
) -> Operation:
    leaves: list[Data] = []
    for _, value in args.all():
        leaves += run.objects.leaves(value)
    return Operation(row, path, args, node, made, tuple(leaves))
