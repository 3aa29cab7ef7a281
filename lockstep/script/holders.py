"""What has variables of its own, found in all that may hold it: lists, dicts, modules, checkpoints, plain objects."""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from lockstep.script.variables import each_once, is_variable, layer_class, variables_of

# Objects of these packages hold no model of the script, but much else.
_CLOSED = {"builtins", "concurrent", "logging", "multiprocessing", "numpy", "pandas", "scipy", "threading"}
_OF_TENSORFLOW = {"tensorflow", "keras", "tf_keras"}
_CONTAINERS = (dict, list, tuple, collections.deque, functools.partial)
_HOLDERS = (tf.Module, tf.train.Checkpoint, tf.train.CheckpointManager)


def owners_in(value: Any) -> list[Any]:
    """The models, layers, optimizers and loose variables in a value, each once, in the same order on all ranks."""
    return each_once(_owners(value, set()))


def all_owners_in(value: Any) -> list[Any]:
    """With those that the models and layers among them hold where Keras does not look, and that these hold there."""
    found = owners_in(value)
    for owner in found:  # which grows
        if layer_class(owner) is not None:
            known = {id(other) for other in found}
            found += [hidden for hidden in hidden_in(owner) if id(hidden) not in known]
    return found


def variables_held_by(layer: Any) -> list[Any]:
    """All variables of a layer or model with those that Keras 3 does not list: `self.centres = tf.Variable(…)`."""
    return each_once([*variables_of(layer), *(held for held in hidden_in(layer) if is_variable(held))])


def hidden_in(layer: Any) -> Iterator[Any]:
    """What the attributes of a layer and its parts hold that Keras does not track.

    It sees what is assigned to an attribute, in lists and dicts too, and nothing that is set otherwise
    (`self.__dict__.update(…)`), or is in an object, a module of TensorFlow or an attribute of the class.
    """
    parts = list(layer._flatten_layers())
    seen = {id(known) for known in (*parts, *variables_of(layer))}
    for part in parts:
        for held in _attributes(part):
            if not _holds_nothing(held.__class__):
                yield from _owners(held, seen)


def is_module(value: Any) -> bool:
    """Whether this is a tf.Module that is no layer and no optimizer: its attributes may be anything."""
    return isinstance(value, tf.Module) and not _has_variables_of_its_own(value)


def modules_in(value: Any) -> list[Any]:
    """The outermost of the tf.Modules in a value."""
    return list(_modules(value, set()))


def _has_variables_of_its_own(value: Any) -> bool:
    if is_variable(value) or layer_class(value) is not None:
        return True
    return hasattr(value, "apply_gradients") and hasattr(value, "variables")


def _owners(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if _has_variables_of_its_own(value):
        yield value
    else:
        for part in _parts(value):
            if not _holds_nothing(part.__class__):
                yield from _owners(part, seen)


@functools.cache
def _holds_nothing(cls: type) -> bool:
    """Whether no object of this class is or holds a variable: most of what layers have, which are looked at often."""
    if issubclass(cls, (*_CONTAINERS, *_HOLDERS, tf.Variable)) or not _is_closed(cls):
        return False
    return not any(hasattr(cls, name) for name in ("_maybe_build", "assign", "apply_gradients"))


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
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, tf.train.CheckpointManager):
        return [value.checkpoint]
    if isinstance(value, tf.train.Checkpoint):
        value.save_counter  # noqa: B018 - which makes the counter, where it was not restored
    elif not isinstance(value, tf.Module) and not _is_of_script(value):
        return []
    if any(cls.__name__ == "Metric" and _is_closed(cls) for cls in type(value).__mro__):
        return [part for part in vars(value).values() if layer_class(part) is not None]  # what it counted is local
    return _attributes(value)


def _attributes(value: Any) -> list[Any]:
    """Of an object and of its classes, as far as these are the script's."""
    classes = _classes_of_script(value.__class__)
    slots = [name for cls in classes for name in _names(vars(cls).get("__slots__", ()))]
    own = [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in slots)]
    return own + [held for cls in classes for held in vars(cls).values()]


@functools.cache
def _classes_of_script(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if not _is_closed(each)]


def _names(slots: Any) -> list[str]:
    return [slots] if isinstance(slots, str) else list(slots)


def _is_of_script(value: Any) -> bool:
    if isinstance(value, (type, types.ModuleType, types.FunctionType, types.MethodType)):
        return False
    return not _is_closed(type(value))


def _is_closed(cls: type) -> bool:
    return cls.__module__.split(".")[0] in _CLOSED | _OF_TENSORFLOW
