"""Who has come to a Horovod job. Horovod itself ends the process where somebody has not, and does not say who.

Told and asked at the server that Horovod's launcher runs for the workers to find each other.
"""

from __future__ import annotations

import os
import time

from lockstep._errors import JoinError

_SCOPE = "lockstep"
_RETRY_SECONDS = 0.2


def await_all(seconds: float) -> None:
    """Wait until all ranks have called this, where Horovod's launcher has told this process of its server.

    Raises JoinError when some have not after so many seconds.
    """
    address, port = (os.environ.get(f"HOROVOD_GLOO_RENDEZVOUS_{name}", "") for name in ("ADDR", "PORT"))
    rank, size = (os.environ.get(f"HOROVOD_{name}", "") for name in ("RANK", "SIZE"))
    if not (address and port and rank.isdecimal() and size.isdecimal()):
        return
    from horovod.runner.http.http_client import put_data_into_kvstore, read_data_from_kvstore

    deadline = time.monotonic() + seconds
    missing = list(range(int(size)))
    try:
        put_data_into_kvstore(address, port, _SCOPE, rank, True)
    except RuntimeError as error:
        raise JoinError(f"Horovod's launcher does not answer at {address}:{port}: {error}") from error
    while missing:
        try:
            read_data_from_kvstore(address, port, _SCOPE, str(missing[0]))
        except RuntimeError:  # not there yet
            if time.monotonic() > deadline:
                break
            time.sleep(_RETRY_SECONDS)
        else:
            missing.pop(0)
    if missing:
        raise JoinError(
            f"rank {rank} of {size} could not join: rank {missing[0]} did not start within {seconds:g} s. "
            "LOCKSTEP_JOIN_SECONDS sets the limit."
        )
