"""Whether the samples of the workers together are those of the original's batch: none lost, none computed twice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migrator.verify.record import Numbers


@dataclass(frozen=True)
class RowsApart:
    """How many samples are lost, computed more than once, or none of the original's.

    expected, found: their numbers. size: the largest difference of samples that were matched, relative to the largest.
    """

    expected: int
    found: int
    lost: int = 0
    repeated: int = 0
    strange: int = 0
    size: float = 0.0

    @property
    def is_same(self) -> bool:
        return not (self.lost or self.repeated or self.strange)


def rows_apart(expected: Numbers, parts: Sequence[Numbers], allowed: float, batch: int = 0) -> RowsApart:
    """Compare float64[m, 2], the original's, with those of each worker. Rows that are `allowed` apart, relative to the
    largest, are one sample that was computed in another order.

    Where m does not divide by the workers, some of them compute the same part, or fill theirs up with rows that do not
    count: these are not told as repeated. So is a last batch cut, of any size, where a whole `batch` is.
    """
    found = np.concatenate([np.zeros((0, 2)), *parts])
    if not len(expected) and not len(found):
        return RowsApart(0, 0)
    scale = float(np.abs(expected).max()) if expected.size else 1.0
    if scale == 0.0 or not math.isfinite(scale):
        scale = 1.0
    known, position = _clusters(np.concatenate([expected, found]) / scale, max(allowed, 1e-9))
    wanted = np.bincount(position[: len(expected)], minlength=known)
    got = np.bincount(position[len(expected) :], minlength=known)
    lost = int(
        ((wanted > 0) & (got == 0)).sum() + np.maximum(wanted - np.maximum(got, 1), 0)[(wanted > 0) & (got > 0)].sum()
    )
    strange = int(got[wanted == 0].sum())
    surplus = int(np.maximum(got - wanted, 0)[wanted > 0].sum())
    size = 0.0
    if not (lost or strange or surplus) and len(expected):
        order, other = np.argsort(expected[:, 0], kind="stable"), np.argsort(found[:, 0], kind="stable")
        size = float(np.abs(expected[order] - found[other]).max()) / scale
    return RowsApart(
        len(expected), len(found), lost, max(0, surplus - _may_repeat(len(expected), len(parts), batch)), strange, size
    )


def rows_counted_once(parts: Sequence[Numbers], allowed: float) -> Numbers:
    """float64[N]: how many rows of the batch each worker stands for; several share those that all of them have."""
    found = np.concatenate([np.zeros((0, 2)), *parts])
    if not len(found):
        return np.zeros(len(parts))
    scale = float(np.abs(found).max())
    known, position = _clusters(found / (scale if math.isfinite(scale) and scale else 1.0), max(allowed, 1e-9))
    shares = 1.0 / np.bincount(position, minlength=known)[position]
    ends = np.cumsum([len(part) for part in parts])
    return np.array([share.sum() for share in np.split(shares, ends[:-1])])


def _may_repeat(rows: int, workers: int, batch: int) -> int:
    """How many rows may be computed once more, when as many, or those of a whole batch, are shared out evenly."""
    copies = max(workers // math.gcd(several, workers) for several in (rows, batch or rows))
    return rows * (copies - 1)


def _clusters(rows: Numbers, allowed: float) -> tuple[int, np.ndarray]:
    """How many different samples there are, and the number of each row's: rows in a row whose first numbers are no more
    than `allowed` apart are one."""
    order = np.lexsort((rows[:, 1], rows[:, 0]))
    steps = np.abs(np.diff(rows[order], axis=0)).max(axis=1) > allowed
    numbers = np.concatenate([[0], np.cumsum(steps)])
    position = np.empty(len(rows), np.int64)
    position[order] = numbers
    return int(numbers[-1]) + 1, position
