"""What metrics are told in a step that is seen through: a number for each batch, or rows.

A Mean that is told one number of each batch, and a metric that Keras has made of a function that gives one: one process
counts a batch once, whatever its rows. So does a step of the script's own tell its loss, and Keras 3 those of several
outputs. Where the ranks have unequally many of them, each rank's number counts by these, and that of a rank without
rows not at all. A metric that is told the rows of all ranks counts them on each, also where it has none.

What the step returns of its metrics, callbacks may decide by: they tell of what counts, when they are asked already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.data.row_weights import weigh
from lockstep.script.metrics import each, is_whole
from lockstep.script.wrapping import wraps
from lockstep.shards import step_rows

_MARK = "_lockstep_by_batch"


def watch(model: Any) -> None:
    """Have the metrics of the model tell what they are told in a step that is seen through, its Means weigh the numbers
    among that, and all give their results by what counts."""
    of_outputs = {id(metric) for metric in getattr(getattr(model, "_compile_loss", None), "metrics", ())}
    for metric in each(model.metrics):
        if not (is_whole(metric) or hasattr(metric.update_state, _MARK)):
            _watch(metric, is_mean=type(metric).__name__ == "Mean", is_of_output=id(metric) in of_outputs)


def _watch(metric: Any, *, is_mean: bool, is_of_output: bool) -> None:
    update = metric.update_state

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    @wraps(update)
    def update_mean(values: Any, sample_weight: Any = None, **kwargs: Any) -> Any:
        rows = step_rows.current()
        if rows is not None and is_of_output and not tf.executing_eagerly():
            # Keras counts rows where it traces batches of one known size (`CompileLoss.call`), as those of one rank may
            # be; one process then has batches of one size, too, and those may as well count once.
            sample_weight = None
        if rows is not None and sample_weight is None and tf.convert_to_tensor(values).shape.rank == 0:
            rows.by_batch.update(id(variable) for variable in metric.variables)
            return update(weigh(values), sample_weight, **kwargs)
        return update_state(values, sample_weight, **kwargs)

    @wraps(update)
    def update_state(*args: Any, **kwargs: Any) -> Any:
        with _weighing(metric):
            result = update(*args, **kwargs)
        rows, told = step_rows.current(), next(filter(_has_rows, args), None)
        if rows is not None and told is not None:
            rows.note_told(metric.variables, told)
        return result

    told = update_mean if is_mean else update_state
    result = metric.result

    @wraps(result)
    def result_of_counting(*args: Any, **kwargs: Any) -> Any:
        step_rows.settle()
        return result(*args, **kwargs)

    setattr(told, _MARK, True)
    # Past Keras 2, which takes what is set for a part of the metric.
    vars(metric).update(update_state=told, result=result_of_counting)


@contextlib.contextmanager
def _weighing(metric: Any) -> Iterator[None]:
    """Inside, the function of which Keras has made the metric weighs the number that it gives, if it gives one."""
    function, rows = vars(metric).get("_fn"), step_rows.current()
    if function is None or rows is None:
        yield
        return

    @wraps(function)
    def of_batch(*args: Any, **kwargs: Any) -> Any:
        values = function(*args, **kwargs)
        if tf.convert_to_tensor(values).shape.rank != 0:
            return values
        rows.by_batch.update(id(variable) for variable in metric.variables)
        return weigh(values)

    vars(metric)["_fn"] = of_batch
    try:
        yield
    finally:
        vars(metric)["_fn"] = function


def _has_rows(value: Any) -> bool:
    """Whether it is seen to be no single number."""
    return tf.is_tensor(value) and bool(value.shape.rank)
