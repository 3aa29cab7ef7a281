"""What has variables of its own, found in all that may hold it: lists, dicts, modules, checkpoints, plain objects."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.script.variables import is_keras_variable, layer_class

# Objects of these packages hold no model of the script, but much else.
_CLOSED = {"builtins", "concurrent", "logging", "multiprocessing", "numpy", "pandas", "scipy", "threading"}
_OF_TENSORFLOW = {"tensorflow", "keras", "tf_keras"}


def owners_in(value: Any) -> list[Any]:
    """The models, layers, optimizers and loose variables in a value, each once, in the same order on all ranks."""
    return list({id(owner): owner for owner in _owners(value, set())}.values())


def is_module(value: Any) -> bool:
    """Whether this is a tf.Module that is no layer and no optimizer: its attributes may be anything."""
    return isinstance(value, tf.Module) and not _has_variables_of_its_own(value)


def modules_in(value: Any) -> list[Any]:
    """The outermost of the tf.Modules in a value."""
    return list(_modules(value, set()))


def _has_variables_of_its_own(value: Any) -> bool:
    if isinstance(value, tf.Variable) or is_keras_variable(value) or layer_class(value) is not None:
        return True
    return hasattr(value, "apply_gradients") and hasattr(value, "variables")


def _owners(value: Any, seen: set[int]) -> Iterator[Any]:
    if _has_variables_of_its_own(value):
        yield value
    elif id(value) not in seen:
        seen.add(id(value))
        for part in _parts(value):
            yield from _owners(part, seen)


def _modules(value: Any, seen: set[int]) -> Iterator[Any]:
    if is_module(value):
        yield value
    elif id(value) not in seen and not _has_variables_of_its_own(value):
        seen.add(id(value))
        for part in _parts(value):
            yield from _modules(part, seen)


def _parts(value: Any) -> list[Any]:
    """What a container, a module, a checkpoint or an object of the script holds."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, collections.deque)):
        return list(value)
    if isinstance(value, tf.train.CheckpointManager):
        return [value.checkpoint]
    if isinstance(value, tf.train.Checkpoint):
        value.save_counter  # noqa: B018 - which makes the counter, where it was not restored
    elif not isinstance(value, tf.Module) and not _is_of_script(value):
        return []
    slots = [name for cls in type(value).__mro__ for name in _names(getattr(cls, "__slots__", ()))]
    return [*vars(value).values()] if hasattr(value, "__dict__") else [getattr(value, name, None) for name in slots]


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _is_of_script(value: Any) -> bool:
    if isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
        return False
    return type(value).__module__.split(".")[0] not in _CLOSED | _OF_TENSORFLOW
