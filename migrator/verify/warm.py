"""Start recorded processes from one that has imported TensorFlow already, which takes longer than most of what is run.

    python -m migrator.verify.warm --serve SOCKET      the server; ends when its standard input is closed
    python -m migrator.verify.warm SOCKET plan.json    does what `python -m migrator.verify.recorder plan.json` does

The server forks itself for each run; nothing but imports has happened in it by then: no device, no seed, no variable,
no thread of TensorFlow's. The second is a stand-in that `lockstep run` starts and ends as any worker: it hands its
arguments, environment, working directory and output to a fork, and ends when that ends, with its exit code. If the
stand-in is killed, so is the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

_PRELOADED = ("numpy", "tensorflow", "keras")


def serve(path: str) -> list[str]:
    """Fork for each request; returns only in a fork, with the arguments of the run."""
    for name in _PRELOADED:
        with suppress(ImportError):  # the script itself will say so
            importlib.import_module(name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)  # whoever sees the socket can connect to it
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        _reap()
        if sys.stdin in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return _become_run_of(connection)
        connection.close()


def _reap() -> None:
    """Take leave of the forks that have ended: the time that they computed counts as this process's children's."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become_run_of(connection: socket.socket) -> list[str]:
    """Split into the run itself, which returns, and its keeper, which does not."""
    _, (stdout, stderr), _, _ = socket.recv_fds(connection, 1, 2)
    request: dict[str, Any] = json.loads(connection.makefile().readline())
    run = os.fork()
    if run:
        _keep(run, connection)
    connection.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.chdir(request["working_directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return [str(argument) for argument in request["arguments"]]


def _keep(run: int, connection: socket.socket) -> None:
    """Tell the stand-in how the run ended; end the run if the stand-in is gone first."""
    ended = os.pidfd_open(run)
    ready, _, _ = select.select([ended, connection.fileno()], [], [])
    if ended not in ready:
        os.kill(run, signal.SIGKILL)
    _, status = os.waitpid(run, 0)
    with suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def stand_in(path: str, arguments: Sequence[str]) -> int:
    """Have the server run it, and wait. The exit code: as in a shell, 128 + n for a run ended by signal n."""
    request = {
        "arguments": list(arguments),
        "environment": dict(os.environ),
        "working_directory": os.getcwd(),
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [b"+"], [1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answer = connection.recv(16)
    if not answer:
        raise ConnectionError("the server ended before the run did")
    code = int(answer)
    return code if code >= 0 else 128 - code


def is_possible() -> bool:
    """Whether this system has what it takes: Python 3.9 or later on Linux, with process descriptors."""
    return hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")


if __name__ == "__main__":
    if sys.argv[1] != "--serve":
        sys.exit(stand_in(sys.argv[1], sys.argv[2:]))
    started_as = serve(sys.argv[2])
    from migrator.verify.plan import Plan
    from migrator.verify.recorder.running import run

    run(Plan.read(Path(started_as[0])))
