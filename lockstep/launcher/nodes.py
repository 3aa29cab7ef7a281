"""How the launchers of several machines agree: on the workers' addresses, and on how it all ended.

The launcher of node 0 listens at the master address and decides; the others connect to it. One node alone is the
same with nobody connected.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Callable

from lockstep._errors import JoinError
from lockstep._version import __version__
from lockstep.cluster.connection import Connection
from lockstep.launcher.local_workers import Outcome

_CONNECT_SECONDS = 5.0
_RETRY_SECONDS = 0.3
_POLL_SECONDS = 0.1
# How long node 0 waits for a machine with the cause, while all that it heard of followed from somewhere else.
_CAUSE_SECONDS = 9.0


class Nodes:
    """This launcher's connections: node 0's to the launchers of all other nodes, theirs to node 0.

    host is the name by which workers on other machines reach this one.
    """

    def __init__(self, rank: int, count: int, host: str, connections: dict[int, Connection]) -> None:
        self.rank, self.count, self._host = rank, count, host
        self._connections = connections
        self._selector = selectors.DefaultSelector()
        for node, connection in connections.items():
            self._selector.register(connection, selectors.EVENT_READ, node)
        self._attempt = 0
        self._begin()

    def _begin(self) -> None:
        self._attempt += 1
        self._ports: dict[int, list[str]] = {}
        self._addresses: list[list[str]] | None = None
        self._outcomes: dict[int, Outcome] = {}
        self._failed_at: float | None = None
        self._verdict: Outcome | None = None

    def agree_on_addresses(self, ports: list[int], interrupted: Callable[[], bool]) -> list[list[str]] | None:
        """Every node's list of its workers' addresses, in the order of nodes; waits for all of them.

        None when this launcher was interrupted. Raises JoinError when a node is gone.
        """
        self._begin()
        own = [f"{self._host}:{port}" for port in ports]
        self._tell({"addresses": own})
        if self.rank == 0:
            self._ports[0] = own
        while self._addresses is None:
            if interrupted():
                return None
            self._read(_POLL_SECONDS)
            if self._verdict is not None or self._outcomes:
                raise JoinError((self._verdict or next(iter(self._outcomes.values()))).text)
            if self.rank == 0 and len(self._ports) == self.count:
                self._addresses = [self._ports[node] for node in range(self.count)]
                self._tell({"cluster": self._addresses})
        return self._addresses

    def tell(self, outcome: Outcome) -> None:
        """Say how this node's workers ended."""
        if self.rank == 0:
            self._note(0, outcome)
        else:
            self._tell({"outcome": vars(outcome)})

    def verdict(self, may_restart: bool) -> Outcome | None:
        """How it ended on all nodes together; None as long as nobody failed and not all are done.

        may_restart is node 0's word on whether another attempt may follow.
        """
        self._read(0.0)
        if self.rank == 0 and self._verdict is None:
            decided = self._decided()
            if decided is not None:
                self._verdict = replace(decided, may_restart=may_restart and decided.may_restart)
                self._tell({"verdict": vars(self._verdict)})
        return self._verdict

    def _decided(self) -> Outcome | None:
        failed = [outcome for outcome in self._outcomes.values() if outcome.code]
        if not failed:
            return Outcome(0) if len(self._outcomes) == self.count else None
        cause = next((outcome for outcome in failed if not outcome.followed), None)
        waited = time.monotonic() - (self._failed_at or 0.0)
        if cause is None and len(self._outcomes) < self.count and waited < _CAUSE_SECONDS:
            return None
        return cause or failed[0]

    def _note(self, node: int, outcome: Outcome) -> None:
        self._outcomes.setdefault(node, outcome)
        if outcome.code and self._failed_at is None:
            self._failed_at = time.monotonic()

    def _read(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            node, connection = key.data, self._connections[key.data]
            messages = connection.receive()
            for message in messages or ():
                self._handle(node, message)
            if messages is None:
                self._selector.unregister(connection)
                gone = Outcome(
                    1, f"lockstep: the launcher of node {node} is gone, so all were ended", may_restart=False
                )
                if self.rank == 0:
                    self._note(node, gone)
                elif self._verdict is None:
                    self._verdict = gone

    def _handle(self, node: int, message: dict[str, Any]) -> None:
        if message["attempt"] != self._attempt:
            return  # what a node had to say of the attempt before
        if "addresses" in message:
            self._ports[node] = message["addresses"]
        elif "cluster" in message:
            self._addresses = message["cluster"]
        elif "outcome" in message:
            self._note(node, Outcome(**message["outcome"]))
        elif "verdict" in message:
            self._verdict = Outcome(**message["verdict"])

    def _tell(self, message: dict[str, Any]) -> None:
        for connection in self._connections.values():
            # That a launcher is gone shows when its connection is read.
            with contextlib.suppress(OSError):
                connection.send({**message, "attempt": self._attempt})

    def close(self) -> None:
        self._selector.close()
        for connection in self._connections.values():
            connection.close()


@contextlib.contextmanager
def alone() -> Iterator[Nodes]:
    """One machine."""
    nodes = Nodes(0, 1, "127.0.0.1", {})
    try:
        yield nodes
    finally:
        nodes.close()


@contextlib.contextmanager
def meet(rank: int, count: int, master: str, seconds: float, interrupted: Callable[[], bool]) -> Iterator[Nodes | None]:
    """The launchers of all nodes, who have met at the master address "host:port" of node 0.

    None when this launcher was interrupted. Raises JoinError when some have not come after so many seconds, when the
    port is taken, and when two launchers do not belong together.
    """
    host, _, port = master.rpartition(":")
    deadline = time.monotonic() + seconds
    with contextlib.ExitStack() as stack:
        if rank == 0:
            met = _wait_for_nodes(count, int(port), deadline, interrupted, stack)
            own = host
        else:
            connection, own = _find_master(rank, count, (host.strip("[]"), int(port)), deadline, interrupted, stack)
            met = None if connection is None else {0: connection}
        if met is None:
            yield None
            return
        nodes = Nodes(rank, count, own, met)
        stack.callback(nodes.close)
        yield nodes


def _wait_for_nodes(
    count: int, port: int, deadline: float, interrupted: Callable[[], bool], stack: contextlib.ExitStack
) -> dict[int, Connection] | None:
    met: dict[int, Connection] = {}
    strangers: list[Connection] = []
    try:
        listener = socket.create_server(("", port), backlog=256)
    except OSError as error:
        raise JoinError(f"node 0 cannot listen on port {port}: {error}") from error
    with listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while len(met) < count - 1:
            if interrupted():
                return None
            if time.monotonic() > deadline:
                missing = [str(node) for node in range(1, count) if node not in met]
                raise JoinError(
                    f"the launchers of nodes {', '.join(missing)} did not come. LOCKSTEP_JOIN_SECONDS sets the limit."
                )
            for key, _ in selector.select(_POLL_SECONDS):
                if key.fileobj is listener:
                    newcomer = Connection(listener.accept()[0])
                    stack.callback(newcomer.close)
                    strangers.append(newcomer)
                    selector.register(newcomer, selectors.EVENT_READ)
                    continue
                connection: Any = key.fileobj
                messages = connection.receive()
                if messages == []:
                    continue
                selector.unregister(connection)
                node = _admitted(messages, count, met)
                if node is not None:
                    met[node] = connection
    return met


def _admitted(messages: list[dict[str, Any]] | None, count: int, met: dict[int, Connection]) -> int | None:
    """The newcomer's node; None for whatever else knocks at a port. Raises JoinError for a launcher of another job."""
    said = messages[0] if messages else {}
    node = said.get("node")
    if "lockstep" not in said or not isinstance(node, int):
        return None
    if said["lockstep"] != __version__:
        raise JoinError(f"node {node} has lockstep {said['lockstep']}, node 0 has {__version__}")
    if said.get("nodes") != count or not 0 < node < count or node in met:
        raise JoinError(
            f"a launcher came with --nnodes {said.get('nodes')} --node-rank {node}, which does not fit to --nnodes "
            f"{count} with nodes {[0, *sorted(met)]} there already"
        )
    return node


def _find_master(
    rank: int,
    count: int,
    master: tuple[str, int],
    deadline: float,
    interrupted: Callable[[], bool],
    stack: contextlib.ExitStack,
) -> tuple[Connection | None, str]:
    """The connection to node 0, and the address of this machine as it is seen from there."""
    trouble: object = "no answer"
    while not interrupted():
        if time.monotonic() > deadline:
            raise JoinError(
                f"node {rank} did not reach node 0 at {master[0]}:{master[1]} ({trouble}). LOCKSTEP_JOIN_SECONDS sets "
                "the limit."
            )
        try:
            opened = socket.create_connection(master, timeout=_CONNECT_SECONDS)
        except OSError as error:
            trouble = error
            time.sleep(_RETRY_SECONDS)
            continue
        connection = Connection(opened)
        stack.callback(connection.close)
        connection.send({"lockstep": __version__, "node": rank, "nodes": count})
        return connection, connection.own_host()
    return None, ""
