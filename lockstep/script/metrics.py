"""What a Keras metric is: the metrics that it is made of, and which rows it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

# On the class of a metric that every rank updates with the rows of all.
WHOLE_MARK = "_lockstep_whole_batch_metric"


def is_metric(value: Any) -> bool:
    """Whether it is one of any Keras."""
    return any(cls.__name__ == "Metric" for cls in type(value).__mro__)


def is_whole(metric: Any) -> bool:
    """Whether the metric has seen the rows of all ranks."""
    return hasattr(type(metric), WHOLE_MARK)


def each(metrics: Iterable[Any]) -> Iterator[Any]:
    """The metrics, and those that a metric is made of, as Keras 3 keeps what is compiled."""
    for metric in metrics:
        inner = list(getattr(metric, "metrics", ()))
        if inner:
            yield from each(inner)
        else:
            yield metric
