"""What Keras metrics make of all that the workers have seen: of one by itself, and of those of a model in `fit`.

Keras metrics keep sums and counts (of a confusion matrix, of squares), so the sums of the workers' states are the
state of one metric that has seen everything.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.reduction import all_reduce
from lockstep.script.metrics import each, is_whole
from lockstep.shards import step_rows
from lockstep.weights.sending import all_see_all_rows

_KERAS = ("keras.", "tf_keras.", "tensorflow.python.keras.")


def metric_result(metric: Any) -> Any:
    variables = list(getattr(metric, "variables", ()))
    if not variables or not callable(getattr(metric, "result", None)):
        raise TypeError(f"lockstep.metric_result takes a Keras metric, not {type(metric).__name__}")
    if is_whole(metric) or all_see_all_rows():
        return metric.result()
    step_rows.settle()
    with _summed(variables):
        return tf.nest.map_structure(tf.identity, metric.result())


Results = dict[str, "np.ndarray[Any, Any]"]


def results_of(model: Any) -> tuple[Results, Results]:
    """What the metrics of the model tell of this rank's samples, and of those of all ranks, by the names of logs.

    Of all ranks only where Keras's own metrics differ from rank to rank: what a metric of the script's keeps need not
    be sums.
    """
    own = _arrays(_told(model))
    with _summed(_summed_states(model)):
        together = _arrays(_told(model))
    names = sorted(own)
    differs = all_reduce([float(_are_apart(own[name], together[name])) for name in names], "max") if names else []
    return own, {name: together[name] for name, apart in zip(names, differs) if apart}


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def of_all_ranks(model: Any, logs: dict[str, Any]) -> dict[str, Any]:
    """What a step returns of the metrics of its model, which tell of the epoch so far: what they tell of the samples of
    all ranks."""
    with _summed(_summed_states(model)):
        together = {name: tf.identity(value) for name, value in _told(model).items()}
    return {name: together.get(name, value) for name, value in logs.items()}


def _summed_states(model: Any) -> list[Any]:
    if all_see_all_rows():
        return []
    return [v for metric in each(model.metrics) if _is_summed(metric) for v in metric.variables]


@contextlib.contextmanager
def _summed(variables: Sequence[Any]) -> Iterator[None]:
    """Inside, the variables hold their sums over the ranks."""
    own = [tf.identity(variable) for variable in variables]
    for variable, total in zip(variables, all_reduce(own, "sum") if own else ()):
        variable.assign(total)
    try:
        yield
    finally:
        for variable, value in zip(variables, own):
            variable.assign(value)


def _arrays(told: dict[str, Any]) -> Results:
    return {name: np.asarray(value) for name, value in told.items()}


def _told(model: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric in model.metrics:
        result = metric.result()
        found.update(result if isinstance(result, dict) else {metric.name: result})
    return found


def _is_summed(metric: Any) -> bool:
    """Whether the metric is Keras's own, and has seen this rank's rows alone."""
    return f"{type(metric).__module__}.".startswith(_KERAS) and not is_whole(metric)


def _are_apart(one: Any, other: Any) -> bool:
    return not np.array_equal(one, other, equal_nan=True)
