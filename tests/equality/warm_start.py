"""Start recorded runs from a process that has imported TensorFlow already.

Importing TensorFlow takes several times as long as the training that these tests compare. A server imports it
and forks itself for each run; nothing else has happened in it by then: no device, no seed, no variable.

    python warm_start.py --serve SOCKET             the server; ends when its standard input is closed
    python warm_start.py SOCKET arguments ...       does what `python recorder.py arguments ...` does

The second is a stand-in that `lockstep run` can start and end as any worker: it hands its arguments, environment,
working directory and output to a fork of the server, and ends when that ends, with its exit code. If the stand-in
is killed, so is the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

RECORDER = Path(__file__).with_name("recorder.py")
PRELOADED = (
    "tensorflow",
    "keras",
    "sklearn.datasets",
    "sklearn.model_selection",
    "sklearn.preprocessing",
    "sklearn.utils",
)


def serve(path: str) -> list[str]:
    """Fork for each request; returns only in a fork, with the arguments to run the recorder with."""
    for name in PRELOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks are reaped by themselves
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)  # whoever sees the socket can connect to it
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            return become_run_of(connection)
        connection.close()


def become_run_of(connection: socket.socket) -> list[str]:
    """Split into the run itself, which returns, and its keeper, which does not."""
    _, (stdout, stderr), _, _ = socket.recv_fds(connection, 1, 2)
    request = json.loads(connection.makefile().readline())
    run = os.fork()
    if run:
        keep(run, connection)
    connection.close()
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.chdir(request["working_directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return request["arguments"]


def keep(run: int, connection: socket.socket) -> None:
    """Tell the stand-in how the run ended; end the run if the stand-in is gone first."""
    ended = os.pidfd_open(run)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        os.kill(run, signal.SIGKILL)
    _, status = os.waitpid(run, 0)
    with suppress(OSError):
        connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def stand_in(path: str, arguments: list[str]) -> int:
    """Have the server run it, and wait. The exit code: as in a shell, 128 + n for a run ended by signal n."""
    request = {
        "arguments": arguments,
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


if __name__ == "__main__":
    if sys.argv[1] != "--serve":
        sys.exit(stand_in(sys.argv[1], sys.argv[2:]))
    sys.argv[1:] = serve(sys.argv[2])
    sys.path[0] = str(RECORDER.parent)
    runpy.run_path(str(RECORDER), run_name="__main__")
