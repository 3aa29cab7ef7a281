"""Where each worker is: they tell each other, when their launcher has named rank 0's machine only."""

from __future__ import annotations

import selectors
import time
from typing import Any

from lockstep._errors import JoinError
from lockstep.cluster.connection import Connection
from lockstep.cluster.environment import Cluster, join_seconds, local_place
from lockstep.cluster.ports import free_ports
from lockstep.cluster.rendezvous import listen_at, meet_at
from lockstep.cluster.torchrun import Place


def exchanged(own: Place) -> Cluster:
    """Wait for all workers and learn where each one is.

    Raises JoinError when some do not come, or do not belong together.
    """
    local_rank, local_size = own.local or (0, 1)
    unknown = Cluster(own.rank, own.size, local_rank, local_size)
    deadline = time.monotonic() + join_seconds()
    listener = listen_at(own.master, unknown) if own.rank == 0 else None
    connections = meet_at(listener, unknown, join_seconds(), own.master)
    try:
        if own.rank == 0:
            addresses = _gathered(own, connections, deadline)
        else:
            address = f"{connections[0].own_host()}:{free_ports(1)[0]}"
            connections[0].send({"address": address, "chief": own.master})
            addresses = _messages({0: connections[0]}, deadline)[0]["addresses"]
    finally:
        for connection in connections.values():
            connection.close()
    local = own.local or local_place(own.rank, tuple(addresses))
    return Cluster(own.rank, own.size, *local, tuple(addresses))


def _gathered(own: Place, connections: dict[int, Connection], deadline: float) -> list[str]:
    """On rank 0: every worker's address, told to all. Rank 0 keeps the one by which the others have found it."""
    said = _messages(connections, deadline)
    addresses = [said[1]["chief"], *(said[rank]["address"] for rank in range(1, own.size))]
    for connection in connections.values():
        connection.send({"addresses": addresses})
    return addresses


def _messages(connections: dict[int, Connection], deadline: float) -> dict[int, Any]:
    """The next message of each rank."""
    messages: dict[int, Any] = {}
    with selectors.DefaultSelector() as selector:
        for rank, connection in connections.items():
            selector.register(connection, selectors.EVENT_READ, rank)
        while len(messages) < len(connections):
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in ready:
                received = connections[key.data].receive()
                if received is None:
                    raise JoinError(f"rank {key.data} has gone while the workers told each other where they are")
                if received:
                    messages[key.data] = received[0]
                    selector.unregister(connections[key.data])
            if not ready:
                silent = sorted(connections.keys() - messages.keys())
                raise JoinError(f"ranks {silent} do not answer. LOCKSTEP_JOIN_SECONDS sets the limit.")
    return messages
