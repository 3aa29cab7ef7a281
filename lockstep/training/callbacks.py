"""callbacks: Keras callbacks that decide and write as they would in one process.

Decisions (early stopping, learning-rate plateaus, best-only checkpoints) are taken on logs that are averaged
over the ranks, hence alike on all of them; whoever asks to stop stops all at the same step; files are
written by the chief.
"""

from __future__ import annotations

import dis
import functools
import inspect
import numbers
from typing import Any

import numpy as np

from lockstep.collectives.agreement import agree
from lockstep.collectives.reduction import all_reduce
from lockstep.collectives.world import backend
from lockstep.data import row_weights
from lockstep.data.random_state import let_fit_shuffle_anew, seed_again
from lockstep.script import evaluation, which_keras
from lockstep.training import batch_means, restoring
from lockstep.training.metrics import Results, results_of
from lockstep.weights.sending import check_all_sent

_WRITERS = {"ModelCheckpoint", "TensorBoard", "CSVLogger", "BackupAndRestore"}
# Keras's own callbacks that may set stop_training in the middle of an epoch; its others never do.
_KERAS_STOPPERS = {"TerminateOnNaN", "LambdaCallback"}
_OF_KERAS = ("keras.", "tf_keras.", "tensorflow.")
_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")
_ADVICE = "All workers must compile the same metrics and validate alike."


def callbacks(given: Any) -> Any:
    as_list = getattr(given, "callbacks", None)
    if isinstance(as_list, list):  # a CallbackList, in place: Keras has put its own callbacks into it
        as_list[:] = _synchronised(as_list)
        for callback in as_list:
            if getattr(given, "model", None) is not None:
                callback.set_model(given.model)
            if getattr(given, "params", None) is not None:
                callback.set_params(given.params)
        return given
    if given is None:
        return _synchronised([])
    if isinstance(given, (list, tuple)):
        return _synchronised(_flattened(given))
    if callable(getattr(given, "on_epoch_end", None)):
        return _synchronised([given])
    raise TypeError(f"lockstep.callbacks takes Keras callbacks, alone or in a list, not {type(given).__name__}")


def _flattened(given: Any) -> list[Any]:
    if isinstance(given, (list, tuple)):
        return [callback for element in given for callback in _flattened(element)]
    return [] if given is None else [given]


def _synchronised(given: list[Any]) -> list[Any]:
    let_fit_shuffle_anew()
    if any(getattr(callback, "_lockstep", False) for callback in given):
        return given
    average, stop = _classes(which_keras.in_use(*given))
    restores = any(restoring.restores(callback) for callback in given)
    kept = given if backend().rank == 0 else [callback for callback in given if not _is_only_for_chief(callback)]
    in_batches = any(_may_stop_within_epoch(callback) for callback in given)
    reads_batches = any(_reads_batch_logs(callback) for callback in given)
    return [average(reads_batches), *kept, stop(in_batches, restores)]


def _is_only_for_chief(callback: Any) -> bool:
    writes = any(cls.__name__ in _WRITERS for cls in type(callback).__mro__)
    return writes and not restoring.is_needed_by_all(callback)


def _may_stop_within_epoch(callback: Any) -> bool:
    cls = type(callback)
    from_keras = cls.__module__.split(".")[0] in ("keras", "tf_keras", "tensorflow")
    if from_keras and cls.__name__ not in _KERAS_STOPPERS:
        return False
    return any(
        hook in vars(callback) or any(hook in vars(base) and base.__name__ != "Callback" for base in cls.__mro__)
        for hook in _BATCH_HOOKS
    )


def _reads_batch_logs(callback: Any) -> bool:
    """Whether what the callback does behind a batch may read its logs; Keras's own stop by them at most."""
    if not _may_stop_within_epoch(callback):
        return False
    return any(_reads_logs(getattr(callback, hook, None)) for hook in ("on_batch_end", "on_train_batch_end"))


def _reads_logs(hook: Any) -> bool:
    function = inspect.unwrap(getattr(hook, "__func__", hook))
    code = getattr(function, "__code__", None)
    if code is None:
        return hook is not None
    if (function.__module__ or "").startswith(_OF_KERAS):
        return False
    first = 1 + inspect.ismethod(hook)  # behind the batch, and the object itself
    given = set(code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount])
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return True
    loaded = [i.argval for i in dis.get_instructions(code) if "LOAD" in i.opname]
    return any(given.intersection(name if isinstance(name, tuple) else (name,)) for name in loaded)


@functools.cache
def _classes(keras: Any) -> tuple[Any, Any]:
    """The two callbacks, as subclasses of the Callback of this Keras."""
    callback: Any = keras.callbacks.Callback
    by_epoch = type("AverageLogs", (_AverageLogs, callback), {"__doc__": _AverageLogs.__doc__})
    by_batch = type("AverageLogsOfBatches", (_AverageLogsOfBatches, by_epoch), {})
    stop = type("StopTogether", (_StopTogether, callback), {"__doc__": _StopTogether.__doc__})

    def make_stop(in_batches: bool, restores: bool) -> Any:
        if not in_batches:
            return stop(restores)
        batches = type("StopTogetherWithinEpoch", (_StopWithinEpoch, stop), {})
        return batches(restores)

    return (lambda reads_batches: by_batch() if reads_batches else by_epoch()), make_stop


# What metrics tell of one rank and of all, by the prefix that their logs have.
_Told = dict[str, tuple[Results, Results]]


class _AverageLogs:
    """Runs first: makes the epoch's logs the same on all ranks, in place, for whoever reads them later."""

    _lockstep = True
    model: Any

    def set_model(self, model: Any) -> None:
        super().set_model(model)  # type: ignore[misc]
        # XLA cannot hold collectives between workers; Keras chooses it by itself on some devices.
        if getattr(model, "jit_compile", False):
            model.jit_compile = False
        self._rows = row_weights.see_through(model, batch_means.watch)
        self._told: _Told | None = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._rows is not None:
            self._rows.taken()
        # What the metrics have told in this epoch: that of its training until evaluation resets them.
        self._told = {}

    def on_test_begin(self, logs: Any = None) -> None:
        if self._told is not None:
            self._told[""] = results_of(self.model)

    def on_test_end(self, logs: Any = None) -> None:
        # On the whole data each has told all of it already.
        if self._told is not None and evaluation.is_on_parts():
            self._told["val_"] = results_of(self.model)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        check_all_sent()
        rows = self._rows.taken() if self._rows is not None else None
        told: _Told = self._told or {}
        self._told = None
        self._average(logs, rows, told)

    def _average(self, logs: dict[str, Any] | None, rows: float | None, told: _Told) -> None:
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if _are_numbers(value))
        agree("averaging logs", " ".join(names), _ADVICE)
        # Validation has no rows counted, its shards are even.
        weights = [np.float64(1.0 if rows is None or name.startswith("val_") else rows) for name in names]
        values = [np.asarray(logs[name], np.float64) for name in names]
        # Of a rank none of whose rows count, whatever it has.
        weighted = [value * weight if weight else np.zeros_like(value) for value, weight in zip(values, weights)]
        if "" not in told:
            told[""] = results_of(self.model)
        exact = self._exact(logs, told)
        totals, weights = all_reduce([weighted, weights], "sum")
        means = {name: total / weight for name, total, weight in zip(names, totals, weights)}
        logs.update({name: _as_before(mean, logs[name]) for name, mean in {**means, **exact}.items()})

    @staticmethod
    def _exact(logs: dict[str, Any], told: _Told) -> Results:
        """The logs that are what a metric tells: of all ranks, what one metric tells that has seen everything."""
        found = {
            f"{part}{name}": (own[name], value)
            for part, (own, together) in told.items()
            for name, value in together.items()
        }
        names = sorted(name for name in found if name in logs and _are_numbers(logs[name]))
        are_told = [float(np.allclose(np.float64(logs[name]), found[name][0], rtol=1e-5)) for name in names]
        are_told = all_reduce(are_told, "min") if names else []
        return {name: found[name][1] for name, is_told in zip(names, are_told) if is_told}

    def on_train_end(self, logs: Any = None) -> None:
        row_weights.look_away(self.model)


class _AverageLogsOfBatches:
    """Averages the logs behind each batch, too; in Keras these are of the epoch so far."""

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        rows = self._rows.so_far() if self._rows is not None else None  # type: ignore[attr-defined]
        self._average(logs, rows, {})  # type: ignore[attr-defined]


class _StopTogether:
    """Runs last: once one rank wants to stop, all do; and all start from what the chief has restored."""

    _lockstep = True

    def __init__(self, restores: bool) -> None:
        super().__init__()
        self._restores = restores

    def on_train_begin(self, logs: Any = None) -> None:
        if self._restores:
            restoring.go_on_from_chief(self.model)  # type: ignore[attr-defined]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._agree_to_stop()

    def on_train_end(self, logs: Any = None) -> None:
        seed_again()

    def _agree_to_stop(self) -> None:
        model: Any = self.model  # type: ignore[attr-defined]
        model.stop_training = bool(all_reduce(int(bool(model.stop_training)), "max"))


class _StopWithinEpoch:
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._agree_to_stop()  # type: ignore[attr-defined]


def _are_numbers(value: Any) -> bool:
    if isinstance(value, numbers.Number):
        return not isinstance(value, complex)
    return hasattr(value, "shape") and np.asarray(value).dtype.kind in "fiu"


def _as_before(value: Any, log: Any) -> Any:
    """The value as a log is: a number, or an array of its dtype."""
    return np.asarray(value, np.asarray(log).dtype) if np.ndim(log) else float(value)
