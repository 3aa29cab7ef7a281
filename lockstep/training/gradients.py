"""The reduction that a training step makes: of its gradients, and with them of what else has to stay equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep.collectives.reduction import all_reduce
from lockstep.collectives.world import backend
from lockstep.data import row_weights
from lockstep.script.variables import assign, values_of
from lockstep.training.statistics import moving_statistics
from lockstep.weights import consistency, samples
from lockstep.weights.sending import send_before_update


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def reduce_in_step(values: Any, reduction: str, updated: Sequence[Any] = ()) -> Any:
    """`all_reduce` of what a step computed before it updates the variables `updated`, where these are known.

    The moving statistics of BatchNormalization travel in the same buckets and are averaged in place: they have
    been written in the step's forward pass, and their mean over the ranks is what one process would have written
    (of the variance, all but the part that lies between the ranks' means).
    """
    send_before_update()
    consistency.compare_weights(updated)
    if reduction not in ("mean", "sum"):
        return all_reduce(values, reduction)
    values = row_weights.weigh(values) if reduction == "mean" else row_weights.count_once(values)
    variables, sample = moving_statistics(), samples.sample(values, updated)
    if not variables and sample is None:
        return all_reduce(values, reduction)
    to_mean = 1.0 if reduction == "mean" else 1.0 / backend().size
    beside = [*values_of(variables), *([sample.entries] if sample else [])]
    values, means = all_reduce([values, [value * to_mean for value in beside]], reduction)
    for variable, mean in zip(variables, means):
        assign(variable, mean)
    if sample:
        sample.check(means[-1])
    return values
