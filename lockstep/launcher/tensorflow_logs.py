"""What the C++ of TensorFlow logs while it starts, which nobody reads: switched off, or else known by how it looks.

TensorFlow prints some of it before it has read the setting that switches it off.
"""

from __future__ import annotations

import os
import re
from typing import Callable

LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# The letter tells how grave it is. The second form is that of TensorFlow before 2.17.
_LINE = re.compile(rb"(?:([IWE])\d{4} \d\d:\d\d:[\d.]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: ([IWE]) )\S+\.cc:\d+\] ")
_HEADING = b"WARNING: All log messages before absl::InitializeLog() is called"


def are_hidden(are_wanted: bool) -> bool:
    """Whether to leave lines out: unless they are wanted, or the user has set the level."""
    return not are_wanted and LEVEL not in os.environ


def hidden_levels(are_hidden: bool, has_joined: Callable[[], bool]) -> str:
    """The levels of which lines are left out; errors and warnings are not once the start is over."""
    return ("I" if has_joined() else "IWE") if are_hidden else ""


def is_log(line: bytes, levels: str) -> bool:
    """Whether a line of stderr is one of TensorFlow's log, of one of these levels."""
    if line.startswith(_HEADING):
        return bool(levels)
    found = _LINE.match(line)
    return found is not None and (found[1] or found[2]).decode() in levels
