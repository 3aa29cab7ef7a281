"""Lists with a number for each row of a batch of which a worker has its part: these are rows as well.

`[weights[int(label)] for label in labels]` holds what all workers have, looked up by what each has its own of.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ALL_GATHER, ROWS, Sharded, Unknown
from migrator.analysis.values import NOTHING, Atom, Container, Data, External, Function, Made, Method, Value
from migrator.facts.program.tree import nodes_in
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_COUNTED = "python.enumerate"
_MAP = "python.map"
_SAME = "python.same"
_COMPUTING = frozenset({
    "builtins.int", "builtins.float", "builtins.str", "builtins.bool", "builtins.abs", "builtins.round", "builtins.pow",
    "builtins.ord", "numpy.float32", "numpy.float64", "numpy.int32", "numpy.int64", "numpy.exp", "numpy.log",
    "numpy.sqrt",
})  # fmt: skip
_TELLING = frozenset({"get", "__getitem__", "item", "numpy", "decode", "lower", "upper", "strip"})
# They may leave something for the next turn, or go through several items at once.
_KEEPING = (
    cst.NamedExpr, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Yield, cst.Await,
)  # fmt: skip
_ONE_BY_ONE = "what there is of each sample of a worker's part is made one by one"


def of_turns(run: Run, clause: cst.CompFor, item: Value) -> Value | None:
    """What a comprehension gives that has such an item for each turn; None where that is a list like others."""
    has_each = not clause.ifs and clause.inner_for_in is None
    made = run.tree.parent[clause]
    is_alone = isinstance(made, (cst.ListComp, cst.GeneratorExp)) and _is_made_alone(run, made.elt)
    return _of_each(run, run.seen[clause.iter], item, is_alone=is_alone) if has_each else None


def of_each(run: Run, iterated: Value, item: Value) -> Value | None:
    """The same of what `list` is given, such as a `map`."""
    only = iterated.only
    called = run.heap.load(only, 0) if isinstance(only, Made) and only.path == _MAP else NOTHING
    is_alone = called.data is None and all(map(partial(_is_plain, run), called))
    return _of_each(run, iterated, item, is_alone=is_alone)


def _of_each(run: Run, iterated: Value, item: Value, *, is_alone: bool) -> Value | None:
    """The list of the items, one for each turn of a loop over the value, where that is rows. A worker counts the turns
    of its own rows from zero: only all of them together tell what is made of that, and of what is put together. So do
    they where an item may be made of other rows besides, or of what the turns before have left."""
    rows = _rows_of(run, iterated)
    leaves = list(run.objects.leaves(item)) if rows is not None else []
    if rows is None or not leaves or any(d.symbolic or not d.is_replicated for d in leaves):
        return None
    data = item.data
    needs = frozenset(r for d in (rows, *leaves) for r in d.needs)
    if not is_alone and rows.placement != ROWS:
        return Value(Data(Unknown(_ONE_BY_ONE, ALL_GATHER), needs=needs))
    if rows.placement != ROWS and data is not None and not item.objects and isinstance(data.constant, (int, float)):
        return Value(Data(Unknown(_ONE_BY_ONE, ALL_GATHER), needs=needs))  # as many as there are rows
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
            batch=rows.batch,
            listed=True,
        )
    )


def are_rows(run: Run, iterated: Value) -> bool:
    """Whether a loop over it goes through the rows of a worker's part of a batch."""
    rows = _rows_of(run, iterated)
    return rows is not None and not rows.needs


def may_lose_form(given: Iterable[Data]) -> bool:
    """Whether such a list is among them that may have no item, where the workers do not share a batch evenly: 0 is its
    sum then, and no float."""
    return any(data.listed and data.needs and data.placement == Sharded(0) for data in given)


def _is_made_alone(run: Run, elt: cst.BaseExpression) -> bool:
    """Whether the item of each turn is looked up, or computed, by that of the rows and what all workers have alone."""
    for node in nodes_in(elt):
        if isinstance(node, _KEEPING):
            return False
        if isinstance(node, cst.Call):
            called = run.seen.get(node.func)
            if called is None or called.data is not None or not all(map(partial(_is_plain, run), called)):
                return False
        elif isinstance(node, cst.Name) and any(d.listed for d in run.objects.leaves(run.seen.get(node, NOTHING))):
            return False
    return True


def _is_plain(run: Run, atom: Atom) -> bool:
    """Whether what is called makes of its arguments what it gives, each time the same, and keeps nothing."""
    if isinstance(atom, External):
        return atom.path in _COMPUTING or atom.path.startswith("math.")
    if isinstance(atom, Function) and isinstance(atom.node, cst.Lambda):
        return _is_made_alone(run, atom.node.body)
    return isinstance(atom, Method) and atom.name in _TELLING


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
    if isinstance(only, Made) and only.path in ("python.zip", _MAP, _COUNTED, _SAME):
        several = [run.heap.load(only, i) for i in run.heap.fields(only) if isinstance(i, int)]
        found = [_rows_of(run, one) for one in several[only.path == _MAP :]]
        if not found or None in found:
            return None
        counted = [rows for rows in found if rows is not None and rows.placement == ROWS]
        rows = (counted or found)[0]
        return replace(rows, placement=ROWS) if rows is not None and only.path == _COUNTED else rows
    return None
