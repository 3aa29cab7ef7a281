"""Lists with a number for each row of a batch of which a worker has its part: these are rows as well.

`[weights[int(label)] for label in labels]` holds what all workers have, looked up by what each has its own of.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ALL_GATHER, ROWS, Sharded, Unknown
from migrator.analysis.values import Container, Data, Made, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_COUNTED = "python.enumerate"
_ONE_BY_ONE = "what there is of each sample of a worker's part is made one by one"


def of_turns(run: Run, clause: cst.CompFor, item: Value) -> Value | None:
    """What a comprehension gives that has such an item for each turn; None where that is a list like others."""
    has_each = not clause.ifs and clause.inner_for_in is None
    return of_each(run, run.seen[clause.iter], item) if has_each else None


def of_each(run: Run, iterated: Value, item: Value) -> Value | None:
    """The list of the items, one for each turn of a loop over the value, where that is rows. A worker counts the turns
    of its own rows from zero: only all of them together tell what is made of that, and of what is put together."""
    rows = _rows_of(run, iterated)
    leaves = list(run.objects.leaves(item)) if rows is not None else []
    if rows is None or not leaves or any(d.symbolic or not d.is_replicated for d in leaves):
        return None
    data = item.data
    needs = frozenset(r for d in (rows, *leaves) for r in d.needs)
    if rows.placement == ROWS or data is None or item.objects or not _is_number(data):
        # Of what is the script's own, facts/decisions.py sees to how many there are.
        return Value(Data(Unknown(_ONE_BY_ONE, ALL_GATHER), needs=needs)) if any(d.needs for d in leaves) else None
    rank = None if data.rank is None else data.rank + 1
    return Value(
        Data(
            Sharded(0),
            rank=rank,
            least=data.axes + 1,
            needs=needs,
            integral=data.integral,
            mask=data.mask,
            counts=rows.counts,
            listed=True,
        )
    )


def may_lose_form(given: Iterable[Data]) -> bool:
    """Whether such a list is among them that may have no item, where the workers do not share a batch evenly: 0 is its
    sum then, and no float."""
    return any(data.listed and data.needs and data.placement == Sharded(0) for data in given)


def _is_number(data: Data) -> bool:
    """Whether it is one, or an array of such; a literal is but the start of a list that something fills, and None or
    text is none."""
    return data.constant is NOT_CONSTANT and not data.nested


def _rows_of(run: Run, iterated: Value) -> Data | None:
    """The rows of a worker's part of which there is one for each turn of a loop over the value; or, where the turns are
    counted, their number."""
    data, only = iterated.data, iterated.only
    if data is not None:
        is_rows = data.placement == Sharded(0) and not data.nested and not data.ragged and not iterated.objects
        return data if is_rows else None
    if isinstance(only, Container):
        return next((d for given in run.turns.get(only, ()) if (d := given.data) and d.placement == ROWS), None)
    if isinstance(only, Made) and only.path in ("python.zip", "python.map", _COUNTED):
        several = [run.heap.load(only, i) for i in run.heap.fields(only) if isinstance(i, int)]
        found = [_rows_of(run, one) for one in several[only.path == "python.map" :]]
        if not found or None in found:
            return None
        counted = [rows for rows in found if rows is not None and rows.placement == ROWS]
        rows = (counted or found)[0]
        return replace(rows, placement=ROWS) if rows is not None and only.path == _COUNTED else rows
    return None
