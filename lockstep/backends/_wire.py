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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from mpi4py import MPI

from lockstep._errors import MismatchError
from lockstep.backends._call import Call
from lockstep.backends._result_memory import ResultMemory
from lockstep.peers.whereabouts import Place
from lockstep.script import lines

_OPERATIONS = {"sum": MPI.SUM, "mean": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}
# A part of this size is still in the cache when it is divided.
_PART_BYTES = 4 << 20
# An array of this size is sent from where it lies; joining it with others would cost more than a message.
_ALONE_BYTES = 256 << 10
# A rank that waits with all its might takes the time of one that computes, where cores are few.
_SPIN_SECONDS = 0.001
_FIRST_NAP, _LONGEST_NAP = 0.00005, 0.002


class Wire:
    """This process's end of a communicator. Arrays are contiguous, of equal shapes and one dtype on all ranks.

    disagreed: whether the ranks came to make different calls last.
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.disagreed = False
        self._call: Call | None = None
        self._thread = 0
        self._begun = self._finished = 0
        self._lock = threading.RLock()
        self._memory = np.empty(0, np.uint8)
        self._results = ResultMemory()
        self.rank = communicator.Get_rank()
        self.size = communicator.Get_size()

    def reduce(self, arrays: Sequence[np.ndarray], operation: str, call: Call) -> list[np.ndarray]:
        """Each element-wise over the ranks."""
        with self._exchange(call, operation, arrays):
            results = [self._results.empty_like(array) for array in arrays]
            small = [i for i, array in enumerate(arrays) if array.nbytes < _ALONE_BYTES]
            for i, array in enumerate(arrays):
                if i not in small:
                    self._reduce(array.reshape(-1), results[i].reshape(-1), operation)
            if small:
                joined = self._joined([arrays[i] for i in small])
                self._reduce(joined, joined, operation)
                for i, part in zip(small, _parts(joined, [arrays[i] for i in small])):
                    np.copyto(results[i], part)
        return results

    def gather(self, array: np.ndarray, call: Call) -> np.ndarray:
        """[k, ...] of each rank as [size * k, ...]."""
        with self._exchange(call, "gather", [array]):
            result = np.empty([self.size * array.shape[0], *array.shape[1:]], array.dtype)
            self._wait_for(self._communicator.Iallgather(array, result))
        return result

    def broadcast(self, arrays: Sequence[np.ndarray], root_rank: int, call: Call) -> list[np.ndarray]:
        """The root's arrays."""
        with self._exchange(call, f"broadcast {root_rank}", arrays):
            joined = np.concatenate([array.reshape(-1) for array in arrays])
            self._wait_for(self._communicator.Ibcast(joined, root_rank))
        return _parts(joined, arrays)

    def _joined(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """All elements in one vector, which the next call uses again: new memory would cost more than to fill it."""
        nbytes = sum(array.nbytes for array in arrays)
        if self._memory.nbytes < nbytes:
            self._memory = np.empty(nbytes, np.uint8)
        joined = self._memory[:nbytes].view(arrays[0].dtype)
        return np.concatenate([array.reshape(-1) for array in arrays], out=joined)

    def _reduce(self, source: np.ndarray, target: np.ndarray, operation: str) -> None:
        """A vector into another one, or into itself."""
        step = max(1, _PART_BYTES // source.itemsize)
        for begin in range(0, source.size, step):
            part = target[begin : begin + step]
            sent = MPI.IN_PLACE if source is target else source[begin : begin + step]
            self._wait_for(self._communicator.Iallreduce(sent, part, _OPERATIONS[operation]))
            if operation == "mean":
                np.divide(part, self.size, out=part)

    @contextlib.contextmanager
    def _exchange(self, call: Call, what: str, arrays: Sequence[np.ndarray]) -> Iterator[None]:
        shapes = " ".join(f"{array.dtype}{array.shape}" for array in arrays)
        with self._lock:
            self._begun, self._thread, self._call = self._begun + 1, threading.get_ident(), call
            try:
                self._compare(call, f"{what} {shapes}")
                yield
                self._finished += 1
            finally:
                self._call = None

    def place(self) -> Place:
        """Where this process is, seen from another thread."""
        call, begun, finished, thread = self._call, self._begun, self._finished, self._thread
        if call is None:
            return Place(None, begun, finished, lines.of_main_thread())
        if call.traced_from:
            line = lines.traced_and_run(call.traced_from, lines.of_main_thread())
        else:
            line = lines.of_thread(thread)
        return Place(call.name, begun, finished, line)

    def _compare(self, call: Call, what: str) -> None:
        """Raises MismatchError, on all ranks, unless all of them are about to do the same."""
        number = _number(f"{call.description}: {what}")
        extremes = np.array([number, -number], np.int64)
        self._meet(self._communicator.Iallreduce(MPI.IN_PLACE, extremes, MPI.MAX))
        self.disagreed = bool(extremes[0] != number or extremes[1] != -number)
        if not self.disagreed:
            return
        everyone = self._communicator.allgather(f"{call}: {what}")
        calls = [f"  rank {rank}: {text}" for rank, text in enumerate(everyone)]
        raise MismatchError(
            f"rank {self.rank} of {self.size}: the workers do not make the same collective calls. Look for a branch "
            "that only some of them take, or for shapes that differ.\n" + "\n".join(calls)
        )

    def _meet(self, request: Any) -> None:
        """Wait for all ranks to come to an exchange, which may take as long as a step."""
        self._wait_for(request, _LONGEST_NAP)

    def _wait_for(self, request: Any, longest_nap: float = _FIRST_NAP) -> None:
        """Wait for an exchange; that all ranks have come to unless longer naps are allowed."""
        began, nap = time.perf_counter(), _FIRST_NAP
        while not request.Test():
            if time.perf_counter() - began < _SPIN_SECONDS:
                os.sched_yield()
            else:
                time.sleep(nap)
                nap = min(2 * nap, longest_nap)


def _parts(joined: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """A vector as arrays of these shapes, one after the other."""
    ends = np.cumsum([array.size for array in like])
    return [part.reshape(array.shape) for part, array in zip(np.split(joined, ends[:-1]), like)]


@functools.lru_cache(maxsize=4096)
def _number(text: str) -> int:
    """63 bits that stand for a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
