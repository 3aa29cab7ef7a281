"""Starts the workers of one machine, alone or together with launchers elsewhere, and starts all anew if asked to."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lockstep.cluster.environment import join_seconds
from lockstep.cluster.ports import free_ports
from lockstep.launcher.child import settings
from lockstep.launcher.horovod_rendezvous import rendezvous
from lockstep.launcher.interruptions import POLL_SECONDS, Interruptions, noted, wait_for_end
from lockstep.launcher.joined import Joining, watched
from lockstep.launcher.local_workers import LocalWorkers, Outcome
from lockstep.launcher.nodes import Nodes, alone, meet
from lockstep.launcher.screen import Screen
from lockstep.launcher.tensorflow_logs import are_hidden


@dataclass(frozen=True)
class Job:
    """What to run: `command` as so many workers on this machine, which is one of `nodes` that meet at `master`.

    max_restarts is how many times all workers are started anew after one has failed; that of node 0 counts.
    backend is what connects the workers: tensorflow, or horovod or mpi on one node; of mpi's jobs
    `lockstep.launcher.mpirun` takes care. grace is how many seconds workers get to end by themselves after an
    interrupt. allow_unjoined: that they never join each other is no failure. tf_logs: TensorFlow's log is shown from
    its start.
    """

    command: Sequence[str]
    workers: int
    all_output: bool = False
    nodes: int = 1
    node_rank: int = 0
    master: str = ""
    max_restarts: int = 0
    backend: str = "tensorflow"
    grace: float = 30.0
    allow_unjoined: bool = False
    tf_logs: bool = False


def launch(job: Job) -> int:
    """Run the job; returns the exit code: 0, or that of the worker that failed first in the last attempt.

    Raises JoinError when the launchers of the nodes do not find each other, and when the backend is not installed.
    """
    screen = Screen()
    outcome: Outcome | None = None
    with noted() as interruptions, _met(job, interruptions) as nodes:
        restarts = 0
        while nodes is not None:
            outcome = _attempt(job, nodes, restarts, screen, interruptions)
            if outcome is None or not outcome.code or not outcome.may_restart or interruptions.first():
                break
            restarts += 1
            screen.tell(f"lockstep: all workers start anew, restart {restarts}")
        if interruptions.first() and (outcome is None or outcome.code):
            return 128 + interruptions.first()
    return outcome.code if outcome is not None else 1


def _met(job: Job, interruptions: Interruptions) -> contextlib.AbstractContextManager[Nodes | None]:
    if job.nodes == 1:
        return alone()
    return meet(job.node_rank, job.nodes, job.master, join_seconds(), lambda: bool(interruptions.first()))


def _attempt(job: Job, nodes: Nodes, restarts: int, screen: Screen, interruptions: Interruptions) -> Outcome | None:
    """Start the workers once and wait for the end on all nodes; None when this launcher was interrupted before."""
    addresses = nodes.agree_on_addresses(free_ports(job.workers), lambda: bool(interruptions.first()))
    if addresses is None:
        return None
    size = sum(len(of_node) for of_node in addresses)
    with _connections(job, addresses) as connections, watched(size, job.allow_unjoined, job.command) as joining:
        environments = dict(_environments(job, addresses, connections, nodes.rank, restarts))
        workers = LocalWorkers(screen, joining.has_joined, are_hidden(job.tf_logs))
        has_had_time = False
        try:
            for rank, environment in environments.items():
                if interruptions.first():
                    break
                workers.start(job.command, rank, {**environment, **joining.setting}, job.all_output or rank == 0)
            verdict = _verdict(nodes, workers, restarts < job.max_restarts, screen, joining, interruptions)
            if verdict.signal:
                if not interruptions.first():
                    workers.signal(verdict.signal)
                wait_for_end(workers.are_alive, job.grace, screen, interruptions)
                has_had_time = True
        finally:
            if not has_had_time:
                workers.terminate()
            workers.end()
        workers.tell(verdict.text)
        missed = not verdict.code and joining.tell_missed(screen)
    return replace(verdict, code=1, may_restart=False) if missed else verdict


def _verdict(
    nodes: Nodes, workers: LocalWorkers, may_restart: bool, screen: Screen, joining: Joining, came: Interruptions
) -> Outcome:
    """Wait for the end on all nodes; a signal to this launcher is passed on to its workers."""
    told: Outcome | None = None
    while True:
        joining.tell_late(screen)
        outcome = workers.outcome() if told is None else None
        if told is None and came.first():
            workers.signal(came.first())
            text = f"lockstep: node {nodes.rank} was interrupted, so all were ended" if nodes.count > 1 else ""
            outcome = Outcome(128 + came.first(), text, may_restart=False, signal=came.first())
        elif told is None and screen.trouble():
            where = f" of node {nodes.rank}" if nodes.count > 1 else ""
            text = f"lockstep: cannot write to {screen.trouble()}{where}, so all were ended"
            outcome = Outcome(1, text, may_restart=False)
        if outcome is not None:
            told = outcome
            nodes.tell(told)
        verdict = nodes.verdict(may_restart)
        if verdict is not None:
            return verdict
        if told is not None and came.is_impatient():
            return told
        time.sleep(POLL_SECONDS)


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
    job: Job, addresses: Sequence[Sequence[str]], connections: Sequence[dict[str, str]], node: int, restarts: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rank and the environment of each worker of this node."""
    first = sum(len(of_node) for of_node in addresses[:node])
    for local_rank in range(len(addresses[node])):
        environment = {**settings(len(addresses[node]), job.tf_logs), **connections[first + local_rank]}
        environment["LOCKSTEP_LOCAL_RANK"] = str(local_rank)
        environment["LOCKSTEP_LOCAL_SIZE"] = str(len(addresses[node]))
        environment["LOCKSTEP_RESTARTS"] = str(restarts)
        yield first + local_rank, environment
