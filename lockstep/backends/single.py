"""One process, nobody to talk to: every collective is the identity. Never imports TensorFlow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any


class SingleProcess:
    """The backend of a script that nobody launched on several workers."""

    rank = 0
    size = 1
    local_rank = 0

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        return list(tensors)

    def gather(self, tensor: Any) -> Any:
        return tensor

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        return list(tensors)

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        return None

    def abandon(self) -> None:
        return None


def join() -> SingleProcess:
    return SingleProcess()
