"""broadcast: give every rank the root's weights, also the weights that a model does not have yet.

A Keras model may get variables after it was broadcast: a Sequential without input shape or a subclassed
model when it is first called, a Sequential by `add`. Such models are followed. Keras builds every layer
through `Layer._maybe_build`, just before the layer is first used; that method and `__call__` are extended
once per Keras, and whatever variables a followed model has gained then are sent at once, before anything is
computed with them. Nothing is attached to the model itself, so it is saved, copied and cloned as ever.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from lockstep._errors import LockstepError
from lockstep.collectives.agreement import agree, describe, exchange
from lockstep.collectives.world import backend, check_root
from lockstep.script import which_keras
from lockstep.script.holders import all_owners_in, hidden_in, modules_in, owners_in, variables_held_by
from lockstep.script.variables import has_value, is_variable, layer_class, storage, variables_of
from lockstep.script.wrapping import wraps
from lockstep.weights.checkpoints import send_made, send_when_made
from lockstep.weights.noise import noise_states, own_state

_ADVICE = "Every worker must broadcast the same weights at the same point: look for a model that differs."


class _Followed:
    """A layer or model whose later variables are sent too, and what has been sent of it so far."""

    def __init__(self, root_rank: int, is_built: bool, *, has_own_noise: bool) -> None:
        self.root_rank = root_rank
        self.has_own_noise = has_own_noise
        # Who calls `layer.build(shape)` by hand goes round `_maybe_build`: the first call of the layer has to look.
        self.look_again = not is_built
        self.sent: dict[int, Any] = {}  # by id; holds the variable, so that the id stays its own


_followed: weakref.WeakKeyDictionary[Any, _Followed] = weakref.WeakKeyDictionary()
# Held, since Python frees what nobody holds at another moment on each rank: what all reduce must not depend on that.
_layers_with_statistics: dict[int, Any] = {}
_modules: weakref.WeakKeyDictionary[Any, _Followed] = weakref.WeakKeyDictionary()
_loose: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # variables and modules, by id
_valued: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # on all ranks
_extended: set[type] = set()
_on_new_layers: dict[Callable[[], None], None] = {}
# A variable that is made while a function is traced has no value before the trace is over; then the function
# is traced once more, or called, and so are the layers.
_some_lack_values = False


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def broadcast(values: list[Any], root_rank: int, *, own_noise: bool | None) -> None:
    """Of models, layers, optimizers, variables, and of what holds such: modules, checkpoints, objects of the script.

    `own_noise`: whether each rank gets random states of its own for the layers; None: as it is already.
    """
    check_root(root_rank)
    owners = all_owners_in(values)
    for value in values:
        if not owners_in(value) and not modules_in(value):
            raise TypeError(
                "lockstep.broadcast takes models, layers, optimizers, tf.Modules, checkpoints, variables, objects that "
                f"hold such in their attributes, and values; {type(value).__name__} holds none: give it the variables "
                "that it uses"
            )
    awaited = send_when_made(owners, functools.partial(_send_state, root_rank))
    for owner in owners:
        if layer_class(owner) is not None:
            _follow(owner, root_rank, has_own_noise=own_noise)
        else:
            _loose[id(owner)] = owner
    if not values:
        raise ValueError("lockstep.broadcast: nothing to broadcast, the list holds no variables")
    sent = [[owner.iterations] if any(owner is one for one in awaited) else _sent_with(owner) for owner in owners]
    variables = {id(variable): variable for several in sent for variable in several}
    _send(with_values(variables.values()), root_rank, [owner for owner in owners if layer_class(owner) is not None])
    for owner in owners:
        if layer_class(owner) is not None:
            _mark_sent(owner)
    for module in modules_in(values):
        _follow_module(module, root_rank, variables, has_own_noise=own_noise)
    _layers_with_statistics.clear()
    gc.collect()
    _hold_statistics()


def layers_with_statistics() -> list[Any]:
    """The layers that keep a moving mean and variance, of all models and layers that were broadcast."""
    return list(_layers_with_statistics.values())


def all_see_all_rows() -> bool:
    """Whether a model was broadcast that is to draw the same noise on all ranks: each then trains on all of the data,
    and its metrics have counted all of it."""
    return any(not followed.has_own_noise for followed in _followed.values())


def _hold_statistics() -> None:
    for followed in list(_followed):
        for layer in followed._flatten_layers():
            if all(getattr(layer, name, None) is not None for name in ("moving_mean", "moving_variance")):
                _layers_with_statistics[id(layer)] = layer


def broadcast_variables() -> list[Any]:
    """All variables that were broadcast and still exist, and what the broadcast models have got since; without the
    random states that each rank has its own of."""
    noise = _own_states(list(_followed))
    variables = [variable for owner in [*_followed, *_loose.values()] for variable in variables_of(owner)]
    return [variable for variable in variables if id(variable) not in noise]


def _own_states(layers: Iterable[Any]) -> set[int]:
    """The ids of the random states, below these followed layers, that each rank has its own of."""
    return {id(state) for layer in layers if _followed[layer].has_own_noise for state in noise_states(layer)}


def _send(variables: list[Any], root_rank: int, layers: list[Any]) -> None:
    """Send variables, some of which belong to these layers."""
    noise = _own_states(layers)
    stores = [storage(variable) for variable in variables]
    with tf.init_scope():
        values = [tf.convert_to_tensor(store) for store in stores]
        agree(f"broadcast(root_rank={root_rank})", describe(values), _ADVICE)
        if not values:
            return
        for variable, store, value in zip(variables, stores, backend().broadcast(values, root_rank)):
            if backend().rank != root_rank and store is not None:
                store.assign(own_state(value, root_rank) if id(variable) in noise else value)


def _send_state(root_rank: int, optimizer: Any) -> bool:
    """Send the variables of an optimizer, if all of them have values; a rank that restored has made them in an order of
    its own."""
    variables = sorted(variables_of(optimizer), key=lambda variable: str(getattr(variable, "path", variable.name)))
    ready = with_values(variables)
    if len(ready) < len(variables):
        return False
    _send(ready, root_rank, [])
    return True


def _follow(layer: Any, root_rank: int, *, has_own_noise: bool | None) -> None:
    which_keras.note_model(layer)
    if has_own_noise is None:
        has_own_noise = layer not in _followed or _followed[layer].has_own_noise
    _followed[layer] = _Followed(root_rank, bool(getattr(layer, "built", False)), has_own_noise=has_own_noise)
    # XLA cannot hold collectives between workers, and Keras would choose it by itself on some devices.
    if getattr(layer, "supports_jit", False):
        layer.supports_jit = False
    cls = layer_class(layer)
    if cls is not None and cls not in _extended:
        _extended.add(cls)
        _extend(cls)


def _follow_new(owners: Iterable[Any], holder: _Followed) -> list[Any]:
    """Those layers that are not followed yet, from now on, as what holds them is."""
    new = [owner for owner in owners if layer_class(owner) is not None and owner not in _followed]
    for layer in new:
        _follow(layer, holder.root_rank, has_own_noise=holder.has_own_noise)
    return new


def _mark_sent(layer: Any) -> None:
    """Note which variables were sent just now, and whether some had no value to send."""
    global _some_lack_values
    for variable in variables_held_by(layer):
        if not has_value(variable):
            _some_lack_values = True
        else:
            _followed[layer].sent[id(variable)] = variable


def _extend(cls: Any) -> None:
    call, build = cls.__call__, cls._maybe_build

    @functools.wraps(call)
    def __call__(layer: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        followed = _followed.get(layer)
        if _some_lack_values or (followed is not None and followed.look_again):
            _send_new()
            if followed is not None:
                followed.look_again = False
        return call(layer, *args, **kwargs)

    @functools.wraps(build)
    def _maybe_build(layer: Any, *args: Any, **kwargs: Any) -> Any:
        was_built = layer.built
        result = build(layer, *args, **kwargs)
        if not was_built:
            _after_build_of(layer)
        return result

    cls.__call__, cls._maybe_build = __call__, _maybe_build


def _after_build_of(layer: Any) -> None:
    for look in _on_new_layers:
        look()
    if layer in _followed:
        # A checkpoint that was read before may reach the variables only now that the whole is built.
        _followed[layer].sent.clear()
    for followed in _followed.values():
        # Sequential.add of Keras 2 builds a layer first and makes it a part of the model then.
        followed.look_again = True
    _send_new()


def on_new_layers(look: Callable[[], None]) -> None:
    """Call this whenever a layer has been built, before it is used, since models may have got layers then."""
    _on_new_layers[look] = None
    for keras in which_keras.all_loaded():
        cls = layer_class(keras.layers.Layer())
        if cls is not None and cls not in _extended:
            _extended.add(cls)
            _extend(cls)


def check_all_sent() -> None:
    """Raises LockstepError when a followed model was trained with variables that were never sent."""
    if not _some_lack_values:
        return
    for layer, followed in list(_followed.items()):
        missing = [v for v in variables_held_by(layer) if id(v) not in followed.sent and has_value(v)]
        if missing:
            raise LockstepError(
                f"{type(layer).__name__} got {len(missing)} variables after lockstep.broadcast which the "
                "workers never synchronised. Call the model once on a batch before lockstep.broadcast."
            )


def _follow_module(module: Any, root_rank: int, sent: dict[int, Any], *, has_own_noise: bool | None) -> None:
    """Send what a tf.Module gets later as soon as it has it: its own attributes, and those of what it holds."""
    _modules[module] = _Followed(root_rank, is_built=True, has_own_noise=has_own_noise is not False)
    _modules[module].sent.update(sent)
    _extend_modules()
    for part in (module, *module.submodules):
        for cls in type(part).__mro__:
            if "__call__" in vars(cls) and issubclass(cls, tf.Module) and layer_class(part) is None:
                _extend_call(cls)


@functools.cache
def _extend_modules() -> None:
    set_attribute: Any = tf.Module.__setattr__

    @functools.wraps(set_attribute)
    def __setattr__(module: Any, name: str, value: Any) -> None:  # noqa: N807
        set_attribute(module, name, value)
        if len(_modules) and (isinstance(value, tf.Module) or owners_in(value)):
            _send_new()

    tf.Module.__setattr__ = __setattr__


@functools.cache
def _extend_call(cls: Any) -> None:
    call = cls.__call__

    @wraps(call)
    def __call__(module: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _some_lack_values:  # of a function's first trace, which TensorFlow has made by the second one
            _send_new()
        return call(module, *args, **kwargs)

    cls.__call__ = __call__


def send_before_update() -> None:
    """Called where gradients are reduced: send what came into being without being noticed.

    Raises LockstepError where that is too late, since the gradients were computed with it.
    """
    send_made()
    if not len(_modules):
        return
    if tf.executing_eagerly():
        for module, followed in list(_modules.items()):
            late = [v for v in _variables_in(module) if id(v) not in followed.sent and has_value(v)]
            if late:
                raise LockstepError(
                    f"{type(module).__name__} got {len(late)} variables after lockstep.broadcast which the workers "
                    "never synchronised. Call it once on a batch before lockstep.broadcast."
                )
    _send_new()


def _variables_in(module: Any) -> list[Any]:
    return [variable for owner in all_owners_in(module) for variable in _sent_with(owner)]


def _sent_with(owner: Any) -> list[Any]:
    """All variables that are sent where this is: those that Keras does not list need not stay alike."""
    return variables_of(owner) if layer_class(owner) is None else variables_held_by(owner)


def with_values(variables: Iterable[Any]) -> list[Any]:
    """Those that have a value on all ranks: while a function is traced, a rank that restores them has them earlier.

    The ranks ask each other only of what is new: later on, one may trace a function again for a batch of its own size.
    """
    variables = list(variables)
    new = [variable for variable in variables if id(variable) not in _valued and storage(variable) is not None]
    masks = [bytes(map(has_value, new))]
    if new and not tf.executing_eagerly():
        masks = exchange(masks[0])
    _valued.update((id(variable), variable) for variable, ranks in zip(new, zip(*masks)) if all(ranks))
    return [variable for variable in variables if id(variable) in _valued]


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _send_new() -> None:
    global _some_lack_values
    _some_lack_values = False
    for module, followed in list(_modules.items()):
        _follow_new(all_owners_in(module), followed)
        new = [v for v in _variables_in(module) if id(v) not in followed.sent]
        ready = with_values(new)
        _some_lack_values |= len(ready) < len(new)
        followed.sent.update((id(v), v) for v in ready)
        of_layers = {id(v) for layer in _followed for v in variables_held_by(layer)}
        loose = [v for v in ready if id(v) not in of_layers]
        _loose.update((id(v), v) for v in loose)
        if loose:
            _send(loose, followed.root_rank, [])
    layers = list(_followed)
    for layer in layers:  # which grow by those that Keras does not track
        followed, hidden = _followed[layer], list(hidden_in(layer))
        layers += _follow_new(hidden, followed)
        new = [v for v in [*variables_of(layer), *filter(is_variable, hidden)] if id(v) not in followed.sent]
        ready = with_values(new)
        if ready:
            _send(ready, followed.root_rank, [layer])
        _some_lack_values |= len(ready) < len(new)
        followed.sent.update((id(v), v) for v in ready)
    _hold_statistics()
