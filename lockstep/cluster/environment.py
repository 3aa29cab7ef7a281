"""What the environment says about this process and its peers. Reads only: nothing is imported or joined."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any

from lockstep._errors import JoinError

_JOINED = "LOCKSTEP_JOINED_PID"
# By a launcher, which reads in it that its workers have come to join.
JOINED_FILE = "LOCKSTEP_JOINED_FILE"
DEFAULT_STALL_SECONDS = 600.0
DEFAULT_JOIN_SECONDS = 600.0


@dataclass(frozen=True)
class Cluster:
    """This process's place among the workers that train together.

    local_rank and local_size count the workers on this process's machine. addresses holds "host:port" of every
    worker in rank order; it is empty for a single process.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int = 1
    addresses: tuple[str, ...] = ()


ALONE = Cluster(rank=0, size=1, local_rank=0)


def from_tf_config() -> Cluster:
    """The cluster that TF_CONFIG describes, `ALONE` when it names fewer than two workers.

    Raises JoinError when TF_CONFIG is set but cannot be used: not JSON, a task outside the cluster, an evaluator,
    parameter servers (those need another strategy than data parallelism).
    """
    text = os.environ.get("TF_CONFIG", "").strip()
    if not text or is_child_of_worker():
        return ALONE
    try:
        config = json.loads(text)
        jobs: dict[str, list[str]] = dict(config.get("cluster") or {})
        task: dict[str, Any] = dict(config.get("task") or {})
    except (ValueError, TypeError, AttributeError) as error:
        raise JoinError(f"TF_CONFIG is not the JSON object that TensorFlow expects: {error}") from error
    _refuse_other_roles(jobs, task)
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
    return Cluster(rank, len(workers), *local_place(rank, addresses), addresses)


def _refuse_other_roles(jobs: dict[str, list[str]], task: dict[str, Any]) -> None:
    if jobs.get("ps") or task.get("type") == "ps":
        raise JoinError(
            "TF_CONFIG names parameter servers (ps). lockstep trains on chief and worker tasks only, which keep the "
            "weights themselves: start the job without ps tasks."
        )
    if task.get("type") == "evaluator":
        raise JoinError(
            "TF_CONFIG makes this process an evaluator. lockstep trains on chief and worker tasks only, and a migrated "
            "script evaluates by itself: start the job without an evaluator task."
        )


def mark_joined() -> None:
    """Tell the processes that this one will start that the worker named by TF_CONFIG is there already, and the launcher
    that it has joined."""
    os.environ[_JOINED] = str(os.getpid())
    if JOINED_FILE in os.environ:
        with contextlib.suppress(OSError), open(os.environ[JOINED_FILE], "a"):
            pass


def is_child_of_worker() -> bool:
    """Whether a worker started this process, say to load data: its place in the cluster is taken."""
    return os.environ.get(_JOINED, str(os.getpid())) != str(os.getpid())


def local_place(rank: int, addresses: tuple[str, ...]) -> tuple[int, int]:
    """This worker's number on its machine, and how many there are: as a launcher stated it, else by host name."""
    hosts = [address.rsplit(":", 1)[0] for address in addresses]
    counted = hosts[:rank].count(hosts[rank]), hosts.count(hosts[rank])
    return int(os.environ.get("LOCKSTEP_LOCAL_RANK", counted[0])), int(
        os.environ.get("LOCKSTEP_LOCAL_SIZE", counted[1])
    )


def stall_seconds() -> float:
    """How long a collective call may wait for a peer: LOCKSTEP_STALL_SECONDS, 600 unless set.

    Raises JoinError when it is not a positive number.
    """
    return _seconds("LOCKSTEP_STALL_SECONDS", DEFAULT_STALL_SECONDS)


def join_seconds() -> float:
    """How long the workers wait for each other at the start: LOCKSTEP_JOIN_SECONDS, 600 unless set.

    Raises JoinError when it is not a positive number.
    """
    return _seconds("LOCKSTEP_JOIN_SECONDS", DEFAULT_JOIN_SECONDS)


def _seconds(name: str, default: float) -> float:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise JoinError(f"{name} must be a positive number of seconds, not {text!r}")
    return seconds
