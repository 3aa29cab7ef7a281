"""Several processes that share out a task. Pipes connect them, so that no shared memory or semaphore is needed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Callable, Generic, TypeVar

from migrator.records import dataclass

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Died:
    """The process ended while it worked on the item: killed, or out of memory."""

    exit_code: int | None


@dataclass
class _Worker(Generic[Item]):
    process: BaseProcess
    pipe: Connection
    index: int


def shared_out(task: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[tuple[int, Result | Died]]:
    """The index and the result of each item, as they come. Ends all processes when the caller stops asking.

    Where no process can be started, the task runs in this one.
    """
    # A fork needs no time to import anything again, and is safe here: this process has one thread.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else None)
    waiting = iter(range(len(items)))
    workers: list[_Worker[Item]] = []

    def start() -> None:
        index = next(waiting, None)
        if index is None:
            return
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(task, items, theirs), daemon=True)
        process.start()
        theirs.close()
        ours.send(index)
        workers.append(_Worker(process, ours, index))

    try:
        try:
            for _ in range(jobs):
                start()
        except OSError:
            if not workers:
                yield from ((index, task(item)) for index, item in enumerate(items))
                return
        while workers:
            ready = wait([worker.pipe for worker in workers])
            for worker in [worker for worker in workers if worker.pipe in ready]:
                try:
                    result = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.process.join()
                    workers.remove(worker)
                    yield worker.index, Died(worker.process.exitcode)
                    start()
                    continue
                done, following = worker.index, next(waiting, None)
                if following is None:
                    workers.remove(worker)
                    worker.pipe.close()
                else:
                    worker.index = following
                    worker.pipe.send(following)
                yield done, result
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.join()


def _work(task: Callable[[Item], Result], items: Sequence[Item], pipe: Connection) -> None:
    # Ctrl-C reaches the whole group; the parent answers it, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            index = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(task(items[index]))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
