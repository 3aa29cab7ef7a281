"""Where the arguments of a call go to a new line, once edits have made its line long."""

from __future__ import annotations

from collections.abc import Collection, Sequence

# Unless the settings have another.
LONGEST_LINE = 100


def breaks(
    first_column: int, widths: Sequence[int], tail: int, joined: Collection[int] = (), longest: int = LONGEST_LINE
) -> set[int]:
    """The indices of the arguments that begin a new line, aligned with the first.

    `widths` are the arguments' lengths after the edits, `tail` what follows the last on its line, `joined` the
    indices before which no line may end, `longest` how long a line may be. Empty where all fit on one line.
    """
    if first_column + sum(widths) + 2 * (len(widths) - 1) + tail <= longest:
        return set()
    found: set[int] = set()
    column = first_column
    for i, width in enumerate(widths):
        after = 1 if i + 1 < len(widths) else tail
        if i and i not in joined and column + width + after > longest:
            found.add(i)
            column = first_column
        column += width + 2
    return found
