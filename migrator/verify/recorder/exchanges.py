"""How long a worker is in the calls in which it sends something to the others, or waits for them."""

from __future__ import annotations

import importlib
import time
from functools import wraps
from types import ModuleType
from typing import Any, Callable

from migrator.verify.recorder.journal import Journal

_METHODS = ("reduce", "gather", "broadcast")


def watch(lockstep: ModuleType, journal: Journal) -> None:
    """Time all calls of the backend that this process has joined, through which every exchange goes."""
    backend = importlib.import_module(f"{lockstep.__name__}.collectives.world").backend()
    if backend.size > 1:
        for name in _METHODS:
            setattr(backend, name, _timed(getattr(backend, name), journal))


def _timed(call: Callable[..., Any], journal: Journal) -> Callable[..., Any]:
    @wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.monotonic()
        try:
            return call(*args, **kwargs)
        finally:
            journal.exchanged(time.monotonic() - start)

    return timed
