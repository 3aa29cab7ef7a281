"""Whether Keras evaluates or predicts, and on what: every worker does so on the whole data, and nothing is put together
there; but where `fit` itself splits off a part of a worker's arrays, each validates on that part. Scripts say the same
of calls of their own."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

from lockstep.script import which_keras

_FUNCTIONS = ("test_function", "predict_function")  # a model's, with `make_…` for each
# They ask the model's `get_metrics_result` once more behind the steps, in Keras 3 and in late Keras 2.
_ASKING = ("_get_metrics_result_or_logs", "_validate_and_get_metrics_result")
_is_running: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_is_evaluating", default=False)
_is_evaluated: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_is_evaluated", default=False)
_is_undivided: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_is_undivided", default=False)
_is_on_parts: contextvars.ContextVar[bool] = contextvars.ContextVar("lockstep_evaluates_parts", default=False)


def is_on_whole_data() -> bool:
    """Whether a step of an evaluation or prediction runs, or is traced, on the same rows on all ranks; or Keras asks
    for the result of one; or what the script says to run so."""
    return _is_undivided.get() or (_is_running.get() and not _is_on_parts.get())


def on_whole_data(function: Any) -> Any:
    """The function, or what else can be called, which runs on the same rows on all ranks."""

    def on_whole(*args: Any, **kwargs: Any) -> Any:
        with _undivided():
            return function(*args, **kwargs)

    return on_whole


@contextlib.contextmanager
def _undivided() -> Iterator[None]:
    token = _is_undivided.set(True)
    try:
        yield
    finally:
        _is_undivided.reset(token)


def is_on_parts() -> bool:
    """Whether what runs now, a `fit`, evaluates each rank's rows."""
    return _is_on_parts.get()


@contextlib.contextmanager
def on_parts(whether: bool) -> Iterator[None]:
    token = _is_on_parts.set(whether)
    try:
        yield
    finally:
        _is_on_parts.reset(token)


def watch() -> None:
    """Have the steps known with which models of any Keras evaluate and predict."""
    for keras in which_keras.all_loaded():
        _watch(keras.Model)


@functools.cache
def _watch(model_class: Any) -> None:
    for name in _FUNCTIONS:
        setattr(model_class, f"make_{name}", _making(getattr(model_class, f"make_{name}"), name))
    model_class.evaluate = _inside(_is_evaluated, model_class.evaluate)
    for name in _ASKING:
        if hasattr(model_class, name):
            setattr(model_class, name, _asking(getattr(model_class, name)))


def _making(make: Any, name: str) -> Any:
    """Keras makes one function for all steps, apart from that of the training; it is what traces them."""

    @functools.wraps(make)
    def making(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make(self, *args, **kwargs)
        function = _watched(getattr(self, name))
        setattr(self, name, function)
        return function if made is not None else None  # Keras 2 gives it back

    return making


def _watched(function: Any) -> Any:
    if hasattr(function, "_lockstep_evaluates"):
        return function

    evaluating = _inside(_is_running, function)
    evaluating._lockstep_evaluates = True
    return evaluating


def _asking(ask: Any) -> Any:
    """Keras asks the same behind the steps of a training, where callbacks may evaluate meanwhile, but not this."""
    of_evaluation = _inside(_is_running, ask)

    @functools.wraps(ask)
    def asking(*args: Any, **kwargs: Any) -> Any:
        return (of_evaluation if _is_evaluated.get() else ask)(*args, **kwargs)

    return asking


def _inside(variable: contextvars.ContextVar[bool], function: Any) -> Any:
    """The function, inside of which the variable is true."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        token = variable.set(True)
        try:
            return function(*args, **kwargs)
        finally:
            variable.reset(token)

    return inside
