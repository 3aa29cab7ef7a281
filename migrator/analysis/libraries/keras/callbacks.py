"""Callbacks of the program's own classes: what `fit` calls of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.values import NUMBER, Instance, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# With so many arguments.
_CALLED = {
    "on_train_begin": 1,
    "on_epoch_begin": 2,
    "on_train_batch_end": 2,
    "on_batch_end": 2,
    "on_epoch_end": 2,
    "on_train_end": 2,
}


def call(run: Run, model: v.Atom, callbacks: Value | None, node: cst.CSTNode, frame: Frame) -> None:
    """Calls those that the `fit` of the model is given."""
    for callback in _instances(run, callbacks):
        run.heap.store(callback, "model", v.of(model))
        for name, count in _CALLED.items():
            own = run.objects.method(callback, name)
            if own is not None:
                run.calls.call(own, Arguments([NUMBER] * count), node, frame)


def _instances(run: Run, callbacks: Value | None) -> Iterator[Instance]:
    for value in (callbacks, run.objects.parts(callbacks)) if callbacks is not None else ():
        yield from (a for a in value if isinstance(a, Instance))
