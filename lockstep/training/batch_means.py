"""Means over batches: a Mean that a step of the script's own tells one number of each batch, its loss say.

One process counts a batch once, whatever its rows. Where the ranks have unequally many of them, each rank's number
counts by these, and that of a rank without rows not at all.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from lockstep.data.row_weights import weigh
from lockstep.script.metrics import each
from lockstep.script.wrapping import wraps
from lockstep.shards import step_rows

_MARK = "_lockstep_by_batch"


def watch(model: Any) -> None:
    """Have the Means of the model weigh the numbers that they are told in a step that is seen through."""
    for metric in each(model.metrics):
        if type(metric).__name__ == "Mean" and not hasattr(metric.update_state, _MARK):
            _watch(metric)


def _watch(metric: Any) -> None:
    update = metric.update_state

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    @wraps(update)
    def update_state(values: Any, sample_weight: Any = None, **kwargs: Any) -> Any:
        rows = step_rows.current()
        if rows is not None and sample_weight is None and tf.convert_to_tensor(values).shape.rank == 0:
            rows.by_batch.update(id(variable) for variable in metric.variables)
            values = weigh(values)
        return update(values, sample_weight, **kwargs)

    setattr(update_state, _MARK, True)
    vars(metric)["update_state"] = update_state  # past Keras 2, which takes what is set for a part of the metric
