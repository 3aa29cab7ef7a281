"""Records of trainings that nobody ran: a linear model on 12 samples, by one process or by two ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from migrator.verify.record import (
    BEFORE,
    DATASET,
    ENDED,
    GRADIENTS,
    LOCAL,
    SLOTS,
    STATISTICS,
    WEIGHTS,
    Optimizer,
    Record,
    Step,
)

STEPS = 5
RATE = 0.1
NAMES = ["dense/kernel", "dense/bias"]
Change = Callable[[int, list[Step]], None]


def original() -> Record:
    return _records(1)[0]


def two_ranks() -> list[Record]:
    """As they are where nothing is wrong."""
    return _records(2)


def moved(record: Record, by: float) -> Record:
    """The same, with all weights off by a share of the largest."""
    other = copy.deepcopy(record)
    for step in other.steps:
        step.arrays[WEIGHTS] = [w + by * np.abs(w).max() for w in step.arrays[WEIGHTS] if w is not None]
    return other


def _records(size: int) -> list[Record]:
    random = np.random.RandomState(0)
    weights = [random.normal(size=10), random.normal(size=1)]
    records = [Record(rank, [Optimizer("sgd", NAMES, [[10, 1], [1]])], end=ENDED) for rank in range(size)]
    for number in range(1, STEPS + 1):
        rows = random.uniform(1, 2, (12, 2))
        of_parts = [[random.normal(size=w.shape) for w in weights] for _ in range(2)]
        gradients = [np.mean(parts, 0) for parts in zip(*of_parts)]
        before = weights
        weights = [w - RATE * g for w, g in zip(weights, gradients)]
        for rank, record in enumerate(records):
            arrays = {
                LOCAL: list(of_parts[rank]) if size > 1 else gradients,
                GRADIENTS: gradients,
                WEIGHTS: weights,
                SLOTS: [],
                STATISTICS: [],
            }
            if number == 1:
                arrays[BEFORE] = before
            share = rows if size == 1 else rows[rank::size]
            step = Step(
                0, number, "train.py:9", [1.0 / number], float(number), RATE, DATASET, True, share, dict(arrays)
            )
            record.steps.append(copy.deepcopy(step))
    return records
