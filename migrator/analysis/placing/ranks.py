"""What the row of an op tells of a call where it is not seen how many axes its arguments have.

Most results are the same for every number of axes that they may have. For a few a convention decides: Keras's losses,
labels beside logits, products of matrices, pictures that come in batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.analysis.ops.call import AXES, Arg, Kind, Op, OpCall
from migrator.analysis.ops.elementwise import Elementwise
from migrator.analysis.ops.sampling import LossFunction, LossObject, PerSample
from migrator.analysis.ops.terms import sharded
from migrator.analysis.placement import Either, Partial, Replicated, Unknown, either
from migrator.records import replace

UNKNOWN = "what this does with the batch is not known"
# By Keras's convention these take what has an axis of features behind that of the samples.
TAKES_FEATURES = ("keras.losses.", "keras.metrics.", "keras.layers.")
_MULTIPLIES = frozenset({
    "operator.matmul", "tensorflow.matmul", "tensorflow.linalg.matmul", "tensorflow.sparse.sparse_dense_matmul",
    "keras.ops.matmul",
})  # fmt: skip
_TAKES_LABELS = ("sparse_softmax_cross_entropy_with_logits",)
_ALIGNING = ("keras.losses.", "keras.metrics.")


def infer(row: Op, call: OpCall) -> Arg:
    """The result of the call, as far as it does not depend on what is not seen."""
    result = _inferred(row, call)
    if result.is_lost and row.path.startswith(_ALIGNING) and _are_unlike(call):
        kwargs = {k: _without_rank(a) for k, a in call.kwargs.items()}
        call = replace(call, args=[_without_rank(a) for a in call.args], kwargs=kwargs)
        result = _inferred(row, call)
    if not any(_is_open(a) for a in _given(call)) and not _is_undecided(result):
        return result
    if row.path.endswith(_TAKES_LABELS):
        return _of_labels(row, call, result)
    if row.path in _MULTIPLIES:
        call = _deepened(call)  # they take no vectors, or no batch of them
        result = _inferred(row, call)
    if _is_undecided(result):
        result = _of_deep(row, call, result)
    takes_batches = isinstance(row.kind, (Elementwise, PerSample)) or row.path.startswith(TAKES_FEATURES)
    if _is_undecided(result) and takes_batches:
        result = _with_equal_ranks(row, call, result)
    if result.rank is not None or result.least >= 2 or not _stays_deep(row, call):
        return _as_deep(row, call, result)
    return replace(result, least=2)


def _as_deep(row: Op, call: OpCall, result: Arg) -> Arg:
    """The result with as many axes as what is broadcast to it has at least."""
    if result.rank is not None or not isinstance(row.kind, Elementwise):
        return result
    return replace(result, least=max((_least_rank(a) for a in call.args if a.items is None), default=0))


def _inferred(row: Op, call: OpCall) -> Arg:
    try:
        return row.infer(call)
    except (IndexError, ValueError, TypeError):  # such a call would fail, or its row does not expect it
        return Arg(Unknown(UNKNOWN))


def _given(call: OpCall) -> Iterator[Arg]:
    for arg in (*call.args, *call.kwargs.values()):
        yield from arg.leaves()


def _is_open(arg: Arg) -> bool:
    """Whether the number of its axes is not known, and matters."""
    return arg.rank is None and not isinstance(arg.placement, (Partial, Replicated))


def _is_undecided(result: Arg) -> bool:
    return result.is_lost or any(isinstance(leaf.placement, Either) for leaf in result.leaves())


def _with_ranks(call: OpCall, rank: int) -> OpCall:
    """The call where what has axes behind that of the samples has so many in all."""

    def ranked(arg: Arg) -> Arg:
        if arg.items is not None:
            return replace(arg, items=tuple(map(ranked, arg.items)))
        return replace(arg, rank=max(rank, arg.least)) if arg.least >= 2 and _is_open(arg) else arg

    return replace(call, args=[*map(ranked, call.args)], kwargs={k: ranked(a) for k, a in call.kwargs.items()})


def _deepened(call: OpCall) -> OpCall:
    """A product of matrices: what is multiplied with a batch is one, or several."""

    def deepened(arg: Arg) -> Arg:
        if arg.items is not None or arg.rank is not None:
            return arg
        return replace(arg, least=max(arg.least, 2)) if _is_open(arg) else replace(arg, rank=2)

    return replace(call, args=[*map(deepened, call.args)])


def _are_unlike(call: OpCall) -> bool:
    """Whether labels have another number of axes than predictions: Keras's losses take `(rows, 1)` and `(rows,)` for
    the same."""
    given = {**dict(zip(("y_true", "y_pred"), call.args)), **call.kwargs}
    ranks = {given[name].rank for name in ("y_true", "y_pred") if name in given} - {None}
    return len(ranks) > 1


def _of_deep(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """The result if it is the same for every number of axes that what is known to have several may have."""
    if not any(a.least >= 2 and _is_open(a) for a in _given(call)):
        return otherwise
    results = [_inferred(row, _with_ranks(call, rank)) for rank in (2, 3, 4)]
    placements = {tuple(leaf.placement for leaf in result.leaves()) for result in results}
    if len(placements) > 1 or _is_undecided(results[0]):
        return otherwise
    return _without_rank(results[0])


def _of_labels(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """Labels have one axis less than the scores of the classes."""
    given: dict[str, Arg] = {**dict(zip(("labels", "logits"), call.args)), **call.kwargs}
    logits = given.get("logits")
    if logits is None or "labels" not in given or not (logits.least >= 2 or logits.rank):
        return otherwise
    results = []
    for rank in (logits.rank,) if logits.rank else (2, 3, 4):
        kwargs = {"labels": replace(given["labels"], rank=rank - 1), "logits": replace(logits, rank=rank)}
        results.append(_inferred(row, replace(call, args=[], kwargs=kwargs)))
    if len({result.placement for result in results}) > 1 or _is_undecided(results[0]):
        return otherwise
    return replace(results[0], rank=results[0].rank if logits.rank else None)


def _without_rank(result: Arg) -> Arg:
    if result.items is not None:
        return replace(result, items=tuple(map(_without_rank, result.items)))
    return replace(result, rank=None, least=result.rank or 0)


def _stays_deep(row: Op, call: OpCall) -> bool:
    if not any(a.least >= 2 for a in _given(call)):
        return False
    result = _inferred(row, _with_ranks(call, 2))
    return result.rank is not None and result.rank >= 2


def _pairs_rows(operands: Sequence[Arg]) -> bool:
    """Whether one operand surely has more axes than another, as predictions `(rows, 1)` beside labels `(rows,)` have:
    the rows of the one meet all rows of the other."""
    known = [a.rank for a in operands if a.rank is not None]
    return bool(known) and max(map(_least_rank, operands)) > max(known)


def _may_pair_rows(operands: Sequence[Arg]) -> bool:
    """Whether one may be a vector beside values `(rows, 1)`, as labels that were loaded beside predictions. A vector
    hardly fits beside more columns or axes: what stands beside those has as many."""
    most = max(map(_least_rank, operands))
    is_column = most == 2 and any(a.width == 1 and _least_rank(a) == 2 for a in operands)
    return is_column and any(a.rank is None and a.least < 2 for a in operands)


def _may_be_vectors(operands: Sequence[Arg]) -> bool:
    """Whether one of them may be a vector, and another one `(rows, 1)`, as flat predictions beside labels that were
    loaded: these are hardly ever pairs of all rows, but that is not seen."""
    return any(a.rank is None and a.least < 2 for a in operands) and max(map(_least_rank, operands)) < 2


def _least_rank(arg: Arg) -> int:
    return arg.least if arg.rank is None else arg.rank


def _with_equal_ranks(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """The result if operands of which the number of axes is not known have as many as the others: then none is
    broadcast along the axis of the samples; and if pictures come in batches. This is taken on trust."""
    cut = [a for a in call.args if sharded(a.placement) is not None]
    known = {a.rank for a in cut} - {None}
    if not cut or len(known) > 1 or any(a.items is not None for a in call.args):
        return otherwise
    if isinstance(row.kind, Elementwise) and (_pairs_rows(cut) or _may_pair_rows(cut)):
        return otherwise
    if _takes_vectors(row.kind) and all(_least_rank(a) < 2 for a in cut):
        return _of_vectors(row, call, otherwise)
    least = row.kind.least if isinstance(row.kind, PerSample) else 0
    rank = next(iter(known), max(2, least, *_of_one_row(row, call)))
    result = _inferred(row, _at_rank(call, rank))
    if result.is_lost:
        return otherwise
    if len(cut) > 1 and isinstance(row.kind, Elementwise) and _may_be_vectors(cut):
        result = replace(result, on_trust=AXES)
    # Two axes were but an example.
    if known:
        return result
    found = _without_rank(result)
    return replace(found, least=found.least if any(a.least >= 2 for a in cut) else 0)


def _of_one_row(row: Op, call: OpCall) -> Iterator[int]:
    """The axes of tables of one row, such as one for each position of a text: what they are broadcast along is the
    batch, and all else of it has an axis of theirs."""
    if isinstance(row.kind, Elementwise):
        yield from (a.rank for a in call.args if sharded(a.placement) is None and a.rows == 1 and a.rank is not None)


def _at_rank(call: OpCall, rank: int | None) -> OpCall:
    """The call where all rows of the batch have so many axes in all, and what all workers have no more than is seen."""
    args = [
        replace(a, rank=rank) if sharded(a.placement) is not None else replace(a, rank=a.least) if a.rank is None else a
        for a in call.args
    ]
    return replace(call, args=args)


def _of_vectors(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """What a loss of Keras's is of values that may have no axis of features: of vectors one number, else one each."""
    results = [_inferred(row, _at_rank(call, rank)) for rank in (1, 2)]
    if any(map(_is_undecided, results)):
        return otherwise
    return Arg(either([result.placement for result in results]))


def _takes_vectors(kind: Kind) -> bool:
    """Whether it is a loss of Keras's that does not need scores of classes, which have an axis of those."""
    function = kind.function if isinstance(kind, LossObject) else kind
    return isinstance(function, LossFunction) and not function.sparse
