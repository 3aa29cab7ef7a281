"""The exit code that the script asks for, which Python tells nobody before the process is gone."""

from __future__ import annotations

import sys
from typing import Any


class ExitCode:
    """Notes what sys.exit is called with; value: 0 as long as nothing else was. `raise SystemExit` goes unnoticed."""

    def __init__(self) -> None:
        self.value = 0
        self._exit = sys.exit
        sys.exit = self._note

    def _note(self, status: Any = None, /) -> Any:
        # A text is printed, and stands for 1.
        self.value = status if isinstance(status, int) else int(status is not None)
        self._exit(status)
