"""The workers' first meeting, before TensorFlow connects them.

TensorFlow's own start waits for late workers inside one call that nothing can end, no signal and no other
thread, and does not say for whom it waits. So rank 0 listens first, on the port that TensorFlow will use then,
until all have come. The connections stay open: over them the workers notice when one is gone, and why.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import selectors
import socket
import time
from typing import Any

from lockstep._errors import JoinError
from lockstep._version import __version__
from lockstep.cluster.connection import Connection
from lockstep.cluster.environment import Cluster

_RETRY_SECONDS = 0.3
_CONNECT_SECONDS = 5.0


def meet(cluster: Cluster, seconds: float) -> dict[int, Connection]:
    """Wait until all workers are there; returns the connections: rank 0's to all others, theirs to rank 0.

    Raises JoinError when some have not come after so many seconds (on all that have), when this worker's port is
    taken, and when two workers do not belong together: another cluster, another version of lockstep, one rank twice.
    """
    with listen_at(cluster.addresses[cluster.rank], cluster) as listener:
        if cluster.rank == 0:
            return meet_at(listener, cluster, seconds)
    return meet_at(None, cluster, seconds)


def meet_at(
    listener: socket.socket | None, cluster: Cluster, seconds: float, chief: str | None = None
) -> dict[int, Connection]:
    """`meet` where rank 0 listens already, the others not at all. Closes the listener.

    chief is rank 0's "host:port", for the others, where the cluster has no addresses yet.
    """
    deadline = time.monotonic() + seconds
    if listener is None:
        return {0: _find_chief(cluster, chief or cluster.addresses[0], deadline, seconds)}
    with listener:
        return _gather_workers(cluster, listener, deadline, seconds)


def listen() -> socket.socket:
    """A server at a port that the system chooses."""
    return _server(0)


def listen_at(address: str, cluster: Cluster) -> socket.socket:
    """A server at the port of this worker's "host:port". Raises JoinError when it is taken."""
    host, _, port = address.rpartition(":")
    try:
        return _server(int(port))
    except ValueError as error:
        raise JoinError(f"the address of rank {cluster.rank} should be host:port, not {host}:{port}") from error
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise JoinError(f"rank {cluster.rank} cannot listen on port {port}: {error}") from error
        raise JoinError(
            f"port {port}, at which the others expect rank {cluster.rank} of {cluster.size}, is taken on this machine "
            "by another process: an earlier run that has not ended, or another job. End it, or name another port."
        ) from error


def _server(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        # Where the kernel knows IPv6 but has it switched off, the plain socket below does.
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=256, dualstack_ipv6=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port), backlog=256)


def _introduction(cluster: Cluster) -> dict[str, Any]:
    described = hashlib.sha256(repr((cluster.size, cluster.addresses)).encode()).hexdigest()
    return {"lockstep": __version__, "cluster": described, "rank": cluster.rank}


def _gather_workers(
    cluster: Cluster, listener: socket.socket, deadline: float, seconds: float
) -> dict[int, Connection]:
    arrived: dict[int, Connection] = {}
    strangers: set[Any] = set()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as on_failure:
        on_failure.callback(lambda: [connection.close() for connection in (*strangers, *arrived.values())])
        selector.register(listener, selectors.EVENT_READ)
        while len(arrived) < cluster.size - 1:
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise JoinError(_tell_missing(cluster, arrived, seconds))
            for key, _ in ready:
                if key.fileobj is listener:
                    newcomer = Connection(listener.accept()[0])
                    strangers.add(newcomer)
                    selector.register(newcomer, selectors.EVENT_READ)
                    continue
                connection: Any = key.fileobj
                messages = connection.receive()
                rank = (
                    _admitted(cluster, connection, messages, arrived) if messages and connection in strangers else None
                )
                if rank is not None:
                    arrived[rank] = connection
                    strangers.discard(connection)
                elif messages != []:
                    # A health probe of the port, a worker that was refused, or one that has gone away again.
                    selector.unregister(connection)
                    strangers.discard(connection)
                    arrived = {rank: one for rank, one in arrived.items() if one is not connection}
                    connection.close()
        on_failure.pop_all()
    for connection in strangers:
        connection.close()
    for connection in arrived.values():
        _send_quietly(connection, {"welcome": True})
    return arrived


def _admitted(cluster: Cluster, connection: Connection, messages: Any, arrived: dict[int, Connection]) -> int | None:
    """The rank of a worker of this job; None for one that is refused, and for whatever else knocks at a port."""
    said, expected = messages[0], _introduction(cluster)
    rank = said.get("rank")
    if "lockstep" not in said or not isinstance(rank, int):
        return None
    refusal = None
    if said["lockstep"] != expected["lockstep"]:
        refusal = f"rank 0 has lockstep {expected['lockstep']}, this worker {said['lockstep']}: install the same on all"
    elif said.get("cluster") != expected["cluster"]:
        refusal = (
            "rank 0 knows of other workers (TF_CONFIG, WORLD_SIZE) than this worker; all need the same cluster, in one "
            "order"
        )
    elif rank in arrived or not 0 < rank < cluster.size:
        refusal = f"there is a rank {rank} already: two workers were started with one and the same task"
    if refusal is None:
        return rank
    _send_quietly(connection, {"refused": refusal})
    return None


def _tell_missing(cluster: Cluster, arrived: dict[int, Connection], seconds: float) -> str:
    places = [f" ({address})" for address in cluster.addresses] or [""] * cluster.size
    missing = [f"rank {r}{places[r]}" for r in range(1, cluster.size) if r not in arrived]
    text = (
        f"{len(missing)} of {cluster.size} workers did not start within {seconds:g} s: {', '.join(missing)}. "
        "LOCKSTEP_JOIN_SECONDS sets the limit."
    )
    for connection in arrived.values():
        _send_quietly(connection, {"refused": text})
    return text


def _find_chief(cluster: Cluster, chief: str, deadline: float, seconds: float) -> Connection:
    host, _, port = chief.rpartition(":")
    trouble: object = "no answer"
    while time.monotonic() < deadline:
        try:
            opened = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS)
        except OSError as error:
            # Not there yet, or its name not known yet.
            trouble = error
            time.sleep(_RETRY_SECONDS)
            continue
        connection = Connection(opened)
        answer = _ask_for_admission(cluster, connection, deadline)
        if answer is None:
            # Rank 0 went away again, or TensorFlow of an earlier run still holds its port.
            trouble = "it hung up"
            connection.close()
            time.sleep(_RETRY_SECONDS)
            continue
        if "refused" in answer:
            raise JoinError(f"rank {cluster.rank} of {cluster.size} could not join: {answer['refused']}")
        return connection
    raise JoinError(
        f"rank {cluster.rank} of {cluster.size} waited {seconds:g} s in vain for rank 0 at {chief} "
        f"({trouble}). LOCKSTEP_JOIN_SECONDS sets the limit."
    )


def _ask_for_admission(cluster: Cluster, connection: Connection, deadline: float) -> dict[str, Any] | None:
    """Rank 0's answer; None when it hangs up or has not answered by the deadline."""
    try:
        connection.send(_introduction(cluster))
    except OSError:
        return None
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        # A little later than rank 0 gives up itself: it knows who is missing.
        while selector.select(max(0.0, deadline + 2.0 - time.monotonic())):
            messages = connection.receive()
            if messages != []:
                return messages[0] if messages else None
    return None


def _send_quietly(connection: Connection, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        connection.send(message)
