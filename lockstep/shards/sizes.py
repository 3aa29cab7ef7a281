"""The arithmetic between the global batch and each worker's shard of it.

A mean over the workers is that over the batch only if all shards have one size. So a batch of m rows is cut into
gcd(m, N) equal shards: N of them where N divides m; fewer otherwise, and then several workers compute the same shard.
"""

from __future__ import annotations

import math
import os
import sys
import warnings

from lockstep.script import lines

_said: set[int] = set()


def number_of_shards(rows: int, size: int) -> int:
    """Into how many equal shards a batch of so many rows is cut."""
    return math.gcd(rows, size)


def local_batch_size(global_batch_size: int, size: int, loss: str = "mean", rank: int = 0) -> int:
    """The rows of the rank's shard of a full batch. Raises ValueError for what is no number of rows, or leaves a rank
    without one."""
    if isinstance(global_batch_size, bool) or int(global_batch_size) != global_batch_size or global_batch_size < 1:
        raise ValueError(f"a batch must have one row or more, not {global_batch_size!r}")
    rows = int(global_batch_size)
    if loss == "mean":
        say_what_it_costs(rows, size)
        return rows // number_of_shards(rows, size)
    if rows < size:
        raise ValueError(f"a batch of {rows} rows leaves some of {size} workers without one")
    return rows * (rank + 1) // size - rows * rank // size


def say_what_it_costs(rows: int, size: int) -> None:
    """Warn, once for each number of rows, of a batch that the workers cannot share out evenly."""
    shards = number_of_shards(rows, size)
    if shards == size or rows in _said:
        return
    _said.add(rows)
    below = rows // size * size
    nearest = f"{below} and {below + size}" if below else f"{size}"
    computed = (
        "every worker computes all of it" if shards == 1 else f"it is cut into {shards}, some computed repeatedly"
    )
    warn_at_script(
        f"lockstep: a batch of {rows} does not split evenly over {size} workers, so {computed}: right, but only as "
        f"fast as {shards} worker{'s' if shards > 1 else ''}. The nearest batch size that divides: {nearest}."
    )


def warn_at_script(text: str) -> None:
    """Say it as a warning looks, of the script's line, and past its filters: they may make errors of warnings, or count
    them."""
    file, _, line = lines.of_main_thread().rpartition(":")
    said = warnings.formatwarning(text, UserWarning, os.path.abspath(file) if file else "lockstep", int(line or 0))
    print(said, end="", file=sys.stderr, flush=True)
