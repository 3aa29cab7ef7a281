"""whole_batch: a loss that every worker computes from the rows of all."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep.collectives.gathering import all_gather
from lockstep.script import evaluation, which_keras
from lockstep.script.disguise import become, disguised
from lockstep.script.wrapping import wraps

_MARK = "_lockstep_whole_batch"
_classes: dict[type, type] = {}


def whole_batch(loss: Any) -> Any:
    if loss is None or hasattr(type(loss), _MARK):
        return loss
    if isinstance(loss, dict) and "class_name" not in loss:
        return type(loss)([(name, whole_batch(one)) for name, one in loss.items()])
    if isinstance(loss, (list, tuple)):
        return type(loss)(whole_batch(one) for one in loss)
    evaluation.watch()
    if isinstance(loss, (str, dict, type)):
        loss = which_keras.in_use().losses.get(loss)
        loss = loss() if isinstance(loss, type) else loss
    if _is_loss_object(loss):
        return _whole(_twin(loss))
    if not callable(loss):
        raise TypeError(f"lockstep.whole_batch takes losses, their names, or lists and dicts of them, not {loss!r}")
    return _of_function(loss)


def _is_loss_object(loss: Any) -> bool:
    return any(cls.__name__ == "Loss" for cls in type(loss).__mro__)


def _twin(loss: Any) -> Any:
    """Another object that keeps what the loss keeps, so that the script may set it by that. Keras would write the loss
    down and read it back, which needs its class to be registered."""
    twin = object.__new__(type(loss))
    object.__setattr__(twin, "__dict__", vars(loss))
    return twin


def _whole(loss: Any) -> Any:
    become(loss, _whole_class(type(loss)))
    return loss


def _whole_class(cls: Any) -> type:
    if cls not in _classes:
        _classes[cls] = _new_whole_class(cls)
    return _classes[cls]


def _new_whole_class(cls: Any) -> type:
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        args, kwargs = _of_all(args, kwargs)
        function = getattr(self, "_lockstep_function", None)
        if function is not None and len(args) == 2 and "sample_weight" not in kwargs:
            return function(*args, **kwargs)  # a loop of the script calls it; Keras gives weights, or None
        return cls.__call__(self, *args, **kwargs)

    return disguised(cls, {"__call__": __call__, _MARK: True}, _whole)


def _of_function(function: Any) -> Any:
    """The function of gathered values; one of labels and predictions is also a loss object, for `compile`."""
    if _takes_two(function):
        wrapper = which_keras.in_use().losses.MeanSquaredError.__bases__[0]
        loss = wrapper(function, name=_name_of(function))
        loss._lockstep_function = function
        return _whole(loss)

    @wraps(function)
    def whole(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _of_all(args, kwargs)
        return function(*args, **kwargs)

    return whole


def _of_all(args: Any, kwargs: Any) -> Any:
    return (args, kwargs) if evaluation.is_on_whole_data() else gathered((args, kwargs))


def _name_of(function: Any) -> str:
    """The name of a loss object, which becomes a scope of the graph; as Keras makes it for functions: "lambda"."""
    name = getattr(function, "__name__", type(function).__name__)
    return re.sub(r"\W+", "", name).strip("_") or "loss"


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a function that is not written in Python
        return True
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    return len([p for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]) == 2


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def gathered(values: Any) -> Any:
    """Nested arguments with the rows of all workers in place of this one's; masks of Keras come along."""
    flat = tf.nest.flatten(values)
    chosen = [i for i, value in enumerate(flat) if has_rows(value)]
    masks = [getattr(flat[i], "_keras_mask", None) for i in chosen]
    sent = [_parts(flat[i]) for i in chosen]
    rows = all_gather([*sent, *masks])
    for i, parts, mask in zip(chosen, rows, rows[len(sent) :]):
        flat[i] = parts[0] if len(parts) == 1 else tf.RaggedTensor.from_row_lengths(*parts)
        if mask is not None:
            flat[i]._keras_mask = mask
    return tf.nest.pack_sequence_as(values, flat)


def has_rows(value: Any) -> bool:
    if isinstance(value, tf.RaggedTensor):
        return True
    return (tf.is_tensor(value) or isinstance(value, np.ndarray)) and len(value.shape) > 0


def _parts(value: Any) -> list[Any]:
    """A tensor, or what makes a ragged one: its values and the lengths of its rows."""
    if isinstance(value, tf.RaggedTensor):
        if value.ragged_rank > 1:
            raise TypeError("lockstep.whole_batch gathers ragged tensors of one ragged dimension")
        return [value.values, value.row_lengths()]
    return [tf.convert_to_tensor(value)]
