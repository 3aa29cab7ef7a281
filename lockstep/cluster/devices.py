"""Which GPU a worker trains on: each worker of a machine its own."""

from __future__ import annotations

import os
from typing import Any

from lockstep._errors import JoinError
from lockstep.cluster.environment import Cluster


def claim_gpu(config: Any, cluster: Cluster) -> None:
    """Leave this worker one GPU of those that it sees, and let TensorFlow take the GPU's memory as it needs it.

    config is tf.config. Must come before TensorFlow has started its devices. A worker that sees one GPU only, as
    under schedulers that deal them out, keeps it; without GPUs nothing happens.
    Raises JoinError when the machine has fewer GPUs than workers.
    """
    gpus = config.list_physical_devices("GPU")
    number = gpu_number(len(gpus), cluster, "CUDA_VISIBLE_DEVICES" in os.environ)
    if number is None:
        return
    config.set_visible_devices(gpus[number], "GPU")
    config.experimental.set_memory_growth(gpus[number], True)


def gpu_number(count: int, cluster: Cluster, are_dealt_out: bool) -> int | None:
    """The number of this worker's GPU among the `count` that it sees; None without any.

    are_dealt_out tells that somebody else has chosen which GPUs this process sees.
    """
    if count == 0:
        return None
    if count == 1 and (are_dealt_out or cluster.local_size == 1):
        return 0
    if count < cluster.local_size:
        raise JoinError(
            f"{cluster.local_size} workers were started on this machine, but its GPUs are only {count} in number: "
            f"start at most {count} here, or set CUDA_VISIBLE_DEVICES=-1 to train on the CPU"
        )
    return cluster.local_rank
