"""What the environment says about this process and its peers. Reads only: nothing is imported or joined."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from lockstep._errors import JoinError

_JOINED = "LOCKSTEP_JOINED_PID"
DEFAULT_STALL_SECONDS = 600.0


@dataclass(frozen=True)
class Cluster:
    """This process's place among the workers that train together.

    addresses holds "host:port" of every worker in rank order; it is empty for a single process.
    """

    rank: int
    size: int
    local_rank: int
    addresses: tuple[str, ...] = ()


ALONE = Cluster(rank=0, size=1, local_rank=0)


def from_tf_config() -> Cluster:
    """The cluster that TF_CONFIG describes, `ALONE` when it names fewer than two workers.

    Raises JoinError when TF_CONFIG is set but cannot be used: not JSON, a task outside the cluster,
    parameter servers or an evaluator (those need other strategies than data parallelism).
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text or _is_child_of_worker():
        return ALONE
    try:
        config = json.loads(text)
        jobs: dict[str, list[str]] = dict(config.get("cluster") or {})
        task: dict[str, Any] = dict(config.get("task") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise JoinError(f"TF_CONFIG is not the JSON object that TensorFlow expects: {error}") from error
    workers = [("chief", i) for i in range(len(jobs.get("chief", [])))]
    workers += [("worker", i) for i in range(len(jobs.get("worker", [])))]
    if len(workers) < 2:
        return ALONE
    try:
        place = (str(task.get("type")), int(task.get("index", 0)))
        rank = workers.index(place)
    except (TypeError, ValueError) as error:
        raise JoinError(
            f"TF_CONFIG: task {task} is not one of the {len(workers)} chief/worker tasks of its cluster; "
            "lockstep trains on chief and worker tasks only"
        ) from error
    addresses = tuple(str(jobs[kind][index]) for kind, index in workers)
    return Cluster(rank, len(workers), _local_rank(rank, addresses), addresses)


def mark_joined() -> None:
    """Tell the processes that this one will start that the worker named by TF_CONFIG is there already."""
    os.environ[_JOINED] = str(os.getpid())


def _is_child_of_worker() -> bool:
    """Whether a worker started this process, say to load data: its place in the cluster is taken."""
    return os.environ.get(_JOINED, str(os.getpid())) != str(os.getpid())


def _local_rank(rank: int, addresses: tuple[str, ...]) -> int:
    stated = os.environ.get("LOCKSTEP_LOCAL_RANK")
    if stated is not None:
        return int(stated)
    hosts = [address.rsplit(":", 1)[0] for address in addresses]
    return hosts[:rank].count(hosts[rank])


def stall_seconds() -> float:
    """How long a collective call may wait for a peer: LOCKSTEP_STALL_SECONDS, 600 unless set.

    Raises JoinError when it is not a positive number.
    """
    text = os.environ.get("LOCKSTEP_STALL_SECONDS", "").strip()
    if not text:
        return DEFAULT_STALL_SECONDS
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise JoinError(f"LOCKSTEP_STALL_SECONDS must be a positive number of seconds, not {text!r}")
    return seconds
