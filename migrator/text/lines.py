"""Offsets into a text as lines and columns, which count from 1."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

_NEWLINE = re.compile(r"\r\n|\n|\r")


def line_starts(text: str) -> list[int]:
    """The offset of the first character of each line."""
    return [0, *(match.end() for match in _NEWLINE.finditer(text))]


def line_and_column(starts: Sequence[int], offset: int) -> tuple[int, int]:
    """Where an offset is in a text with these line starts, both counted from 1."""
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1
