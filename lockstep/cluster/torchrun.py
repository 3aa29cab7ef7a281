"""The variables that torchrun sets for each process, and PyTorchJob and others after it: RANK, WORLD_SIZE, MASTER_ADDR,
MASTER_PORT, and where they have it LOCAL_RANK, LOCAL_WORLD_SIZE.

They name the machine of rank 0 only, where the workers tell each other where they are (`lockstep.cluster.addresses`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from lockstep._errors import JoinError
from lockstep.cluster.environment import Cluster

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_NEEDED = VARIABLES[:4]
_LOCAL = VARIABLES[4:]
# By torchrun, whose own process listens at MASTER_PORT then.
_PORT_IS_TAKEN = "TORCHELASTIC_USE_AGENT_STORE"


@dataclass(frozen=True)
class Place:
    """One of `size` processes, which meet at master, "host:port". local: its number on its machine, and how many there
    are; None where the launcher does not say."""

    rank: int
    size: int
    master: str
    local: tuple[int, int] | None


def is_complete() -> bool:
    """Whether all the variables are there that a worker needs."""
    return all(_text(name) for name in _NEEDED)


def place() -> Place | None:
    """What the variables say; None where they say nothing, or that this process is the only one.

    Raises JoinError for variables that are half set or contradict each other.
    """
    if _text("WORLD_SIZE") in ("", "1") and not (_text("RANK") and (_text("MASTER_ADDR") or _text("MASTER_PORT"))):
        return None
    missing = [name for name in _NEEDED if not _text(name)]
    if missing:
        there = [name for name in _NEEDED if _text(name)]
        raise JoinError(
            f"{', '.join(there)} say that this process is one of several, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set. Set {', '.join(_NEEDED)} as torchrun does; for one "
            "process alone unset them, or set LOCKSTEP_BACKEND=single"
        )
    rank, size, port = _number("RANK"), _number("WORLD_SIZE"), _number("MASTER_PORT")
    if size == 1 and rank == 0:
        return None
    if rank >= size:
        raise JoinError(f"RANK {rank} is not below WORLD_SIZE {size}")
    if not 0 < port < 65_535:
        raise JoinError(f"MASTER_PORT {port} is no port")
    if _text(_PORT_IS_TAKEN).lower() in ("true", "1"):
        port += 1
    host = _text("MASTER_ADDR")
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return Place(rank, size, f"{host}:{port}", _local(size))


def _local(size: int) -> tuple[int, int] | None:
    if not all(_text(name) for name in _LOCAL):
        return None
    rank, count = _number("LOCAL_RANK"), _number("LOCAL_WORLD_SIZE")
    if rank >= count or count > size:
        raise JoinError(f"LOCAL_RANK {rank}, LOCAL_WORLD_SIZE {count} and WORLD_SIZE {size} do not fit together")
    return rank, count


def refuse_other_place(cluster: Cluster) -> None:
    """Raises JoinError where the variables make this process another rank than TF_CONFIG does."""
    other = place() if is_complete() else None
    if other is not None and (other.rank, other.size) != (cluster.rank, cluster.size):
        raise JoinError(
            f"TF_CONFIG makes this process rank {cluster.rank} of {cluster.size}, but RANK and WORLD_SIZE make it rank "
            f"{other.rank} of {other.size}: unset those that do not describe this job"
        )


def refuse_container_of_launcher() -> None:
    """Raises JoinError where each container of a job was meant to start workers with a launcher: as many processes
    alone would train as many models."""
    nodes = _text("PET_NNODES")
    if nodes not in ("", "0", "1", "1:1"):
        raise JoinError(
            f"PET_NNODES is {nodes}: this container is one of several, each of which is to start its workers with a "
            "launcher. Start the script with `lockstep run`, which reads the PET_* variables; or set "
            "LOCKSTEP_BACKEND=single for a process alone"
        )


def _text(name: str) -> str:
    return os.environ.get(name, "").strip()


def _number(name: str) -> int:
    if not _text(name).isdecimal():
        raise JoinError(f"{name} should be a number, not {_text(name)!r}")
    return int(_text(name))
