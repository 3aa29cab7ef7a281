"""The script of a notebook: its code cells one after the other, each below a line that has its number."""

from __future__ import annotations

import re
from collections.abc import Mapping

from migrator.text.lines import line_starts

# As editors mark the cells of a script.
_MARK = "# %% cell "
_LINE = re.compile(rf"^{_MARK}(\d+)\n", re.M)
SUFFIX = ".ipynb"


def is_notebook(name: object) -> bool:
    return str(name).endswith(SUFFIX)


def joined(cells: Mapping[int, str]) -> str:
    """The script of cells, by their numbers, which count from 1 and have cells of text between them."""
    return "".join(f"{_MARK}{number}\n{cell}\n" for number, cell in cells.items())


def parted(script: str) -> dict[int, str]:
    """The cells of a script, by their numbers."""
    _, *pieces = _LINE.split(script)
    return {int(number): cell[:-1] for number, cell in zip(pieces[::2], pieces[1::2])}


def place(script: str, line: int) -> tuple[int, int]:
    """The cell to which a line of the script belongs, and the line's number in it; both count from 1."""
    starts = line_starts(script)
    offset = starts[min(line, len(starts)) - 1]
    marks = [match for match in _LINE.finditer(script) if match.start() <= offset]
    if not marks:
        return 1, line
    return int(marks[-1][1]), line - script.count("\n", 0, marks[-1].end())
