"""distributed_optimizer: an optimizer that reduces gradients over the workers before it applies them.

The instance stays what it is; only its type becomes a subclass of its own class, which it still names as its
`__class__`, so that saving, restoring and isinstance go on as before. The gradients are reduced before the
optimizer's own work, hence before clipping, weight decay and accumulation.
"""

from __future__ import annotations

import functools
from typing import Any

from lockstep.collectives.reduction import check_reduction
from lockstep.data.row_weights import watch_fit
from lockstep.script import which_keras
from lockstep.script.disguise import become, disguised
from lockstep.training import steps
from lockstep.training.gradients import reduce_in_step

_MARK = "_lockstep_reduction"
_classes: dict[tuple[type, str], type] = {}
_hoisting: set[type] = set()
_reduced: set[int] = set()  # the optimizers, by id, whose apply_gradients runs with gradients that are reduced already


def distributed_optimizer(optimizer: Any, reduction: str) -> Any:
    if reduction not in ("mean", "sum"):
        raise ValueError(f'reduction must be "mean" or "sum", not {reduction!r}')
    check_reduction(reduction)
    watch_fit()
    steps.watch()
    if isinstance(optimizer, (list, tuple)):
        return type(optimizer)(distributed_optimizer(one, reduction) for one in optimizer)
    if isinstance(optimizer, dict) and "class_name" not in optimizer:
        return {name: distributed_optimizer(one, reduction) for name, one in optimizer.items()}
    if isinstance(optimizer, (str, dict)):
        optimizer = which_keras.in_use().optimizers.get(optimizer)
    if isinstance(optimizer, type) or not hasattr(optimizer, "apply_gradients"):
        raise TypeError(
            "lockstep.distributed_optimizer takes an optimizer (an instance with apply_gradients) or the "
            f"name of a Keras optimizer, not {optimizer!r}"
        )
    if not is_distributed(optimizer):
        _make_distributed(optimizer, reduction)
        _hoist_out_of_loss_scaling(optimizer)
    return optimizer


def is_distributed(optimizer: Any) -> bool:
    """Whether this optimizer, or the one that it wraps, reduces gradients over the workers by itself."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return hasattr(type(optimizer), _MARK) or (inner is not None and hasattr(type(inner), _MARK))


def _make_distributed(optimizer: Any, reduction: str) -> None:
    cls = type(optimizer)
    if (cls, reduction) not in _classes:
        _classes[cls, reduction] = _distributed_class(cls, reduction)
    become(optimizer, _classes[cls, reduction])


def _distributed_class(cls: Any, reduction: str) -> type:
    def apply(self: Any, grads: Any, trainable_variables: Any = None, **kwargs: Any) -> Any:
        if id(self) in _reduced:
            return cls.apply(self, grads, trainable_variables, **kwargs)
        reduced = reduce_in_step(list(grads), reduction, trainable_variables or ())
        return cls.apply(self, reduced, trainable_variables, **kwargs)

    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) in _reduced:
            return cls.apply_gradients(self, grads_and_vars, *args, **kwargs)
        pairs = [tuple(pair) for pair in grads_and_vars]
        reduced = reduce_in_step([gradient for gradient, _ in pairs], reduction, [variable for _, variable in pairs])
        _reduced.add(id(self))
        try:
            return cls.apply_gradients(self, list(zip(reduced, (v for _, v in pairs))), *args, **kwargs)
        finally:
            _reduced.discard(id(self))

    # In Keras 3 apply_gradients ends in apply, which users may call too; elsewhere there is no apply. A class of the
    # script's own may work on the gradients in its apply_gradients: it gets them reduced.
    methods: list[Any] = [apply] if _applies_by(cls) == "apply" else []
    if not methods or not _is_keras_own(cls.apply_gradients):
        methods.append(apply_gradients)

    members = {method.__name__: functools.wraps(getattr(cls, method.__name__))(method) for method in methods}
    return disguised(cls, {**members, _MARK: reduction}, lambda plain: distributed_optimizer(plain, reduction))


def _is_keras_own(method: Any) -> bool:
    return method.__module__.partition(".")[0] in ("keras", "tf_keras", "tensorflow")


def _applies_by(cls: Any) -> str:
    return "apply" if callable(getattr(cls, "apply", None)) else "apply_gradients"


def _hoist_out_of_loss_scaling(optimizer: Any) -> None:
    """Make sure that a loss scaler around this optimizer reduces, not the optimizer inside.

    Under mixed_float16 Keras itself puts the compiled optimizer into a LossScaleOptimizer, which calls the
    inner one only on a step whose gradients are finite: a rank that overflows alone would skip a collective
    that the others wait in. So reducing moves to the scaler as soon as the scaler is used.
    """
    for scaler in which_keras.loss_scalers(optimizer):
        if scaler not in _hoisting:
            _hoisting.add(scaler)
            _extend(scaler, _applies_by(scaler))


def _extend(scaler: Any, method: str) -> None:
    original = getattr(scaler, method)

    @functools.wraps(original)
    def hoisting(self: Any, *args: Any, **kwargs: Any) -> Any:
        inner = getattr(self, "inner_optimizer", None)
        reduction = getattr(type(inner), _MARK, None)
        if reduction is None or hasattr(type(self), _MARK):
            return original(self, *args, **kwargs)
        become(inner, type(inner).__bases__[0])
        _make_distributed(self, reduction)
        return getattr(self, method)(*args, **kwargs)

    setattr(scaler, method, hoisting)
