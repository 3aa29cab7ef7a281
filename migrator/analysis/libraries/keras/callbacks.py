"""Callbacks of the program's own classes, or of its functions: what `fit` calls of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras.objects import arguments_of
from migrator.analysis.values import NUMBER, Instance, Made, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_FUNCTIONS = "keras.callbacks.LambdaCallback"
# With so many arguments.
_CALLED = {
    "on_train_begin": 1,
    "on_epoch_begin": 2,
    "on_train_batch_begin": 2,
    "on_batch_begin": 2,
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
            own = run.classes.method(callback, name)
            if own is not None:
                run.calls.call(own, Arguments([NUMBER] * count), node, frame)

    for functions in _of_functions(run, callbacks):
        for name, count in _CALLED.items():
            own = functions.keywords.get(name)
            if own is not None and not own.is_none:
                run.calls.call(own, Arguments([NUMBER] * count), node, frame)


def _of_functions(run: Run, callbacks: Value | None) -> Iterator[Arguments]:
    """What each `LambdaCallback` is made with."""
    for value in (callbacks, run.objects.parts(callbacks)) if callbacks is not None else ():
        yield from (arguments_of(run, a) for a in value if isinstance(a, Made) and a.path == _OF_FUNCTIONS)


def _instances(run: Run, callbacks: Value | None) -> Iterator[Instance]:
    for value in (callbacks, run.objects.parts(callbacks)) if callbacks is not None else ():
        yield from (a for a in value if isinstance(a, Instance))
