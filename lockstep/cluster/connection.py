"""Messages between two processes: JSON objects, one a line, over a TCP connection."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import sys
from typing import Any

# After this long without an answer from the other machine the connection counts as lost.
SILENCE_SECONDS = 10
_LONGEST_LINE = 1 << 20


class Connection:
    """One end of a connection. Reading never waits; `fileno` lets a selector wait for it."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        _notice_silence(connection)
        self._connection = connection
        self._unread = b""

    def fileno(self) -> int:
        return self._connection.fileno()

    def own_host(self) -> str:
        """The address of this machine as the other end sees it, in brackets where a port may not follow it."""
        host = str(self._connection.getsockname()[0])
        return f"[{host}]" if ":" in host else host

    def send(self, message: dict[str, Any]) -> None:
        """Raises OSError when the connection is gone, or the other end has read nothing for long."""
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                if not select.select([], [self._connection], [], SILENCE_SECONDS)[1]:
                    raise TimeoutError("the other end does not read") from None

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have come; None once the connection is gone or speaks another language."""
        gone = False
        try:
            while chunk := self._connection.recv(65536):
                self._unread += chunk
            gone = True
        except BlockingIOError:
            pass
        except OSError:
            gone = True
        *lines, self._unread = self._unread.split(b"\n")
        try:
            messages = [json.loads(line) for line in lines]
        except ValueError:
            return None
        if len(self._unread) > _LONGEST_LINE or not all(isinstance(message, dict) for message in messages):
            return None
        # The last words first: that nothing follows them shows again when it is read next.
        return messages if messages or not gone else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.close()


def _notice_silence(connection: socket.socket) -> None:
    """Let the kernel find out that the other machine is gone, also when a process here is busy for minutes."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, (SILENCE_SECONDS - 2) // 2)
        # Sent but never acknowledged, which keeps the probes above from being sent.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_SECONDS * 1000)
