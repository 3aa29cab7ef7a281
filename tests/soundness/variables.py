"""The variables that a script creates: their final values, and on other ranks than the chief another start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Callable

import numpy as np

from migrator.verify.recorder.variables import is_of_optimizer, moved_apart


class Variables:
    def __init__(self) -> None:
        self._found: list[Any] = []
        self._starts: list[np.ndarray | None] = []  # None of what is created in a graph

    def add(self, variable: Any, start: np.ndarray | None) -> None:
        self._found.append(variable)
        self._starts.append(start)

    def have_moved(self) -> bool:
        """Whether a weight has another value than it was created with: scripts also train by `assign`."""
        pairs = zip(self._found, self._starts)
        return any(v.trainable and start is not None and not np.array_equal(v.numpy(), start) for v, start in pairs)

    def weights(self) -> tuple[np.ndarray, ...]:
        return tuple(v.numpy() for v in self._found if v.trainable and v.dtype.is_floating)

    def updates(self) -> tuple[int, ...]:
        counters = [int(v) for v in self._found if str(v.name).split("/")[-1].split(":")[0] in ("iteration", "iter")]
        return tuple(count for count in counters if count)


@contextmanager
def watched(tensorflow: ModuleType, rank: int) -> Iterator[Variables]:
    """Inside, every variable that is created is kept; on ranks above 0 trainable ones start from other values, so that
    only a broadcast can bring the ranks together."""
    variables = Variables()

    def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
        if rank > 0 and arguments.get("trainable") is not False and not is_of_optimizer():
            arguments["initial_value"] = moved_apart(
                tensorflow, arguments["initial_value"], arguments.get("dtype"), rank
            )
        variable = next_creator(**arguments)
        variables.add(variable, variable.numpy() if tensorflow.executing_eagerly() else None)
        return variable

    with tensorflow.variable_creator_scope(create):
        yield variables
