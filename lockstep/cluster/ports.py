"""Ports for servers that start a moment later."""

from __future__ import annotations

import contextlib
import random
import socket

_EPHEMERAL_PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
_LOWEST_PORT = 15_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, below those that the system gives to outgoing connections: nobody gets them in
    the moment before the servers do."""
    lowest_ephemeral = 32_768
    with contextlib.suppress(OSError, ValueError), open(_EPHEMERAL_PORTS) as file:
        lowest_ephemeral = int(file.read().split()[0])
    candidates = list(range(_LOWEST_PORT, max(lowest_ephemeral, _LOWEST_PORT + 1000)))
    random.SystemRandom().shuffle(candidates)
    with contextlib.ExitStack() as open_sockets:
        ports: list[int] = []
        for port in candidates:
            if len(ports) == count:
                break
            one = open_sockets.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                one.bind(("", port))
                ports.append(port)
        return ports
