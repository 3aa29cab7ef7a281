"""What is known of the rows of the training step that runs, or is traced, right now."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepRows:
    """counting: how many of this rank's rows count, int64; weight: that over its mean over the ranks, float32; settle:
    leaves in the metrics, of what they were told since it was last called, what counts; by_batch: the ids of variables
    of metrics that were told what counts."""

    counting: Any
    weight: Any
    settle: Callable[[], None]
    by_batch: set[int] = field(default_factory=set)


_current: contextvars.ContextVar[StepRows | None] = contextvars.ContextVar("lockstep_step_rows", default=None)


def current() -> StepRows | None:
    """The rows of the step; None where all ranks have equally many, or nothing is known of them."""
    return _current.get()


@contextlib.contextmanager
def step(rows: StepRows) -> Iterator[None]:
    token = _current.set(rows)
    try:
        yield
    finally:
        _current.reset(token)
