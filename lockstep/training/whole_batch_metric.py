"""whole_batch_metric: a Keras metric that every worker updates with the rows of all."""

from __future__ import annotations

import functools
import types
from typing import Any

import tensorflow as tf

from lockstep.script import evaluation, which_keras
from lockstep.script.disguise import become, disguised
from lockstep.script.metrics import WHOLE_MARK, is_metric, is_whole
from lockstep.shards import step_rows
from lockstep.training.whole_batch import gathered, has_rows

_OF_METRIC = "_lockstep_update_state"


def whole_batch_metric(metric: Any) -> Any:
    if metric is None or is_whole(metric):
        return metric
    keras = which_keras.in_use(*([metric] if is_metric(metric) else []))
    evaluation.watch()
    if isinstance(metric, (str, dict, type)):
        metric = keras.metrics.get(metric)
        metric = metric() if isinstance(metric, type) else metric
    if is_metric(metric):
        return _whole(metric)
    if not callable(metric):
        raise TypeError(f"lockstep.whole_batch_metric takes a Keras metric, its name or a function, not {metric!r}")
    # As Keras makes one of a function that it is given.
    name = getattr(metric, "__name__", None) or getattr(metric, "name", None) or type(metric).__name__
    return _whole(keras.metrics.MeanMetricWrapper(metric, name=name))


def _whole(metric: Any) -> Any:
    # A copy has the method of what it is a copy of.
    update = types.MethodType(getattr(metric.update_state, _OF_METRIC, None) or metric.update_state.__func__, metric)

    def update_state(*args: Any, **kwargs: Any) -> Any:
        if not evaluation.is_on_whole_data():
            args, kwargs = gathered(_that_count((args, kwargs)))
        return update(*args, **kwargs)

    setattr(update_state, _OF_METRIC, update.__func__)
    # Past Keras 2, which wraps the method of each instance, and takes what is set for a part of the metric.
    vars(metric)["update_state"] = update_state
    cls: Any = type(metric)
    become(metric, _whole_class(cls))
    return metric


@functools.cache
def _whole_class(cls: Any) -> type:
    def from_config(config: Any) -> Any:
        return _whole(cls.from_config(config))

    return disguised(cls, {"from_config": staticmethod(from_config), WHOLE_MARK: True}, _whole)


def _that_count(values: Any) -> Any:
    """Nested arguments without the rows that another worker has too."""
    rows = step_rows.current()
    if rows is None:
        return values
    return tf.nest.map_structure(lambda value: _first_rows(value, rows.counting), values)


def _first_rows(value: Any, count: Any) -> Any:
    if not has_rows(value):
        return value
    first, mask = value[:count], getattr(value, "_keras_mask", None)
    if mask is not None:
        first._keras_mask = mask[:count]
    return first
