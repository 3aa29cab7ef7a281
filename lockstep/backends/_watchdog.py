"""A thread that ends the job when it cannot go on: a worker is gone, waits too long, or waits in vain.

Collectives themselves cannot time out: TensorFlow keeps a thread for each call that could. And they wait for ever
when the workers make different calls. So the workers tell rank 0 when they have waited a while, and rank 0 tells
all of them as soon as it is certain that they will never meet.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

from lockstep.cluster.connection import Connection
from lockstep.cluster.environment import Cluster
from lockstep.peers import news
from lockstep.peers.news import News
from lockstep.peers.whereabouts import END_OF_SCRIPT, Place, Whereabouts

# A call that lasts this long is reported to rank 0.
_REPORT_SECONDS = 2.0
# How long rank 0 waits for answers to an inquiry.
_ANSWER_SECONDS = 3.0
_CHIEF = 0


class Watchdog:
    """Watches this rank's calls and its connections: rank 0 has one to each worker, the others one to rank 0. Where
    nothing but the calls' engine connects them, there are none, and each watches its own calls.

    place tells where this process is. abort(text) makes its collective calls fail, those that wait and all later
    ones. A call may last stall_seconds.
    """

    def __init__(
        self,
        place: Callable[[], Place],
        abort: Callable[[str], None],
        cluster: Cluster,
        connections: dict[int, Connection],
        stall_seconds: float,
    ) -> None:
        self._place, self._abort, self._cluster = place, abort, cluster
        self._stall_seconds = stall_seconds
        self._patience: float | None = None
        self._connections = dict(connections)
        self._sending = threading.Lock()
        self._whereabouts = Whereabouts(cluster.size)
        self._inquired = 0.0
        # On rank 0: the waits that their ranks have called too long, and what they said.
        self._stalls: dict[int, tuple[Place, str]] = {}
        self._told_stall = False
        self._last, self._since, self._reported = place(), time.monotonic(), False
        self._stopped = False
        self._wake_end, self._wake_start = socket.socketpair()
        self._thread = threading.Thread(target=self._watch, name="lockstep-watchdog", daemon=True)
        self._thread.start()
        news.on_failure(self._tell_failure)
        # A fork would keep the connection open when this process is gone, and so keep its peers from noticing.
        os.register_at_fork(after_in_child=self._close)

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Inside, a call may last this long at most; then it fails on this rank alone."""
        self._patience = seconds
        try:
            yield
        finally:
            self._patience = None

    def stop(self) -> None:
        """End the thread, which must not be inside TensorFlow when the interpreter goes down, and tell the peers."""
        self._stopped = True
        self._wake_start.send(b"x")
        self._thread.join(timeout=2.0)
        self._send_all({"kind": "leaving", "finished": self._place().finished})
        self._close()

    def _close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _tell_failure(self, text: str) -> None:
        self._send_all({"kind": "failed", "text": text})

    def _send_all(self, message: dict[str, Any]) -> None:
        for rank in list(self._connections):
            self._send(rank, message)

    def _send(self, rank: int, message: dict[str, Any]) -> None:
        # That a connection is gone shows when it is read.
        with self._sending, contextlib.suppress(OSError):
            if rank in self._connections:
                self._connections[rank].send(message)

    def _watch(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_end, selectors.EVENT_READ)
            for rank, connection in self._connections.items():
                selector.register(connection, selectors.EVENT_READ, rank)
            while not self._stopped:
                events = selector.select(min(0.5, self._stall_seconds / 8))
                if self._stopped:
                    return
                for key, _ in events:
                    if key.data is not None and not self._read(key.data):
                        selector.unregister(key.fileobj)
                self._look()
                if self._cluster.rank == _CHIEF:
                    self._judge()

    def _read(self, rank: int) -> bool:
        """Handle what has come from this rank; False once nothing will come any more."""
        messages = self._connections[rank].receive()
        for message in messages or ():
            self._handle(rank, message)
        if messages is None and rank not in self._whereabouts.left:
            address = self._cluster.addresses[rank]
            self._end(
                f"rank {rank} ({address}) is gone without a word: it was killed, or its machine or network is gone",
                peer_lost=True,
            )
        return messages is not None

    def _handle(self, rank: int, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "waiting":
            self._whereabouts.waits[rank] = Place(*message["place"])
        elif kind == "moved":
            self._whereabouts.waits.pop(rank, None)
            self._stalls.pop(rank, None)
        elif kind == "inquiry":
            self._send(_CHIEF, {"kind": "answer", "inquiry": message["inquiry"], "place": _fields(self._place())})
        elif kind == "answer":
            self._whereabouts.answer(rank, message["inquiry"], Place(*message["place"]))
        elif kind == "stalled":
            self._stalls[rank] = (Place(*message["place"]), message["text"])
            self._inquire()
        elif kind == "leaving":
            self._whereabouts.leave(rank, message["finished"])
        elif kind == "failed":
            self._end(message["text"], peer_lost=True)
        elif kind == "end":
            self._end(message["text"], message["peer_lost"])

    def _look(self) -> None:
        """Report this rank's own waiting, and end what waits for too long."""
        place, now = self._place(), time.monotonic()
        if not place.is_same_wait(self._last):
            self._last, self._since, self._told_stall = place, now, False
            if self._reported:
                self._reported = False
                self._report({"kind": "moved"})
        waited = now - self._since if place.call is not None else 0.0
        if waited > _REPORT_SECONDS and not self._reported:
            self._reported = True
            self._report({"kind": "waiting", "place": _fields(place)})
        if self._patience is not None:
            if waited > self._patience:
                self._abort(f"lockstep: rank {self._cluster.rank} has waited {self._patience:g} s for the others")
        elif waited > self._stall_seconds + _ANSWER_SECONDS + 2.0:
            # Rank 0 should have ended the job by now.
            self._end(self._describe_stall(place), peer_lost=True)
        elif waited > self._stall_seconds and not self._told_stall:
            self._told_stall = True
            self._report({"kind": "stalled", "text": self._describe_stall(place), "place": _fields(place)})
        elif waited > _REPORT_SECONDS and _CHIEF in self._whereabouts.left and place.call != END_OF_SCRIPT:
            self._end(f"rank 0 has come to the end of its script while this rank waits in {place.call}", True)

    def _report(self, message: dict[str, Any]) -> None:
        if self._cluster.rank == _CHIEF:
            self._handle(_CHIEF, message)
        else:
            self._send(_CHIEF, message)

    def _describe_stall(self, place: Place) -> str:
        where = f" at {place.line}" if place.line else ""
        return (
            f"rank {self._cluster.rank} of {self._cluster.size} waited longer than {self._stall_seconds:g} s for its "
            f"peers in {place.call}{where}. LOCKSTEP_STALL_SECONDS sets the limit."
        )

    def _lasting_stall(self) -> str | None:
        """What a rank said of a wait that it has not come out of since."""
        answers = self._whereabouts.answers
        for rank, (place, text) in self._stalls.items():
            if rank not in answers or answers[rank].is_same_wait(place):
                return text
        return None

    def _inquire(self) -> None:
        self._inquired = time.monotonic()
        number = self._whereabouts.inquire()
        self._whereabouts.answer(_CHIEF, number, self._place())
        self._send_all({"kind": "inquiry", "inquiry": number})

    def _judge(self) -> None:
        """On rank 0: ask all where they are as soon as there is a suspicion, and end the job once it is certain."""
        late = time.monotonic() - self._inquired > _ANSWER_SECONDS
        if self._whereabouts.inquiry and (late or self._whereabouts.are_complete()):
            if self._whereabouts.are_deadlocked():
                self._end(
                    "the workers wait for each other in different calls, so none of them can go on:\n"
                    + self._whereabouts.describe(),
                    peer_lost=self._whereabouts.some_have_left(),
                )
            elif (stall := self._lasting_stall()) is not None:
                self._end(f"{stall}\n{self._whereabouts.describe()}", peer_lost=True)
        if self._whereabouts.are_suspicious() and late:
            self._inquire()

    def _end(self, text: str, peer_lost: bool) -> None:
        """Let the calls of this rank fail with this text; rank 0 tells the others first."""
        if self._cluster.rank == _CHIEF:
            self._send_all({"kind": "end", "text": text, "peer_lost": peer_lost})
        news.publish(News(text, peer_lost))
        self._abort(f"lockstep: {text}")
        self._stopped = True


def _fields(place: Place) -> list[Any]:
    return [place.call, place.begun, place.finished, place.line]
