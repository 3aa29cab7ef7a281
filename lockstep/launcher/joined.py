"""Whether the workers of a launcher have come to `import lockstep`: each leaves a mark when it has joined."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lockstep.cluster.environment import JOINED_FILE
from lockstep.launcher.screen import Screen

# A script that says nothing of lockstep has come to train by then; another one may still be importing, or loading data.
_SECONDS = 10.0
_SECONDS_IF_NAMED = 60.0
_WHAT_TO_DO = (
    "Without `import lockstep` each worker trains a model of its own: `migrate` the script, or say --allow-unjoined if "
    "that is meant."
)


class Joining:
    """What is known of how the workers of this machine join. setting is for their environment."""

    def __init__(self, mark: Path | None, size: int, is_allowed: bool, command: Sequence[str]) -> None:
        self.setting = {} if mark is None else {JOINED_FILE: str(mark)}
        self._mark = mark
        self._size = size
        self._is_expected = size > 1 and not is_allowed and mark is not None
        self._has_joined = size == 1 or mark is None
        self._limit = time.monotonic() + (_SECONDS_IF_NAMED if _names_lockstep(command) else _SECONDS)
        self._is_told = False

    def has_joined(self) -> bool:
        """Whether a worker has joined; the others have then too, since it waits for them."""
        self._has_joined = self._has_joined or (self._mark is not None and self._mark.exists())
        return self._has_joined

    def tell_late(self, screen: Screen) -> None:
        """Say so, once, when nobody has joined after the first seconds."""
        if self._is_expected and not self._is_told and time.monotonic() > self._limit and not self.has_joined():
            self._is_told = True
            screen.tell(f"lockstep: none of the {self._size} workers has joined the others so far. {_WHAT_TO_DO}")

    def tell_missed(self, screen: Screen) -> bool:
        """Say so, and return True, when all have ended and nobody had joined."""
        missed = self._is_expected and not self.has_joined()
        if missed:
            screen.tell(
                f"lockstep: the script ended well, but none of the {self._size} workers had joined the others: the run "
                f"counts as failed. {_WHAT_TO_DO}"
            )
        return missed


@contextlib.contextmanager
def watched(size: int, is_allowed: bool, command: Sequence[str]) -> Iterator[Joining]:
    """How `size` workers in all join, some of which are started inside with the command [python, script, …].

    Where no temporary file can be made, nothing is known, and nothing said.
    """
    with contextlib.ExitStack() as stack:
        mark = None
        with contextlib.suppress(OSError):
            mark = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lockstep-")), "joined")
        yield Joining(mark, size, is_allowed, command)


def _names_lockstep(command: Sequence[str]) -> bool:
    script = Path(command[1])
    try:
        return not script.is_file() or b"lockstep" in script.read_bytes()
    except OSError:
        return True
