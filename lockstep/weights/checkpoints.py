"""Checkpoints that are broadcast: what the root has restored for an optimizer reaches all before its first step."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from lockstep.collectives.agreement import exchange
from lockstep.script.variables import variables_of

_PENDING = ("_deferred_dependencies", "_unconditional_deferred_dependencies", "_deferred_slot_restorations")
# What makes the state, in optimizers of Keras 3 and 2, and in the older ones of Keras 2.
_MAKING = ("build", "_create_all_weights")

_Send = Callable[[Any], bool]
_awaited: weakref.WeakKeyDictionary[Any, _Send] = weakref.WeakKeyDictionary()
_made: weakref.WeakKeyDictionary[Any, _Send] = weakref.WeakKeyDictionary()
_extended: set[type] = set()


def send_when_made(owners: Iterable[Any], send: _Send) -> list[Any]:
    """Have the state of optimizers sent as soon as it exists, where it waits with restored values until then: in the
    first step, which all ranks take together. Returns these optimizers; a rank may have made some of their state.

    `send` tells whether it could: what is made while a function is traced has no value before the trace is over.
    """
    found = []
    for optimizer in owners:
        if not hasattr(optimizer, "apply_gradients") or getattr(optimizer, "built", False) is True:
            continue
        is_pending = any(getattr(optimizer, name, None) for name in _PENDING)
        told = exchange(b"%d %d" % (is_pending, len(variables_of(optimizer))))
        if len(set(told)) > 1 or is_pending:
            found.append(optimizer)
            _awaited[optimizer] = send
            _extend(type(optimizer))
    return found


def _extend(cls: Any) -> None:
    if cls in _extended:
        return
    _extended.add(cls)
    for name in _MAKING:
        make = getattr(cls, name, None)
        if make is not None:
            setattr(cls, name, _sending(cls, make))


def _sending(cls: type, make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        result = make(optimizer, *args, **kwargs)
        # Not where a subclass calls this, and goes on to make more.
        if optimizer in _awaited and type(optimizer) is cls:
            _made[optimizer] = _awaited.pop(optimizer)
            send_made()
        return result

    return made


def send_made() -> None:
    """Called where gradients are reduced, too: a traced function is traced once more before it runs."""
    for optimizer, send in list(_made.items()):
        if send(optimizer):
            del _made[optimizer]


def create_state(optimizer: Any, variables: Any) -> None:
    """The slots of an optimizer, which take what was restored for them as they come into being."""
    if getattr(optimizer, "built", False) is True:
        return
    create = getattr(optimizer, "_create_all_weights", None) or optimizer.build
    create(variables)
