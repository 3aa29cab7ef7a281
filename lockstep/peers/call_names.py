"""The name by which the user knows what a collective call is for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

_names = threading.local()


@contextlib.contextmanager
def named(name: str) -> Iterator[None]:
    """Inside, this thread's collective calls are known by this name; the outermost name counts."""
    if current() is not None:
        yield
        return
    _names.current = name
    try:
        yield
    finally:
        _names.current = None


def current() -> str | None:
    """The name that holds in this thread."""
    return getattr(_names, "current", None)
