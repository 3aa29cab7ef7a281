"""Gradients of collectives, for losses and forward passes that use them.

The convention: the ranks' gradients are averaged afterwards, weighted by w_r where their shards are uneven. What every
rank has computed from the values of all, y = f(x_1, ..., x_N), stands for one value of the one-process run. Its
gradient there, u, is the mean of w_r u_r over the ranks, each of which may have gone on with y in a way of its own. The
gradient with respect to this rank's x_r is u dy/dx_r; x_r gets it N / w_r times, so that averaging leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python import pywrap_tfe

from lockstep.backends import registers
from lockstep.collectives.world import backend
from lockstep.shards import step_rows

Backward = Callable[[list[Any]], Sequence[Any]]


def with_gradient(sources: Sequence[Any], results: Sequence[Any], backward: Backward) -> list[Any]:
    """The results, whose gradients flow to the sources.

    backward: from the results' gradients in the one-process run to those of the sources there.
    """
    if not sources or (tf.executing_eagerly() and pywrap_tfe.TFE_Py_TapeSetIsEmpty()):
        return list(results)

    handles = registers.captured()

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def attached(*tensors: Any) -> Any:
        def gradient(*upstream: Any) -> Any:
            with registers.by(handles):
                own = [_times_share(one) for one in backward(of_all_ranks(upstream))]
            return [*own, *([None] * len(results))]

        return [tf.identity(tensor) for tensor in tensors[len(sources) :]], gradient

    return list(attached(*sources, *(tf.stop_gradient(result) for result in results)))


def is_differentiable(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def of_all_ranks(upstream: Sequence[Any]) -> list[Any]:
    """The mean of the ranks' gradients with respect to one and the same value; can be differentiated in turn."""
    rows = step_rows.current()
    own = [tf.convert_to_tensor(one) for one in upstream]
    if rows is not None:
        own = [_where_counting(one * tf.cast(rows.weight, one.dtype), rows) for one in own]
    means = backend().reduce(own, "mean")
    return with_gradient(own, means, lambda gradients: [one / backend().size for one in gradients])


def _times_share(gradient: Any) -> Any:
    rows = step_rows.current()
    gradient = gradient * tf.cast(backend().size, gradient.dtype)
    if rows is None:
        return gradient
    return _where_counting(gradient / tf.cast(rows.weight, gradient.dtype), rows)


def sample_gradients(gradients: Any) -> Any:
    """Gradients with respect to this rank's rows in the one-process run, of a loss that collectives have made."""
    return tf.nest.map_structure(_without_share, gradients)


def _without_share(gradient: Any) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(_without_share(gradient.values), gradient.indices, gradient.dense_shape)
    gradient = tf.convert_to_tensor(gradient)
    rows = step_rows.current()
    gradient = gradient / tf.cast(backend().size, gradient.dtype)
    return gradient if rows is None else gradient * tf.cast(rows.weight, gradient.dtype)


def _where_counting(value: Any, rows: step_rows.StepRows) -> Any:
    return tf.where(rows.counting > 0, value, tf.zeros_like(value))


def of_reduced(tensors: Sequence[Any], totals: Sequence[Any], reduction: str) -> Backward:
    """The backward of reducing tensors to totals."""

    def backward(upstream: list[Any]) -> list[Any]:
        if reduction == "mean":
            return [one / tf.cast(backend().size, one.dtype) for one in upstream]
        if reduction == "sum":
            return upstream
        if reduction == "prod":
            raise TypeError('lockstep.all_reduce: the product over the workers, reduction="prod", has no gradient')
        # As tf.reduce_max: those that have the extreme share its gradient.
        extreme = [tf.cast(own == total, own.dtype) for own, total in zip(tensors, totals)]
        counts = backend().reduce(extreme, "sum")
        return [one * own / count for one, own, count in zip(upstream, extreme, counts)]

    return backward


def of_gathered(first: Any, rows: Any) -> Backward:
    """The backward of gathering this rank's rows, which lie from `first` on in what is gathered."""
    return lambda upstream: [one[first : first + rows] for one in upstream]
