"""The memory that results of the backend mpi lie in."""

from __future__ import annotations

import numpy as np

from lockstep.backends._result_memory import ResultMemory

BIG = np.zeros([300, 100])


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_a_result_that_is_held_keeps_its_memory() -> None:
    memory = ResultMemory()
    first, second = memory.empty_like(BIG), memory.empty_like(BIG)
    row = first[7]
    first[:], second[:] = 1.0, 2.0
    del first
    memory.empty_like(BIG)[:] = 3.0
    assert (row == 1.0).all()
    assert (second == 2.0).all()


def test_memory_that_nobody_holds_is_used_again() -> None:
    memory = ResultMemory()
    before = address(memory.empty_like(BIG))
    assert address(memory.empty_like(BIG.T)) == before


def test_arrays_begin_where_tensorflow_takes_them_as_they_are() -> None:
    memory = ResultMemory()
    for size in (1, 33, 100_001):
        array = memory.empty_like(np.zeros(size, np.float32))
        assert address(array) % 64 == 0
        assert (array.shape, array.dtype) == ((size,), np.float32)


def test_sizes_that_are_asked_for_no_more_are_given_back() -> None:
    memory = ResultMemory()
    for rows in range(200, 5000):
        memory.empty_like(np.empty([rows, 100]))
    assert len(memory._blocks) < 2200
