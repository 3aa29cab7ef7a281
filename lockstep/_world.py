"""The one place that knows which backend this process has joined."""

from __future__ import annotations

from lockstep.backends import Backend, join

_backend: Backend = join()


def backend() -> Backend:
    """The backend that was joined when lockstep was imported."""
    return _backend
