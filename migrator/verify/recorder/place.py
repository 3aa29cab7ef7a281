"""Which rank this process is, as its launcher tells: asked before the script may import a library that knows."""

from __future__ import annotations

import json
import os

_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK_ID", "RANK")


def rank_of_this_process() -> int:
    task = json.loads(os.environ.get("TF_CONFIG") or "{}").get("task", {})
    if "index" in task:
        return int(task["index"])
    return next((int(os.environ[name]) for name in _VARIABLES if os.environ.get(name, "").isdecimal()), 0)
