"""Memory for the results of collectives, used again once nobody holds a result any more.

Memory that comes fresh from the system, as that of large arrays does, costs more than to fill it.
"""

from __future__ import annotations

import sys

import numpy as np

# TensorFlow takes an array that begins at a multiple of this as it is, and copies any other.
_ALIGNMENT = 64
# What is smaller comes from the heap, fast enough.
_SMALLEST = 64 << 10
# Blocks of a size are given back when it was not among the last so many that were asked for.
_KEPT_FOR = 1000


class ResultMemory:
    """Blocks of a few sizes, those of a training step. Not for several threads at once."""

    def __init__(self) -> None:
        self._blocks: dict[int, list[np.ndarray]] = {}
        self._last_use: dict[int, int] = {}
        self._count = 0

    def empty_like(self, array: np.ndarray) -> np.ndarray:
        """An array of this shape and dtype, whose elements are yet to be written."""
        block = self._free_block(array.nbytes) if array.nbytes >= _SMALLEST else _new_block(array.nbytes)
        begin = -block.ctypes.data % _ALIGNMENT
        return block[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)

    def _free_block(self, nbytes: int) -> np.ndarray:
        self._count += 1
        if self._count % _KEPT_FOR == 0:
            self._give_back()
        self._last_use[nbytes] = self._count
        blocks = self._blocks.setdefault(nbytes, [])
        for block, holders in zip(blocks, _holders(blocks)):
            # TensorFlow too holds the array whose memory a tensor is, and through it the block.
            if holders == _NOBODY_ELSE:
                return block
        blocks.append(_new_block(nbytes))
        return blocks[-1]

    def _give_back(self) -> None:
        for nbytes in [size for size, last in self._last_use.items() if last < self._count - _KEPT_FOR]:
            del self._blocks[nbytes], self._last_use[nbytes]


def _new_block(nbytes: int) -> np.ndarray:
    return np.empty(nbytes + _ALIGNMENT, np.uint8)


def _holders(blocks: list[np.ndarray]) -> list[int]:
    return [sys.getrefcount(block) for block in blocks]


# What this Python counts for a block that only its list holds.
_NOBODY_ELSE = _holders([_new_block(0)])[0]
