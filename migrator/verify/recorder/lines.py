"""The user's line that a call comes from."""

from __future__ import annotations

import os
import sys
from types import FrameType


def is_callers(root: str) -> bool:
    """Whether the function that calls this one was itself called by a line in a file below the folder `root`."""
    return os.path.abspath(sys._getframe(2).f_code.co_filename).startswith(root + os.sep)


def of_error(error: BaseException, root: str) -> str:
    """The last line that the error came through in a file below the folder `root`; else ""."""
    found, place = "", error.__traceback__
    while place is not None:
        file = os.path.abspath(place.tb_frame.f_code.co_filename)
        if file.startswith(root + os.sep):
            found = f"{file}:{place.tb_lineno}"
        place = place.tb_next
    return found


def of_script(root: str) -> str:
    """The innermost line that made this call in a file below the folder `root`, "/path/train.py:31"; else ""."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if file.startswith(root + os.sep):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
