"""What carries the collectives. A backend is a module of this package, found by name, imported on use.

Such a module defines `join() -> Backend`. Nothing outside it asks which backend runs.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lockstep._cluster import from_tf_config
from lockstep._errors import JoinError

AVAILABLE = ("single", "tensorflow")
PLANNED = ("mpi", "horovod", "npu")


class Backend(Protocol):
    """One process's end of the connection to its peers.

    The tensors are tf.Tensor, eager or symbolic; every rank makes the same calls in the same order with
    equal dtypes and shapes (`lockstep._agreement` checks that before the first call of a kind).
    """

    rank: int
    size: int
    local_rank: int

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        """Element-wise "sum", "max" or "min" over the ranks of numeric tensors, same shapes and dtypes."""

    def gather(self, tensor: Any) -> Any:
        """The ranks' tensors of one shape [k, ...], concatenated in rank order to [size * k, ...]."""

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        """The root's values of the tensors, same shapes and dtypes; eager only."""

    def patience(self, seconds: float) -> AbstractContextManager[None]:
        """Inside, calls fail once they have waited this long for a peer, if that is less than usual."""

    def abandon(self) -> None:
        """Stop taking part, without waiting for anyone: this process is about to fail."""


def join() -> Backend:
    """Join the cluster that the environment describes, through the backend that it names or implies.

    Raises JoinError for an unknown backend, an unusable TF_CONFIG or an import that comes too late.
    """
    name = os.environ.get("LOCKSTEP_BACKEND", "").strip().lower()
    if not name:
        name = "tensorflow" if from_tf_config().size > 1 else "single"
    if name in PLANNED:
        raise JoinError(f"LOCKSTEP_BACKEND={name}: this backend is not there yet; use one of {AVAILABLE}")
    if name not in AVAILABLE:
        raise JoinError(f"LOCKSTEP_BACKEND={name}: unknown backend; use one of {AVAILABLE}")
    module = importlib.import_module(f"{__name__}.{name}")
    backend: Backend = module.join()
    return backend
