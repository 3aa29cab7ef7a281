"""metric_result: what a Keras metric makes of all that the workers have seen.

Keras metrics keep sums and counts (of a confusion matrix, of squares), so the sums of the workers' states are the
state of one metric that has seen everything.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.collectives.reduction import all_reduce


def metric_result(metric: Any) -> Any:
    variables = list(getattr(metric, "variables", ()))
    if not variables or not callable(getattr(metric, "result", None)):
        raise TypeError(f"lockstep.metric_result takes a Keras metric, not {type(metric).__name__}")
    own = [tf.identity(variable) for variable in variables]
    for variable, total in zip(variables, all_reduce(own, "sum")):
        variable.assign(total)
    try:
        return tf.nest.map_structure(tf.identity, metric.result())
    finally:
        for variable, value in zip(variables, own):
            variable.assign(value)
