"""Which machine of a job this is, and how many workers it gets: by options, else by the variables that Kubeflow Trainer
sets for torchrun and that are named after torchrun's options."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lockstep._errors import JoinError
from lockstep.cluster import choice
from lockstep.launcher import machine

_WORKERS, _NODES, _RANK = "PET_NPROC_PER_NODE", "PET_NNODES", "PET_NODE_RANK"
_HOST, _PORT = "PET_MASTER_ADDR", "PET_MASTER_PORT"
VARIABLES = (_WORKERS, _NODES, _RANK, _HOST, _PORT)
_DEFAULT_WORKERS = 2


@dataclass(frozen=True)
class Place:
    """So many workers on this machine, number node_rank of `nodes` that meet at master, "host:port"."""

    workers: int
    nodes: int
    node_rank: int
    master: str


def of_this_machine(workers: int | None, nodes: int | None, node_rank: int | None, master: str | None) -> Place:
    """What the options say that are given, else PET_*, else two workers on one machine.

    Raises ValueError for what is incomplete or does not fit together; and, unless `nodes` is given, when another
    launcher has made this process one worker of several.
    """
    stated = {name: os.environ[name].strip() for name in VARIABLES if os.environ.get(name, "").strip()}
    if nodes is None:
        if _NODES not in stated:
            _refuse_worker()
        given = {_WORKERS: workers, _RANK: node_rank, _HOST: master, _PORT: master}
        nodes = _nodes_by_variables(stated, {name for name, option in given.items() if option is not None})
    if workers is None:
        workers = _workers_by_variable(stated[_WORKERS]) if _WORKERS in stated else _DEFAULT_WORKERS
    if nodes > 1 and node_rank is None:
        node_rank = _number(_RANK, stated, 0) if _RANK in stated else 0
    if nodes > 1 and master is None and _HOST in stated and _PORT in stated:
        host = stated[_HOST]
        master = f"[{host}]:{stated[_PORT]}" if ":" in host and not host.startswith("[") else f"{host}:{stated[_PORT]}"
    if nodes > 1 and not master:
        raise ValueError("--nnodes needs --master HOST:PORT, an address of node 0 that all machines can reach")
    if (node_rank or 0) >= nodes:
        raise ValueError(f"--node-rank {node_rank} is not below --nnodes {nodes}")
    if master:
        _check_address(master)
    return Place(workers, nodes, node_rank or 0, master or "")


def _nodes_by_variables(stated: dict[str, str], given: set[str]) -> int:
    if not stated.keys() - {_WORKERS}:
        return 1
    missing = [name for name in VARIABLES if name not in stated and name not in given]
    nodes = _number(_NODES, stated, 1) if _NODES in stated else None
    if nodes is None or (nodes > 1 and missing):
        raise ValueError(
            f"{', '.join(name for name in VARIABLES if name in stated)} describe one machine of a job, but "
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set. Set all five, or give -n, --nnodes, "
            "--node-rank and --master; --nnodes 1 is a job of this machine alone"
        )
    return nodes


def _number(name: str, stated: dict[str, str], lowest: int) -> int:
    text = stated[name]
    if not text.isdecimal() or int(text) < lowest:
        elastic = ". A range of machines is not possible" if ":" in text else ""
        raise ValueError(f"{name} should be a number from {lowest}, not {text!r}{elastic}")
    return int(text)


def _workers_by_variable(text: str) -> int:
    """As torchrun reads it; but without GPUs `auto` is one worker, which uses all cores."""
    kinds = {"auto": machine.gpu_count() or 1, "gpu": machine.gpu_count(), "cpu": machine.cores()}
    if text == "gpu" and not kinds["gpu"]:
        raise ValueError(f"{_WORKERS} is gpu, but no GPU is seen here")
    return kinds[text] if text in kinds else _number(_WORKERS, {_WORKERS: text}, 1)


def _check_address(master: str) -> None:
    host, _, port = master.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"the master address should be HOST:PORT, not {master!r}")


def _refuse_worker() -> None:
    """A job of its own for each worker of a job would train as many models, and nobody would notice."""
    try:
        launched = choice.by_launcher()
    except JoinError as error:
        raise ValueError(str(error)) from error
    if launched is not None:
        raise ValueError(
            f"{launched.reason}, so this process is one worker of several already: start the script itself there, "
            "`python SCRIPT`. For a job of this machine alone, say --nnodes 1"
        )
