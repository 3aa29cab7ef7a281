"""Where the workers of a Horovod job on this machine find each other: the server that horovodrun would start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lockstep._errors import JoinError

_LOOPBACK = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1", "HOROVOD_GLOO_IFACE": "lo"}
_GLOO = {"HOROVOD_CONTROLLER": "gloo", "HOROVOD_CPU_OPERATIONS": "gloo"}


@contextlib.contextmanager
def rendezvous(workers: int) -> Iterator[list[dict[str, str]]]:
    """The environment of each of so many workers, which can meet inside.

    Raises JoinError when Horovod is not installed.
    """
    try:
        from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
        from horovod.runner.gloo_run import create_slot_env_vars
        from horovod.runner.http.http_server import RendezvousServer
    except ImportError as error:
        raise JoinError(f"--backend horovod: Horovod is not installed. Importing it says: {error}") from error
    places = get_host_assignments(parse_hosts(f"localhost:{workers}"), workers)
    server = RendezvousServer()
    port = {"HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.start())}
    try:
        server.init(places)
        yield [{**create_slot_env_vars(place), **port, **_LOOPBACK, **_GLOO} for place in places]
    finally:
        server.stop()
