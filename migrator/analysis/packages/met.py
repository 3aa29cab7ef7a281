"""What the code of a package does on the way to its result that tells how it takes a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.contracting import BatchDot, Einsum, FlatProduct, MatrixProduct, MatrixVector, TensorProduct
from migrator.analysis.ops.reducing import Along, Average, Moments, Reduces, WholeValue
from migrator.analysis.placement import LOCAL, Partial, Sharded, Unknown
from migrator.analysis.placing.operation import Operation
from migrator.analysis.values import Data, Repair, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Operations that surely relate the rows of a batch where they work along its axis.
_RELATING = (
    Reduces, Moments, Average, WholeValue, Along, MatrixProduct, MatrixVector, TensorProduct, BatchDot, Einsum,
    FlatProduct,
)  # fmt: skip


class NotFollowed(Exception):
    """The code of a package does what is only followed in the program itself."""


class Met:
    """`relating`: the repairs of operations that surely relate the rows of a batch, where others may only be too
    involved to be seen through; `has_left`: whether variables, or the loss, got what a worker's part gives; `kinds`:
    the reductions that are taken over rows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.relating: set[Repair] = set()
        self.has_left = False
        self.kinds: set[str] = set()

    def note_lost(self, op: Operation, value: Value) -> None:
        """Notes an operation of which the result is only known of all rows."""
        found = {r for d in self.run.objects.leaves(value) for r in d.needs} - op.needs
        rows = [d for d in op.leaves if isinstance(d.placement, Sharded)]
        is_reduced = any(isinstance(d.placement, Partial) for d in op.leaves)
        is_along = op.row is not None and isinstance(op.row.kind, _RELATING) and all(d.rank is not None for d in rows)
        if op.row is not None and (is_reduced or is_along):
            self.relating |= found

    def note_kept(self, args: Arguments) -> None:
        """Notes what a variable gets. Raises NotFollowed where that is not seen."""
        leaves = [d for _, x in args.all() for d in self.run.objects.leaves(x)]
        _expect_seen(leaves)
        self.has_left |= any(not d.is_replicated or d.needs for d in leaves)

    def note_penalty(self, penalty: Value) -> None:
        """Notes what is added to the loss. Raises NotFollowed where that is not seen, or where no mean over the rows of
        a worker adds up."""
        leaves = list(self.run.objects.leaves(penalty))
        _expect_seen(leaves)
        if leaves and "mean" in self.run.plan.reductions:
            raise NotFollowed
        self.has_left |= any(d.needs or not (d.placement == Partial("mean") or d.is_replicated) for d in leaves)

    def note_handed(self, given: Sequence[Data]) -> None:
        """Notes what functions give that are handed to one that nobody knows. Raises NotFollowed where that matters."""
        if any(not d.is_replicated or d.needs for d in given):
            raise NotFollowed

    def relates_rows(self, result: Value) -> bool:
        """Whether the code surely relates the rows of a batch for that."""
        return self.has_left or any(r in self.relating for d in self.run.objects.leaves(result) for r in d.needs)

    def is_harmless(self) -> bool:
        """Whether nothing else was done that somebody would have to know of: no training, no decision by a worker's
        part, nothing taken on trust. Asked while the records are those of the package's code."""
        run = self.run
        has_decided = any(not d.is_replicated or d.needs for x in run.decisions.values() for d in v.contents(x))
        return not (run.trusted or run.changed or run.losses or run.fits or run.compiled or has_decided)


def _expect_seen(leaves: list[Data]) -> None:
    if any(isinstance(d.placement, Unknown) or d.placement is LOCAL for d in leaves):
        raise NotFollowed
