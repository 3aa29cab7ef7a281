"""The arithmetic between the global batch and each worker's part of it."""

from __future__ import annotations


def local_batch_size(global_batch_size: int, size: int) -> int:
    """global_batch_size / size. Raises ValueError, naming the nearest sizes, when it is no integer."""
    if global_batch_size % size == 0 and global_batch_size > 0:
        return global_batch_size // size
    below = global_batch_size // size * size
    nearest = f"{below} or {below + size}" if below > 0 else f"{size}"
    raise ValueError(
        f"a global batch of {global_batch_size} cannot be split evenly over {size} workers; "
        f"the nearest batch size that divides is {nearest}"
    )
