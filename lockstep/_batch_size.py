"""The arithmetic between the global batch and each worker's part of it.

A mean over the workers is that over the batch only if all parts have one size. So a batch of m rows is cut into
gcd(m, N) equal parts: N of them where N divides m; fewer otherwise, and then several workers compute the same part.
"""

from __future__ import annotations

import math
import os
import warnings

from lockstep import _script_line

_said: set[int] = set()


def number_of_parts(rows: int, size: int) -> int:
    """Into how many equal parts a batch of so many rows is cut."""
    return math.gcd(rows, size)


def local_batch_size(global_batch_size: int, size: int) -> int:
    """The rows of one part of a full batch. Raises ValueError for what is no number of rows."""
    if isinstance(global_batch_size, bool) or int(global_batch_size) != global_batch_size or global_batch_size < 1:
        raise ValueError(f"a batch must have one row or more, not {global_batch_size!r}")
    say_what_it_costs(int(global_batch_size), size)
    return int(global_batch_size) // number_of_parts(int(global_batch_size), size)


def say_what_it_costs(rows: int, size: int) -> None:
    """Warn, once for each number of rows, of a batch that the workers cannot share out evenly."""
    parts = number_of_parts(rows, size)
    if parts == size or rows in _said:
        return
    _said.add(rows)
    below = rows // size * size
    nearest = f"{below} and {below + size}" if below else f"{size}"
    computed = "every worker computes all of it" if parts == 1 else f"it is cut into {parts}, some computed repeatedly"
    warn_at_script(
        f"lockstep: a batch of {rows} does not split evenly over {size} workers, so {computed}: right, but only as "
        f"fast as {parts} worker{'s' if parts > 1 else ''}. The nearest batch size that divides: {nearest}."
    )


def warn_at_script(text: str) -> None:
    file, _, line = _script_line.of_main_thread().rpartition(":")
    warnings.warn_explicit(text, UserWarning, os.path.abspath(file) if file else "lockstep", int(line or 0))
