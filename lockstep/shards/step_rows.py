"""What is known of the rows of the training step that runs, or is traced, right now."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf


@dataclass(frozen=True)
class StepRows:
    """counting: how many of this rank's rows count, int64; weight: that over its mean over the ranks, float32; settle:
    leaves in the metrics, of what they were told since it was last called, what counts; held: how many rows it has,
    counting or not; may_repeat: whether several ranks may have the same rows, which count on each of them; by_batch:
    the ids of variables of metrics that were told what counts; told: by these ids whether a metric was told rows, of
    whichever ranks."""

    counting: Any
    weight: Any
    settle: Callable[[], None]
    held: Any
    may_repeat: Any = True
    by_batch: set[int] = field(default_factory=set)
    told: dict[int, Any] = field(default_factory=dict)

    @property
    def are_repeated(self) -> Any:
        """Whether this rank has rows, and another one the same, which count there."""
        return (self.held > 0) & (self.counting == 0)

    @property
    def are_here(self) -> bool:
        """Whether the step itself runs, or is traced, and no function inside of it."""
        return _is_here(self.counting)

    def note_told(self, variables: Iterable[Any], values: Any) -> None:
        """Notes what a metric with these variables was told."""
        rows = tf.shape(values)[0] > 0
        for variable in variables:
            before = self.told.get(id(variable), False)
            self.told[id(variable)] = rows | before if _is_here(before) else rows

    def was_told_rows(self, variable: Any) -> Any:
        rows = self.told.get(id(variable), False)
        return rows if _is_here(rows) else False


def _is_here(value: Any) -> bool:
    """Whether the value can be used where code runs, or is traced: it is none of a function inside."""
    if isinstance(value, bool) or tf.executing_eagerly():
        return isinstance(value, bool) or hasattr(value, "numpy")
    return getattr(value, "graph", None) is tf.compat.v1.get_default_graph()


_current: contextvars.ContextVar[StepRows | None] = contextvars.ContextVar("lockstep_step_rows", default=None)


def current() -> StepRows | None:
    """The rows of the step; None where all ranks have equally many, or nothing is known of them."""
    return _current.get()


def settle() -> None:
    """Leaves in the metrics what counts of what they were told in the step so far, where it runs here."""
    rows = current()
    if rows is not None and rows.are_here:
        rows.settle()


@contextlib.contextmanager
def step(rows: StepRows) -> Iterator[None]:
    token = _current.set(rows)
    try:
        yield
    finally:
        _current.reset(token)
