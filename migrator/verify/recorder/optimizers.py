"""Every update by an optimizer, of Keras 3, Keras 2, tf_keras and tf.compat.v1; and the epochs of `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from types import ModuleType
from typing import Any

from migrator.verify.recorder.journal import Journal
from migrator.verify.recorder.values import plain_variable


def watch_tensorflow(tensorflow: ModuleType, journal: Journal) -> None:
    _watch(tensorflow.compat.v1.train.Optimizer, journal)


def watch_keras(keras: ModuleType, journal: Journal) -> None:
    optimizers = keras.optimizers
    for namespace in (optimizers, getattr(optimizers, "legacy", None), getattr(optimizers, "experimental", None)):
        cls = getattr(namespace, "Optimizer", None)
        if isinstance(cls, type):
            _watch(cls, journal)
    schedule = getattr(getattr(optimizers, "schedules", None), "LearningRateSchedule", None)
    if schedule is not None and schedule.__new__ is object.__new__:

        def __new__(cls: Any, *_: Any, **__: Any) -> Any:  # noqa: N807
            made = object.__new__(cls)
            journal.made(made)
            return made

        schedule.__new__ = __new__


def watch_epochs(keras: ModuleType, journal: Journal) -> None:
    """`History`, which every `fit` has, is told last."""
    original = keras.callbacks.History.on_epoch_end

    @wraps(original)
    def on_epoch_end(history: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(history, *args, **kwargs)
        journal.finished_epoch()
        return result

    keras.callbacks.History.on_epoch_end = on_epoch_end


def _watch(cls: Any, journal: Journal) -> None:
    """Hook the method through which the class and all its subclasses update variables: what subclasses and wrappers
    do before, such as reducing gradients over workers, has been done when it is called."""
    method = "apply" if callable(getattr(cls, "apply", None)) else "apply_gradients"
    owner = next((base for base in reversed(cls.__mro__) if method in vars(base)), None)
    if owner is None or hasattr(vars(owner)[method], "_is_recorded"):
        return
    original = vars(owner)[method]
    _watch_making(cls, journal)

    @wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None, **kwargs: Any) -> Any:
        gradients = list(grads)
        variables = list(trainable_variables or getattr(self, "_trainable_variables", ()))
        return journal.update(
            self,
            variables,
            gradients,
            lambda: list(_slots(self, variables)),
            lambda: original(self, gradients, trainable_variables, **kwargs),
        )

    @wraps(original)
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = [tuple(pair) for pair in grads_and_vars]
        variables = [variable for _, variable in pairs]
        return journal.update(
            self,
            variables,
            [gradient for gradient, _ in pairs],
            lambda: list(_slots(self, variables)),
            lambda: original(self, pairs, *args, **kwargs),
        )

    recorded: Any = apply if method == "apply" else apply_gradients
    recorded._is_recorded = True
    setattr(owner, method, recorded)


def _watch_making(cls: Any, journal: Journal) -> None:
    start = cls.__init__

    @wraps(start)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        journal.made(self)
        start(self, *args, **kwargs)

    cls.__init__ = __init__


def _slots(optimizer: Any, variables: list[Any]) -> Iterator[Any]:
    """The state that the optimizer keeps of its variables: all of its own that have the shape of one."""
    own = getattr(optimizer, "variables", ())
    shapes = {tuple(variable.shape) for variable in variables}
    trained = {id(plain_variable(variable)) for variable in variables}
    for slot in own() if callable(own) else own:
        plain = plain_variable(slot)
        if plain is None or not plain.dtype.is_floating or id(plain) in trained:
            continue
        if tuple(plain.shape) in shapes and "learning_rate" not in plain.name:
            yield plain
