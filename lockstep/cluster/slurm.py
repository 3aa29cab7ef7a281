"""The cluster that Slurm's srun describes to each task of a step.

TensorFlow's own SlurmClusterResolver is not used: it sorts the hosts by name, so that ranks come to stand on
other hosts than Slurm has put them ("node10" before "node2"), and it fails on machines without GPUs.
"""

from __future__ import annotations

import os
import re

from lockstep._errors import JoinError
from lockstep.cluster.environment import Cluster

# Below Linux's range for outgoing connections. Each step of each job has a hundred ports to itself.
_FIRST_PORT = 12_000
_STEPS = 200
_PORTS_A_STEP = 100


def task_count() -> int:
    """How many tasks the step has that started this process; 0 outside of a step, as in a batch script itself."""
    if "SLURM_PROCID" not in os.environ or "SLURM_STEP_NODELIST" not in os.environ:
        return 0
    return int(os.environ.get("SLURM_STEP_NUM_TASKS", "0"))


def from_slurm() -> Cluster:
    """The step's tasks as workers, in the order of SLURM_PROCID.

    The ports are computed from the numbers of job and step; LOCKSTEP_PORT names the first one instead.
    Raises JoinError when Slurm's variables are not understood or the tasks are not dealt out in blocks.
    """
    try:
        hosts = expand_hosts(os.environ["SLURM_STEP_NODELIST"])
        tasks = expand_counts(os.environ["SLURM_STEP_TASKS_PER_NODE"])
        rank, node = int(os.environ["SLURM_PROCID"]), int(os.environ.get("SLURM_NODEID", "0"))
        local_rank = int(os.environ["SLURM_LOCALID"])
        first = _first_port()
    except (KeyError, ValueError) as error:
        raise JoinError(f"Slurm's description of this step is not understood: {error}") from error
    places = [(host, k) for host, count in zip(hosts, tasks) for k in range(count)]
    if len(hosts) != len(tasks) or len(places) != task_count():
        raise JoinError(
            f"Slurm names {len(hosts)} hosts, tasks on {len(tasks)} of them and {task_count()} tasks in all; "
            "these numbers do not fit together"
        )
    if places[rank] != (hosts[node], local_rank):
        raise JoinError("lockstep needs tasks that are dealt out in blocks: start them with srun --distribution=block")
    # A step on one machine needs no name service.
    addresses = tuple(f"{host if len(hosts) > 1 else '127.0.0.1'}:{first + k}" for host, k in places)
    return Cluster(rank, len(places), local_rank, tasks[node], addresses)


def _first_port() -> int:
    stated = os.environ.get("LOCKSTEP_PORT", "").strip()
    if stated:
        return int(stated)
    job, step = int(os.environ["SLURM_JOB_ID"]), int(os.environ["SLURM_STEP_ID"])
    return _FIRST_PORT + (job * 7 + step) % _STEPS * _PORTS_A_STEP


def expand_hosts(text: str) -> list[str]:
    """Slurm's list of hosts written out: "a[01-02,7],b" is a01, a02, a7, b. Raises ValueError."""
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text)):
        raise ValueError(f"unbalanced brackets in {text!r}")
    hosts: list[str] = []
    # Commas outside of brackets separate.
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        hosts.extend(_expand_brackets(part))
    return hosts


def _expand_brackets(part: str) -> list[str]:
    found = re.fullmatch(r"([^\[\]]*)\[([^\]]+)\](.*)", part)
    if found is None:
        return [part]
    before, ranges, after = found.groups()
    numbers: list[str] = []
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last or first) + 1)]
    return [before + number + rest for number in numbers for rest in _expand_brackets(after)]


def expand_counts(text: str) -> list[int]:
    """Slurm's tasks per node written out: "2(x3),1" is 2, 2, 2, 1. Raises ValueError."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            raise ValueError(f"{part!r} is no number of tasks")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts
