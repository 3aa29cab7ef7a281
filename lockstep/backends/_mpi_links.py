"""Connections of rank 0 with the other ranks of an MPI job, beside MPI: it says neither that a rank is gone nor why."""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import socket
import struct
import sys
import time
from typing import Any

from lockstep.cluster.connection import Connection

# How long one address of rank 0 is tried, and how long rank 0 waits for all ranks.
_TRY_SECONDS = 3.0
_ALL_SECONDS = 20.0
_SIOCGIFADDR = 0x8915


def connect(communicator: Any) -> dict[int, Connection]:
    """Rank 0's connections to all others, theirs to rank 0; all ranks call this together.

    None on any rank where some cannot reach rank 0, which is told on stderr: MPI may run over a network of its own.
    """
    connections = _meet_others(communicator) if communicator.Get_rank() == 0 else _find_chief(communicator)
    expected = communicator.Get_size() - 1 if communicator.Get_rank() == 0 else 1
    found = communicator.allgather(len(connections) == expected)
    if all(found):
        return connections
    for connection in connections.values():
        connection.close()
    if communicator.Get_rank() == 0:
        lost = ", ".join(str(rank) for rank, ok in enumerate(found) if rank and not ok)
        print(
            f"lockstep: over TCP rank 0 is not reached by rank {lost}. Training goes on, but it is left to MPI to "
            "notice a rank that is gone.",
            file=sys.stderr,
        )
    return {}


def _meet_others(communicator: Any) -> dict[int, Connection]:
    token = os.urandom(16).hex()
    arrived: dict[int, Connection] = {}
    with socket.create_server(("", 0), backlog=256) as listener, selectors.DefaultSelector() as selector:
        communicator.bcast((token, listener.getsockname()[1], _addresses()))
        selector.register(listener, selectors.EVENT_READ)
        strangers = set()
        deadline = time.monotonic() + _ALL_SECONDS
        while len(arrived) < communicator.Get_size() - 1 and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fileobj is listener:
                    newcomer = Connection(listener.accept()[0])
                    strangers.add(newcomer)
                    selector.register(newcomer, selectors.EVENT_READ)
                    continue
                connection: Any = key.fileobj
                messages = connection.receive()
                if messages == []:
                    continue
                selector.unregister(connection)
                strangers.discard(connection)
                if messages and messages[0].get("token") == token:
                    connection.send({"token": token})
                    arrived[messages[0]["rank"]] = connection
                else:
                    connection.close()
        for connection in strangers:
            connection.close()
    return arrived


def _find_chief(communicator: Any) -> dict[int, Connection]:
    token, port, addresses = communicator.bcast(None)
    for address in addresses:
        with contextlib.suppress(OSError):
            connection = Connection(socket.create_connection((address, port), timeout=_TRY_SECONDS))
            connection.send({"token": token, "rank": communicator.Get_rank()})
            if _answers(connection, token):
                return {0: connection}
            connection.close()
    return {}


def _answers(connection: Connection, token: str) -> bool:
    """Whether it is rank 0 at the other end: many machines have an address 127.0.0.1."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        deadline = time.monotonic() + _TRY_SECONDS
        while selector.select(max(0.0, deadline - time.monotonic())):
            messages = connection.receive()
            if messages != []:
                return bool(messages) and messages is not None and messages[0].get("token") == token
    return False


def _addresses() -> list[str]:
    """Where this machine may be reached: the address of its name, then those of its interfaces."""
    found = []
    with contextlib.suppress(OSError):
        found.append(socket.gethostbyname(socket.gethostname()))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # it has no address
                request = struct.pack("256s", name.encode()[:15])
                found.append(socket.inet_ntoa(fcntl.ioctl(any_socket, _SIOCGIFADDR, request)[20:24]))
    return list(dict.fromkeys([*found, "127.0.0.1"]))
