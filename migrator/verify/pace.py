"""How long the steps of a run take, and how much of that each rank spends in exchanges with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migrator.verify.record import Record


@dataclass(frozen=True)
class Pace:
    """Of one rank, medians over its steps. seconds: from one step to the next. exchanging: the share of it in calls
    that send something to the others or wait for them, from 0 to 1; the rest it computes, and is recorded."""

    rank: int
    seconds: float
    exchanging: float


def paces(records: Sequence[Record]) -> list[Pace]:
    """One of each rank that made two steps or more: the first also waits for what is made once."""
    return [_pace(record) for record in records if len(record.steps) > 1]


def seconds_per_step(records: Sequence[Record]) -> float:
    """That of the slowest rank; 0 where none made two steps."""
    return max((pace.seconds for pace in paces(records)), default=0.0)


def _pace(record: Record) -> Pace:
    seconds = np.diff([step.seconds for step in record.steps])
    exchanging = np.array([step.exchanging for step in record.steps[1:]])
    share = float(np.median(exchanging / np.maximum(seconds, 1e-9)))
    return Pace(record.rank, float(np.median(seconds)), min(share, 1.0))
