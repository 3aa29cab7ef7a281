"""A call of an op whose result is to be placed."""

from __future__ import annotations

from collections.abc import Sequence
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


_NO_REPAIRS: frozenset[Repair] = frozenset()


@dataclass(frozen=True)
class Operation:
    """`row`: that of the op in the tables, None for what has none; `made`: the arguments that its object was made with;
    `leaves`: all data that the arguments hold; `needs`: the repairs without which the arguments do not stand as they
    are said to; `whole`: some of it holds all rows of the batch, and does not fit beside a worker's part of them."""

    row: Op | None
    path: str
    args: Arguments
    node: cst.CSTNode
    made: Arguments | None
    leaves: tuple[Data, ...]
    needs: frozenset[Repair]
    symbolic: bool
    whole: bool


def _is_broadcast(table: Data, row: Op | None, leaves: Sequence[Data]) -> bool:
    """Whether each row meets all of the table, which has one itself, made of what all rows settle: as many positions,
    or words, as a vocabulary has."""
    if table.rows != 1 or table.rank is None or row is None or not isinstance(row.kind, Elementwise):
        return False
    rows = [d for d in leaves if isinstance(d.placement, Sharded)]
    return bool(rows) and all(
        d.placement == Sharded(0) and (d.rank == table.rank or (d.rank is None and d.least > 1)) for d in rows
    )


def operation(
    run: Run, row: Op | None, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None
) -> Operation:
    leaves: list[Data] = []
    for _, value in args.all():
        leaves += run.objects.leaves(value)
    needs, symbolic, whole = _NO_REPAIRS, False, False
    for leaf in leaves:
        needs = needs | leaf.needs if needs else leaf.needs
        symbolic = symbolic or leaf.symbolic
        whole = whole or (leaf.whole and not _is_broadcast(leaf, row, leaves))
    return Operation(row, path, args, node, made, tuple(leaves), needs, symbolic, whole)
