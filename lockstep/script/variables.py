"""Finding the variables behind what users hand over: models, layers, optimizers, modules, nested lists."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

_kept: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()  # by the graph that reads them


def storage(variable: Any) -> Any | None:
    """The tf.Variable that holds a variable's value, None if there is none (yet).

    Keras wraps its variables: reading through the wrapper casts under mixed precision, and writing through
    it while Keras traces "statelessly" is lost, so weights are always read and written here.
    """
    if is_keras_variable(variable):
        variable = variable._value
    elif isinstance(variable, tf.Variable):
        variable = getattr(variable, "_variable", variable)
    return variable if isinstance(variable, tf.Variable) else None


def has_value(variable: Any) -> bool:
    """Whether there is a value to send: variables made while a function is traced get theirs later."""
    store = storage(variable)
    if store is None:
        return False
    with tf.init_scope():
        return bool(tf.raw_ops.VarIsInitializedOp(resource=store.handle))


def values_of(variables: Iterable[Any]) -> list[Any]:
    """Each variable's value, of its own dtype.

    A function does not keep the variables that it reads. What is read here may belong to a model that the function
    does not use otherwise, and that the script drops first; so it is kept as long as the function is.
    """
    stores = [storage(variable) for variable in variables]
    if not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        while getattr(getattr(graph, "outer_graph", None), "outer_graph", None) is not None:
            graph = graph.outer_graph
        _kept.setdefault(graph, []).extend(stores)
    return [tf.convert_to_tensor(store) for store in stores]


def assign(variable: Any, value: Any) -> None:
    """Write a value of the variable's own dtype, where there is a place to write to."""
    store = storage(variable)
    if store is not None:
        store.assign(value)


def is_keras_variable(value: Any) -> bool:
    """Whether this is a variable of Keras 3, which is no tf.Variable."""
    return any(cls.__name__ == "KerasVariable" or cls.__qualname__ == "Variable" for cls in type(value).__mro__) and (
        hasattr(value, "_value") and hasattr(value, "assign") and not isinstance(value, tf.Variable)
    )


def is_variable(value: Any) -> bool:
    return isinstance(value, tf.Variable) or is_keras_variable(value)


def layer_class(value: Any) -> type | None:
    """The base Layer class of the Keras (3, 2 or tf_keras) that a layer or model belongs to, else None."""
    for cls in reversed(type(value).__mro__):
        if cls.__name__ == "Layer" and "_maybe_build" in vars(cls):
            return cls
    return None


def variables_of(owner: Any) -> list[Any]:
    """All variables of one model, layer, optimizer or module, or the variable itself; each once.

    Raises TypeError for anything else.
    """
    if is_variable(owner):
        return [owner]
    variables = _listed_variables(owner)
    if variables is None:
        raise TypeError(
            "lockstep.broadcast takes models, layers, optimizers, tf.Modules and variables, alone or in "
            f"lists, tuples and dicts, not {type(owner).__name__}"
        )
    return each_once(variables)


def _listed_variables(owner: Any) -> Any:
    try:
        variables = getattr(owner, "variables", None)
    except ValueError:  # a model of Keras 2 that is not built, or only in part
        layers = list(owner._flatten_layers())
        return [v for layer in layers for v in (*layer._trainable_weights, *layer._non_trainable_weights)]
    if not callable(variables):
        return variables
    listed = variables()  # of an optimizer of Keras 2, which lists its state in the order in which it came to be
    names = {variable.name for variable in listed}
    return sorted(listed, key=lambda variable: str(variable.name)) if len(names) == len(listed) else listed


def each_once(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())
