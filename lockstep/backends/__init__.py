"""What carries the collectives. A backend is a module of this package, found by name, imported on use.

Such a module defines `join() -> Backend`. Nothing outside it asks which backend runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from lockstep._errors import JoinError
from lockstep.cluster.choice import choose

AVAILABLE = ("single", "tensorflow", "mpi", "horovod", "npu")


class Backend(Protocol):
    """One process's end of the connection to its peers.

    The tensors are tf.Tensor, eager or symbolic; every rank makes the same calls in the same order with
    equal dtypes and shapes (`lockstep.collectives.agreement` checks that before the first call of a kind).
    """

    rank: int
    size: int
    local_rank: int

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        """Element-wise "sum", "mean", "max", "min" or "prod" over the ranks; the same shapes and dtypes.

        The result is bit-identical on all ranks. Integers have no "mean"; complex numbers only "sum" and "mean";
        bools only "max" and "min". float16 and bfloat16 are added up in float32.
        """

    def gather(self, tensor: Any) -> Any:
        """The ranks' tensors of one shape [k, ...], concatenated in rank order to [size * k, ...]."""

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        """The root's values of the tensors, same shapes and dtypes."""

    def patience(self, seconds: float) -> AbstractContextManager[None]:
        """Inside, calls fail once they have waited this long for a peer, if that is less than usual."""

    def close(self) -> None:
        """Stop taking part: all ranks have made their last call."""

    def abandon(self) -> None:
        """Stop taking part, without waiting for anyone: this process is about to fail. May end it, and the job."""


def join() -> Backend:
    """Join the cluster that the environment describes, through the backend that it names or implies.

    Raises JoinError for an unknown backend, an unusable TF_CONFIG or an import that comes too late.
    """
    choice = choose()
    name = choice.backend
    if name not in AVAILABLE:
        raise JoinError(f"{choice.reason}: unknown backend; use one of {AVAILABLE}")
    module = importlib.import_module(f"{__name__}.{name}")
    backend: Backend = module.join()
    return backend
