"""Results of operations on what every worker has, all rows of a batch among it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrator.analysis import values as v
from migrator.analysis.ops.call import Arg
from migrator.analysis.ops.elementwise import Cast
from migrator.analysis.ops.making import Broadcast, Makes, Same, Sizes, Stacked
from migrator.analysis.ops.moving import Joins
from migrator.analysis.ops.picking import FULL, GetItem
from migrator.analysis.ops.reducing import Average, Moments, Reduces, WholeValue
from migrator.analysis.ops.terms import PAIRING
from migrator.analysis.placement import REPLICATED, ROWS, Placement, Shape, Sharded, Unknown, options
from migrator.analysis.placing.inference import as_value, infer, list_of
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.views import as_it_is, as_rows, as_sizes
from migrator.analysis.values import Data, Repair, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_REDUCING = (Reduces, Moments, Average, WholeValue)
_BY_SIZES = (Sizes, GetItem, Makes, Broadcast, Cast, Same, Stacked, Joins)


def replicated(run: Run, op: Operation) -> Value:
    """The result where all workers have all that it is made of."""
    if not op.whole and any(d.sized is not None for d in op.leaves):
        made = _of_sizes(run, op)
        if made is not None:
            return made
    result = infer(run, op.row, op.args, op.made, as_rows if op.whole else as_it_is)
    if op.row is None or (isinstance(result.placement, Unknown) and not op.whole):
        nested = op.row is None
        return Value(Data(REPLICATED, whole=op.whole, nested=nested, symbolic=op.symbolic, needs=op.needs))
    result = with_axes(run, op, result) if op.whole else result
    return of_all_rows(run, op, result, op.needs) if op.whole else as_value(run, op, result, op.needs)


def _of_sizes(run: Run, op: Operation) -> Value | None:
    """What is made by the sizes of all rows: a value for each of them, or sizes again; None for all else."""
    if op.row is None or not isinstance(op.row.kind, _BY_SIZES):
        return None
    result = infer(run, op.row, op.args, op.made, as_sizes)
    if result.items is not None or result.many:
        return None
    if isinstance(result.placement, Sharded):
        return of_all_rows(run, op, result, op.needs)
    if not _are_sizes(result.placement):
        return None
    made = as_value(run, op, replace(result, placement=REPLICATED), op.needs)
    return v.mapped(made, lambda d: replace(d, sized=result.placement))


def _are_sizes(placement: Placement) -> bool:
    return placement == ROWS or isinstance(placement, Shape)


def with_axes(run: Run, op: Operation, result: Arg) -> Arg:
    """The result, with its axes where it is lost as it stands."""
    if not result.is_lost or result.items is not None or result.rank is not None:
        return result
    known = axes(run, op)
    return replace(result, rank=known.rank, least=known.least)


def axes(run: Run, op: Operation) -> Arg:
    """The result as far as its axes go, which do not depend on where what it is made of stands."""
    result = infer(run, op.row, op.args, op.made, lambda data: REPLICATED)
    return Arg() if result.is_lost or result.items is not None else result


def of_all_rows(run: Run, op: Operation, result: Arg, needs: frozenset[Repair], why: str = "") -> Value:
    """The result of an operation on all rows, from what the same would be on a worker's part of them; `why` it cannot
    be done on that."""
    if result.items is not None:
        return v.of(Tuple(tuple(of_all_rows(run, op, item, needs, why) for item in result.items)))
    if result.many and not op.symbolic:
        return list_of(run, op.node, of_all_rows(run, op, replace(result, many=False), needs, why))
    placements = options(result.placement)
    # What an op that reduces cannot do by parts reduces the rows.
    kept: tuple[type, ...] = (Sharded, Unknown)
    if op.row is not None and isinstance(op.row.kind, _REDUCING):
        if any(isinstance(p, Unknown) and p.repair is None for p in placements):
            return Value(Data(v.PARTLY_WHOLE, symbolic=op.symbolic, needs=needs))
        kept = (Sharded,)
    # A value for each pair of rows has them along two axes, a transposed one along another than the first: some are
    # left where the first axis is summed over.
    pairs = why in PAIRING or any(d.pairs for d in op.leaves)
    pairs |= any(isinstance(p, Unknown) and p.why in PAIRING for p in placements)
    axes_of_rows = {p.axis for p in placements if isinstance(p, Sharded)} or {d.across for d in op.leaves if d.whole}
    pairs |= any(axes_of_rows)
    several = any(d.several for d in op.leaves if d.whole)
    several |= any(isinstance(p, Sharded) and (p.blocks > 1 or p.rows == "ragged") for p in placements)
    several |= _picks_some(op)
    has_rows = (pairs and result.rank != 0) or any(isinstance(p, kept) for p in placements)
    return Value(
        Data(
            REPLICATED,
            rank=result.rank,
            least=result.least,
            whole=has_rows,
            symbolic=op.symbolic,
            needs=needs,
            mask=result.dtype == "bool",
            pairs=pairs and has_rows,
            several=several and has_rows,
            across=axes_of_rows.pop() if has_rows and len(axes_of_rows) == 1 else 0,
            rows=1 if axes(run, op).rows == 1 else None,
            sized=result.placement if _are_sizes(result.placement) and not has_rows else None,
        )
    )


def _picks_some(op: Operation) -> bool:
    """Whether it is `x[:2]`, some of the rows: as many as are written there, and not a number for each."""
    if op.row is None or not isinstance(op.row.kind, GetItem) or len(op.args.positional) != 2:
        return False
    index = op.args.positional[1]
    first = index.only.items[0] if isinstance(index.only, Tuple) and index.only.items else index
    bounds = first.constant
    if not isinstance(bounds, v.Slice) or slice(bounds.lower, bounds.upper, bounds.step) in FULL:
        return False
    return isinstance(bounds.lower, int) or isinstance(bounds.upper, int)
