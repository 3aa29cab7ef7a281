"""Which backend this process is to join, by what launched it. Reads the environment only."""

from __future__ import annotations

import os
from dataclasses import dataclass

from lockstep._errors import JoinError
from lockstep.cluster import environment, slurm, torchrun


@dataclass(frozen=True)
class Choice:
    """A backend's name, and what in the environment speaks for it."""

    backend: str
    reason: str


def choose() -> Choice:
    """LOCKSTEP_BACKEND if set; else what fits the launcher, `single` for a process that nothing launched.

    Raises JoinError when the variables of a launcher cannot be used.
    """
    stated = os.environ.get("LOCKSTEP_BACKEND", "").strip().lower()
    if stated:
        return Choice(stated, f"LOCKSTEP_BACKEND is {stated}")
    if environment.is_child_of_worker():
        return Choice("single", "a worker started this process")
    launched = by_launcher()
    if launched is not None:
        return launched
    torchrun.refuse_container_of_launcher()
    return Choice("single", "nothing launched this process with others")


def by_launcher() -> Choice | None:
    """What fits the launcher that started this process as one of several; None if none did.

    Raises JoinError when the launcher's variables cannot be used.
    """
    if environment.from_tf_config().size > 1:
        torchrun.refuse_other_place(environment.from_tf_config())
        return Choice("tensorflow", "TF_CONFIG names several workers")
    # Launchers of processes set variables of their own inside a Slurm step too, hence before Slurm.
    if _count("HOROVOD_SIZE") > 1:
        return Choice("horovod", "HOROVOD_SIZE: horovodrun started this process")
    if _count("RANK_SIZE") > 1 and "RANK_ID" in os.environ and _has_rank_table():
        return Choice("npu", "RANK_TABLE_FILE, RANK_ID and RANK_SIZE describe Ascend devices")
    for name in ("OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"):
        if _count(name) > 1:
            return Choice("mpi", f"{name}: mpirun started this process")
    # srun sets PMI_SIZE as well, whether or not the program is one of MPI; MPICH's mpiexec adds the second.
    if _count("PMI_SIZE") > 1 and ("MPI_LOCALNRANKS" in os.environ or not slurm.task_count()):
        return Choice("mpi", "PMI_SIZE: mpiexec started this process")
    if _torchrun_place() is not None:
        return Choice("tensorflow", "RANK and WORLD_SIZE: torchrun, or what does as it does, started this process")
    if slurm.task_count() > 1:
        return Choice("tensorflow", "SLURM_STEP_NUM_TASKS: srun started this process")
    return None


def cluster() -> environment.Cluster:
    """The workers that TF_CONFIG, torchrun's variables or Slurm name; for torchrun's, all workers meet first.

    Raises JoinError when none names two workers or more, or what they name cannot be used.
    """
    found = environment.from_tf_config()
    if found.size < 2 and not environment.is_child_of_worker():
        place = _torchrun_place()
        if place is not None:
            from lockstep.cluster.addresses import exchanged

            found = exchanged(place)
        elif slurm.task_count() > 1:
            found = slurm.from_slurm()
    if found.size < 2:
        raise JoinError(
            "the backend tensorflow needs a TF_CONFIG that names two workers or more, RANK and WORLD_SIZE with "
            "MASTER_ADDR and MASTER_PORT, or a Slurm step of two tasks"
        )
    return found


def _torchrun_place() -> torchrun.Place | None:
    # A batch script may set some of the variables for all tasks of a step; those are no torchrun's.
    return torchrun.place() if not slurm.task_count() or torchrun.is_complete() else None


def _count(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def _has_rank_table() -> bool:
    return any(name in os.environ for name in ("RANK_TABLE_FILE", "CM_CHIEF_IP"))
