"""Results of operations that stand nowhere as the script has them, once something is put together for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import NOT_CONSTANT, Arg
from migrator.analysis.ops.making import Counts, Draws, Makes
from migrator.analysis.ops.moving import Splits
from migrator.analysis.ops.picking import OF_UNSEEN_RANK, OneHot
from migrator.analysis.ops.terms import PAIRING
from migrator.analysis.placement import ROWS, Partial, Replicated, Shape, Sharded, Unknown, options
from migrator.analysis.placing import draws, whole
from migrator.analysis.placing.inference import as_value, infer
from migrator.analysis.placing.operation import Operation
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.placing.repairing import by_gathering, by_reducing
from migrator.analysis.placing.views import as_it_is, as_rows, once_gathered, once_reduced, once_summed
from migrator.analysis.values import Data, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Sums of terms: one that is the same on all workers may be counted by parts.
_SUMS = frozenset({
    "operator.add", "operator.sub", "tensorflow.add", "tensorflow.subtract", "tensorflow.math.add",
    "tensorflow.math.subtract", "tensorflow.add_n", "tensorflow.math.add_n", "keras.ops.add", "keras.ops.subtract",
    "builtins.sum",
})  # fmt: skip
_QUOTIENTS = frozenset({
    "operator.truediv", "tensorflow.divide", "tensorflow.math.divide", "tensorflow.truediv", "tensorflow.math.truediv",
    "tensorflow.math.divide_no_nan", "tensorflow.div_no_nan", "keras.ops.divide", "keras.ops.divide_no_nan",
})  # fmt: skip
# Where a little more or less makes another number.
_ROUNDING = frozenset({
    "builtins.int", "math.floor", "math.ceil", "operator.floordiv", "numpy.floor",
    "numpy.ceil", "numpy.round", "numpy.rint", "numpy.trunc", "tensorflow.cast", "tensorflow.floor", "tensorflow.round",
    "tensorflow.math.floor", "tensorflow.math.ceil", "tensorflow.math.rint", "tensorflow.math.round",
    "tensorflow.math.floordiv", "keras.ops.cast", "keras.ops.floor", "keras.ops.ceil", "keras.ops.round",
})  # fmt: skip

_SIZED = (Counts, OneHot)  # by a number that they are given
_SIZE = "its size is made of what may be the rows of a batch, which are no number"


def repaired(run: Run, op: Operation, lost: Arg) -> Value:
    """The result with the least that makes it known: `lost` is what it is without."""
    why = next((p.why for leaf in lost.leaves() for p in options(leaf.placement) if isinstance(p, Unknown)), "")
    makes = op.row is not None and isinstance(op.row.kind, Makes)
    if makes and any(isinstance(d.placement, Sharded) for d in op.leaves):
        return Value(Data(Unknown(_SIZE), needs=op.needs))
    if op.row is not None and isinstance(op.row.kind, Draws):
        drawn = draws.drawn(run, op, op.row, why)
        if drawn is not None:
            return drawn
        if not draws.draws_alone(op.row):
            return Value(Data(Unknown(why), needs=op.needs))
        return gathered(run, replace(op, row=None), UNKNOWN)
    if op.path in _SUMS:
        shared = _shared(run, op, why)
        if shared is not None:
            return shared
    if op.path in _QUOTIENTS and len(op.args.positional) == 2:
        divided = _divided(run, op, why)
        if divided is not None:
            return divided
    if op.row is not None and isinstance(op.row.kind, _SIZED) and any(d.placement == ROWS for d in op.leaves):
        # A table with a row for each of the batch stands as all rows do, beside which a worker has its own.
        return v.mapped(gathered(run, op, why), lambda d: replace(d, whole=True))
    reduced = infer(run, op.row, op.args, op.made, once_reduced)
    if reduced.is_lost:
        return gathered(run, op, why)
    exact = op.path in _ROUNDING or all(d.placement == ROWS or d.is_replicated for d in op.leaves)
    needs = op.needs | {run.placing.repairing.make(op.args, op.node, by_reducing, why, exact=exact)}
    if op.whole:
        return whole.of_all_rows(run, op, infer(run, op.row, op.args, op.made, as_rows), needs)
    return as_value(run, op, reduced, needs)


def gathered(run: Run, op: Operation, why: str, *, ordered: bool = True) -> Value:
    """The result of all rows, put together for it. Not `ordered`: in any order, as means and sums take them."""
    given = {type(p) for d in op.leaves for p in options(d.placement)}
    # Nothing puts the shape of a part together. Of one whose rank is not seen the last size is likely of features.
    is_alone = given <= {Replicated, Shape} and not op.whole
    if Shape in given and not (is_alone and why == OF_UNSEEN_RANK):
        return Value(Data(Unknown("it makes something of the shape of the rows that a worker has"), needs=op.needs))
    if run.is_traced and _counts_items(op):
        return run.placing.parts.sizeless(Data(Shape(0), needs=op.needs))
    repair = run.placing.repairing.make(op.args, op.node, by_gathering, why, ordered=ordered)
    result = infer(run, op.row, op.args, op.made, once_gathered)
    # Along which of its axes a value for each pair of rows has them is not told: which ones they are helps nothing.
    if why not in PAIRING and not any(d.pairs for d in op.leaves):
        result = whole.with_axes(run, op, result)
    return whole.of_all_rows(run, op, result, op.needs | {repair}, why)


def _counts_items(op: Operation) -> bool:
    """Whether it gives so many values as there are rows, which a graph has to be told: `tf.unstack(x)`."""
    is_unstack = op.row is not None and isinstance(op.row.kind, Splits) and op.row.kind.unstack
    return is_unstack and op.args.get("num", 1) is None


def _divided(run: Run, op: Operation, why: str) -> Value | None:
    """A sum over the batch by another one: all divide by the whole of that."""
    above, below = op.args.positional
    divisor = v.mapped(below, lambda d: replace(d, placement=once_reduced(d)))
    result = infer(run, op.row, Arguments([above, divisor], op.args.keywords), op.made, as_it_is)
    if result.is_lost:
        return None
    under = Arguments([below], nodes={0: op.args.nodes[1]} if 1 in op.args.nodes else {})
    # Rows, and what is no sum, are divided by what counts each of them once; a sum by one that counts a row as often as
    # it does.
    top, bottom = ({p for d in run.objects.leaves(x) for p in options(d.placement)} for x in (above, below))
    are_rows = any(isinstance(p, Sharded) for p in top)
    form = "whole" if are_rows or (Partial("sum") in bottom and top != {Partial("sum")}) else "divisor"
    repair = run.placing.repairing.make(under, op.node, by_reducing, why, form)
    is_whole = any(d.whole for d in run.objects.leaves(above))
    return None if repair.blocked else as_value(run, op, result, op.needs | {repair}, whole=is_whole)


def _shared(run: Run, op: Operation, why: str) -> Value | None:
    """A sum over the batch plus terms that all workers have, each of which counts its part of those."""
    gathered_terms = (d for d in op.leaves if d.is_replicated and not d.is_zero)
    if any(operand.how == "gather" for d in gathered_terms for r in d.needs for operand in r.operands):
        run.to_sum.add(op.node)
    if op.node in run.plan.summed or not all(d.placement == Partial("sum") or d.is_replicated for d in op.leaves):
        # Beside a mean, or what is made of all rows, the sum is put together first.
        result = infer(run, op.row, op.args, op.made, once_summed)
        if result.is_lost:
            return None
        repair = run.placing.repairing.make(op.args, op.node, _by_summing, why, "term")
        return as_value(run, op, result, op.needs | {repair}, whole=op.whole)
    if any(d.is_replicated and d.constant is not NOT_CONSTANT for d in op.leaves):
        return None
    repair = run.placing.repairing.make(op.args, op.node, _by_sharing, why, "term")
    if repair.blocked:
        return None
    return Value(Data(Partial("sum"), rank=0, symbolic=op.symbolic, needs=op.needs | {repair}))


def _by_summing(data: Data) -> str | None:
    return "sum" if data.placement == Partial("sum") else None


def _by_sharing(data: Data) -> str | None:
    return "share" if data.is_replicated else None
