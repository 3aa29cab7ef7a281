"""Starts the workers of one machine, alone or together with launchers elsewhere, and starts all anew if asked to."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

from lockstep import _cluster, _nodes
from lockstep._child import handling, settings
from lockstep._horovod_rendezvous import rendezvous
from lockstep._local_workers import POLL_SECONDS, LocalWorkers, Outcome
from lockstep._nodes import Nodes

_EPHEMERAL_PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
_LOWEST_PORT = 15_000


@dataclass(frozen=True)
class Job:
    """What to run: `command` as so many workers on this machine, which is one of `nodes` that meet at `master`.

    max_restarts is how many times all workers are started anew after one has failed; that of node 0 counts.
    backend is what connects the workers: tensorflow, or horovod or mpi on one node; of mpi's jobs
    `lockstep._mpirun` takes care.
    """

    command: Sequence[str]
    workers: int
    all_output: bool = False
    nodes: int = 1
    node_rank: int = 0
    master: str = ""
    max_restarts: int = 0
    backend: str = "tensorflow"


def launch(job: Job) -> int:
    """Run the job; returns the exit code: 0, or that of the worker that failed first in the last attempt.

    Raises JoinError when the launchers of the nodes do not find each other, and when the backend is not installed.
    """
    interrupted: list[int] = []
    outcome: Outcome | None = None

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)

    with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), note), _met(job, interrupted) as nodes:
        restarts = 0
        while nodes is not None:
            outcome = _attempt(job, nodes, restarts, interrupted)
            if outcome is None:
                break
            if outcome.text:
                sys.stdout.flush()
                print(outcome.text.rstrip("\n"), file=sys.stderr, flush=True)
            if not outcome.code or not outcome.may_restart or interrupted:
                break
            restarts += 1
            print(f"lockstep: all workers start anew, restart {restarts}", file=sys.stderr, flush=True)
    if interrupted:
        return 128 + interrupted[0]
    return outcome.code if outcome is not None else 1


def _met(job: Job, interrupted: Sequence[int]) -> contextlib.AbstractContextManager[Nodes | None]:
    if job.nodes == 1:
        return _nodes.alone()
    return _nodes.meet(job.node_rank, job.nodes, job.master, _cluster.join_seconds(), lambda: bool(interrupted))


def _attempt(job: Job, nodes: Nodes, restarts: int, interrupted: Sequence[int]) -> Outcome | None:
    """Start the workers once and wait for the end on all nodes; None when this launcher was interrupted before."""
    addresses = nodes.agree_on_addresses(_free_ports(job.workers), lambda: bool(interrupted))
    if addresses is None:
        return None
    with _connections(job, addresses) as connections:
        workers = dict(_environments(addresses, connections, nodes.rank, restarts))
        return _run(job, nodes, workers, restarts < job.max_restarts, interrupted)


def _run(
    job: Job, nodes: Nodes, environments: dict[int, dict[str, str]], may_restart: bool, interrupted: Sequence[int]
) -> Outcome:
    """Start the workers of this node, each rank with its environment, and wait for the end on all nodes."""
    workers = LocalWorkers()
    told = False
    try:
        for rank, environment in environments.items():
            if interrupted:
                break
            workers.start(job.command, rank, environment, job.all_output or rank == 0)
        while True:
            outcome = None if told else workers.outcome()
            if interrupted and not told:
                workers.signal(interrupted[0])
                text = f"lockstep: node {nodes.rank} was interrupted, so all were ended" if nodes.count > 1 else ""
                outcome = Outcome(128 + interrupted[0], text, may_restart=False)
            if outcome is not None:
                nodes.tell(outcome)
                told = True
            verdict = nodes.verdict(may_restart)
            if verdict is not None:
                return verdict
            time.sleep(POLL_SECONDS)
    finally:
        workers.end()


@contextlib.contextmanager
def _connections(job: Job, addresses: Sequence[Sequence[str]]) -> Iterator[list[dict[str, str]]]:
    """The settings by which each worker, in the order of ranks, finds the others; they can meet inside."""
    everyone = [address for of_node in addresses for address in of_node]
    if len(everyone) == 1:
        # Whatever launcher stands behind this one, it has not launched this process with others.
        yield [{"LOCKSTEP_BACKEND": os.environ.get("LOCKSTEP_BACKEND", "single")}]
    elif job.backend == "horovod":
        with rendezvous(len(everyone)) as places:
            yield [{**place, "LOCKSTEP_BACKEND": "horovod"} for place in places]
    else:
        tasks = [{"type": "worker", "index": rank} for rank in range(len(everyone))]
        yield [{"TF_CONFIG": json.dumps({"cluster": {"worker": everyone}, "task": task})} for task in tasks]


def _environments(
    addresses: Sequence[Sequence[str]], connections: Sequence[dict[str, str]], node: int, restarts: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rank and the environment of each worker of this node."""
    first = sum(len(of_node) for of_node in addresses[:node])
    for local_rank in range(len(addresses[node])):
        environment = {**settings(len(addresses[node])), **connections[first + local_rank]}
        environment["LOCKSTEP_LOCAL_RANK"] = str(local_rank)
        environment["LOCKSTEP_LOCAL_SIZE"] = str(len(addresses[node]))
        environment["LOCKSTEP_RESTARTS"] = str(restarts)
        yield first + local_rank, environment


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, below those that the system gives to outgoing connections: nobody gets them in
    the moment before the workers do."""
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
