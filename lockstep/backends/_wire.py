"""numpy arrays between MPI ranks.

MPI itself does not notice when ranks make different calls: it hangs, or mixes their bytes and says nothing. So
each exchange begins with a tiny one that is the same for all calls and compares what the ranks are about to do.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from mpi4py import MPI

from lockstep._errors import MismatchError
from lockstep.backends._call import Call
from lockstep.backends._patience import Patience

_OPERATIONS = {"sum": MPI.SUM, "mean": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}
# A part of this size is still in the cache when it is divided, and copied into the result.
_PART_BYTES = 4 << 20
# A rank that waits with all its might takes the time of one that computes, where cores are few.
_SPIN_SECONDS = 0.001
_FIRST_NAP, _LONGEST_NAP = 0.00005, 0.002


class Wire:
    """This process's end of a communicator. Arrays are contiguous, of equal shape and dtype on all ranks."""

    def __init__(self, communicator: Any, patience: Patience) -> None:
        self._communicator = communicator
        self._patience = patience
        self._lock = threading.RLock()
        self.rank = communicator.Get_rank()
        self.size = communicator.Get_size()

    def reduce(self, array: np.ndarray, operation: str, call: Call) -> np.ndarray:
        """Element-wise over the ranks."""
        with self._exchange(call, f"{operation} {array.dtype}{array.shape}"):
            result = np.empty_like(array)
            source, target = array.reshape(-1), result.reshape(-1)
            step = max(1, _PART_BYTES // array.itemsize)
            for begin in range(0, source.size, step):
                part = target[begin : begin + step]
                self._finish(self._communicator.Iallreduce(source[begin : begin + step], part, _OPERATIONS[operation]))
                if operation == "mean":
                    np.divide(part, self.size, out=part)
        return result

    def gather(self, array: np.ndarray, call: Call) -> np.ndarray:
        """[k, ...] of each rank as [size * k, ...]."""
        with self._exchange(call, f"gather {array.dtype}{array.shape}"):
            result = np.empty([self.size * array.shape[0], *array.shape[1:]], array.dtype)
            self._finish(self._communicator.Iallgather(array, result))
        return result

    def broadcast(self, array: np.ndarray, root_rank: int, call: Call) -> np.ndarray:
        """The root's array."""
        with self._exchange(call, f"broadcast {root_rank} {array.dtype}{array.shape}"):
            result = np.array(array)
            self._finish(self._communicator.Ibcast(result, root_rank))
        return result

    @contextlib.contextmanager
    def _exchange(self, call: Call, what: str) -> Iterator[None]:
        with self._lock, self._patience.waiting_in(call):
            self._compare(call, what)
            yield

    def _compare(self, call: Call, what: str) -> None:
        """Raises MismatchError, on all ranks, unless all of them are about to do the same."""
        number = _number(f"{call.description}: {what}")
        extremes = np.array([number, -number], np.int64)
        self._meet(self._communicator.Iallreduce(MPI.IN_PLACE, extremes, MPI.MAX))
        if extremes[0] == number and extremes[1] == -number:
            return
        everyone = self._communicator.allgather(f"{call}: {what}")
        lines = [f"  rank {rank}: {text}" for rank, text in enumerate(everyone)]
        raise MismatchError(
            f"rank {self.rank} of {self.size}: the workers do not make the same collective calls. Look for a branch "
            "that only some of them take, or for shapes that differ.\n" + "\n".join(lines)
        )

    def _meet(self, request: Any) -> None:
        """Wait for all ranks to come to an exchange, which may take as long as a step."""
        began, nap = time.perf_counter(), _FIRST_NAP
        while not request.Test():
            if time.perf_counter() - began < _SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(nap)
                nap = min(2 * nap, _LONGEST_NAP)

    def _finish(self, request: Any) -> None:
        """Wait for an exchange that all ranks have come to."""
        while not request.Test():
            os.sched_yield()


@functools.lru_cache(maxsize=4096)
def _number(text: str) -> int:
    """63 bits that stand for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
