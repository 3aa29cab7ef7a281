"""A backend of lockstep's for forks of one process: all that a rank sends goes to a hub, which answers all at once.

The hub waits for one message of each rank. Ranks that are in different calls, and ranks that end while others wait,
are errors on all of them: where real ranks would hang, these fail.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

_LENGTH = struct.Struct("<Q")


def _send(connection: socket.socket, message: Any) -> None:
    data = pickle.dumps(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _receive(connection: socket.socket) -> Any:
    """The next message. Raises EOFError when the other end is closed."""
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
    return pickle.loads(_read(connection, length))


def _read(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            raise EOFError("the other end is closed")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


# -- the hub ---------------------------------------------------------------------------------------------------------


def serve(connections: Sequence[socket.socket], seconds: float) -> str:
    """Answer the ranks until all have ended; the first reason why they could not all go on, or nothing."""
    deadline = time.monotonic() + seconds
    trouble = ""
    open_ranks = dict(enumerate(connections))
    waiting: dict[int, Any] = {}
    while open_ranks:
        silent = [c for rank, c in open_ranks.items() if rank not in waiting]
        ready, _, _ = select.select(silent, [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return trouble or f"still running after {seconds:g} s"
        for rank, connection in list(open_ranks.items()):
            if connection in ready:
                try:
                    waiting[rank] = _receive(connection)
                except (EOFError, ConnectionError):
                    del open_ranks[rank]
        if waiting and len(waiting) == len(open_ranks):
            trouble = trouble or _answer(open_ranks, waiting, len(connections))
            waiting = {}
    return trouble


def _answer(open_ranks: dict[int, socket.socket], waiting: dict[int, Any], size: int) -> str:
    calls = {rank: message[0] for rank, message in waiting.items()}
    problem = ""
    answers: list[Any] = []
    if len(waiting) < size:
        problem = f"some ranks have ended while the others are in {calls}"
    elif len(set(calls.values())) > 1:
        problem = f"the ranks are in different calls: {calls}"
    else:
        try:
            answers = _combine(waiting[0][0], [waiting[rank][1] for rank in range(size)])
        except ValueError as error:
            problem = f"{calls[0]}: {error}"
    for connection in open_ranks.values():
        with contextlib.suppress(OSError):
            _send(connection, (problem, answers))
    return problem


def _combine(call: tuple[str, Any], of_ranks: list[list[np.ndarray]]) -> list[np.ndarray]:
    kind, detail = call
    if kind == "broadcast":
        return of_ranks[detail]
    if kind == "gather":
        return [np.concatenate(parts) for parts in zip(*of_ranks)]
    if any(len({part.shape for part in parts}) > 1 for parts in zip(*of_ranks)):
        raise ValueError(f"the shapes differ: {[[part.shape for part in parts] for parts in zip(*of_ranks)]}")
    return [_reduce(np.stack(parts), detail) for parts in zip(*of_ranks)]


def _reduce(stacked: np.ndarray, operation: str) -> np.ndarray:
    function = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}[operation]
    exact = stacked.astype(np.float64) if stacked.dtype.kind == "f" or stacked.dtype.name == "bfloat16" else stacked
    return np.asarray(function(exact, axis=0)).astype(stacked.dtype)


# -- a rank ----------------------------------------------------------------------------------------------------------


class SocketRank:
    """One rank's end of the hub, as lockstep.backends.Backend wants it."""

    def __init__(self, rank: int, size: int, connection: socket.socket) -> None:
        self.rank = self.local_rank = rank
        self.size = size
        self._connection = connection
        from lockstep.backends._order import ProgramOrder

        self._order = ProgramOrder()

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        return self._through_python(("reduce", operation), tensors)

    def gather(self, tensor: Any) -> Any:
        (rows,) = self._through_python(("gather", None), [tensor], keep_shapes=False)
        rows.set_shape([None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]])
        return rows

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        return self._through_python(("broadcast", root_rank), tensors)

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def close(self) -> None:
        self._connection.close()

    def abandon(self) -> None:
        self._connection.close()

    def _through_python(self, call: tuple[str, Any], tensors: Sequence[Any], keep_shapes: bool = True) -> list[Any]:
        import tensorflow as tf

        if not tensors:
            return []

        def exchange(*arrays: np.ndarray) -> list[np.ndarray]:
            _send(self._connection, (call, [np.asarray(array) for array in arrays]))
            problem, answers = _receive(self._connection)
            if problem:
                raise RuntimeError(problem)
            return list(answers)

        if tf.executing_eagerly():
            answers = exchange(*(tensor.numpy() for tensor in tensors))
            return [tf.convert_to_tensor(a, t.dtype) for a, t in zip(answers, tensors)]
        dtypes = [tensor.dtype for tensor in tensors]
        with self._order.call() as ordered:
            results = list(ordered.run(lambda: tf.numpy_function(exchange, list(tensors), dtypes, stateful=True)))
        for result, tensor in zip(results, tensors):
            if keep_shapes:
                result.set_shape(tensor.shape)
        return results
