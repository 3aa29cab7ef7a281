"""The words of the libraries that spread training over processes: which of their calls does what.

One table, so that what is known of ports speaks of roles (this call reduces, that one wraps an optimizer) and never
of one library's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache

from migrator.records import dataclass


class Role(Enum):
    """What a call is for."""

    START = "start"  # joins the processes
    RANK = "rank"  # which process this is
    SIZE = "size"  # how many there are
    BROADCAST = "broadcast"  # gives all processes one process's weights
    REDUCE = "reduce"  # gives back the mean or sum of what the processes have
    TAPE = "tape"  # a gradient tape whose gradients are reduced
    OPTIMIZER = "optimizer"  # an optimizer that reduces the gradients which it applies
    SHARD = "shard"  # a process's share of data
    LOCAL_BATCH = "local batch"  # a process's share of the batch size
    CALLBACKS = "callbacks"  # callbacks of `fit` that agree, and write once
    NORMALISE = "normalise"  # has layers normalise with the moments of the global batch


@dataclass(frozen=True, eq=False)
class Library:
    """A library with its calls, by the last part of their dotted names, and how its users write what may be missing.

    `modules` matches the dotted names below which its calls are found. `shares_batch`: whether the batch size that a
    script names is that of all processes together; else each process takes as much. `seeds_alike`: whether it gives
    all processes one random state.
    """

    name: str
    modules: re.Pattern[str]
    calls: Mapping[str, Role]
    spelling: Mapping[Role, str]
    shares_batch: bool = False
    seeds_alike: bool = False

    def role(self, path: str) -> Role | None:
        """The role of the function or class with that dotted name; None where it is not one of this library's."""
        if not self.modules.match(path):
            return None
        return self.calls.get(path.rpartition(".")[2])


_HOROVOD_CALLS = {
    "init": Role.START,
    "rank": Role.RANK,
    "local_rank": Role.RANK,
    "cross_rank": Role.RANK,
    "size": Role.SIZE,
    "local_size": Role.SIZE,
    "cross_size": Role.SIZE,
    "broadcast": Role.BROADCAST,
    "broadcast_": Role.BROADCAST,
    "broadcast_variables": Role.BROADCAST,
    "broadcast_global_variables": Role.BROADCAST,
    "broadcast_object": Role.BROADCAST,
    "BroadcastGlobalVariablesCallback": Role.BROADCAST,
    "BroadcastGlobalVariablesHook": Role.BROADCAST,
    "TensorFlowState": Role.BROADCAST,
    "TensorFlowKerasState": Role.BROADCAST,
    "KerasState": Role.BROADCAST,
    "allreduce": Role.REDUCE,
    "grouped_allreduce": Role.REDUCE,
    "DistributedGradientTape": Role.TAPE,
    "PartialDistributedGradientTape": Role.TAPE,
    "DistributedOptimizer": Role.OPTIMIZER,
    "PartialDistributedOptimizer": Role.OPTIMIZER,
}

LOCKSTEP = Library(
    "lockstep",
    re.compile(r"^lockstep\."),
    {
        "rank": Role.RANK,
        "local_rank": Role.RANK,
        "is_chief": Role.RANK,
        "size": Role.SIZE,
        "broadcast": Role.BROADCAST,
        "all_reduce": Role.REDUCE,
        "metric_result": Role.REDUCE,
        "distributed_optimizer": Role.OPTIMIZER,
        "shard_and_rebatch_dataset": Role.SHARD,
        "shard_batch": Role.SHARD,
        "shard_batches": Role.SHARD,
        "shard_arrays": Role.SHARD,
        "local_batch_size": Role.LOCAL_BATCH,
        "callbacks": Role.CALLBACKS,
        "synchronise_batch_normalization": Role.NORMALISE,
    },
    {
        Role.BROADCAST: "lockstep.broadcast(model)",
        Role.REDUCE: "gradients = lockstep.all_reduce(gradients)",
        Role.OPTIMIZER: "lockstep.distributed_optimizer(optimizer)",
        Role.RANK: "if lockstep.is_chief():",
        Role.SIZE: "lockstep.size()",
    },
    shares_batch=True,
    seeds_alike=True,
)
HOROVOD = Library(
    "Horovod",
    re.compile(r"^horovod\.(?:tensorflow|keras|_keras|common)\b"),
    _HOROVOD_CALLS,
    {
        Role.START: "hvd.init()",
        Role.BROADCAST: "hvd.broadcast_variables(model.variables, root_rank=0)",
        Role.REDUCE: "tape = hvd.DistributedGradientTape(tape)",
        Role.OPTIMIZER: "hvd.DistributedOptimizer(optimizer)",
        Role.SHARD: "dataset.shard(hvd.size(), hvd.rank())",
        Role.RANK: "if hvd.rank() == 0:",
        Role.SIZE: "hvd.size()",
    },
)
NPU = Library(
    "npu_device",
    re.compile(r"^(?:npu_device|npu_bridge|hccl)\b"),
    {
        "open": Role.START,
        "get_rank_id": Role.RANK,
        "get_local_rank_id": Role.RANK,
        "get_rank_size": Role.SIZE,
        "get_local_rank_size": Role.SIZE,
        "broadcast": Role.BROADCAST,
        "all_reduce": Role.REDUCE,
        "npu_distributed_keras_optimizer_wrapper": Role.OPTIMIZER,
        "shard_and_rebatch_dataset": Role.SHARD,
    },
    {
        Role.START: "npu.open().as_default()",
        Role.BROADCAST: "npu.distribute.broadcast(model.trainable_variables)",
        Role.REDUCE: "gradients = npu.distribute.all_reduce(gradients)",
        Role.OPTIMIZER: "npu.distribute.npu_distributed_keras_optimizer_wrapper(optimizer)",
        Role.SHARD: "dataset, batch_size = npu.distribute.shard_and_rebatch_dataset(dataset, batch_size)",
        Role.RANK: 'if os.environ.get("RANK_ID", "0") == "0":',
        Role.SIZE: 'int(os.environ["RANK_SIZE"])',
    },
    shares_batch=True,
)
BYTEPS = Library(
    "BytePS",
    re.compile(r"^byteps\.(?:tensorflow|keras|_keras)\b"),
    {**_HOROVOD_CALLS, "push_pull": Role.REDUCE},
    {role: text.replace("hvd.", "bps.") for role, text in HOROVOD.spelling.items()},
)
SMDISTRIBUTED = Library(
    "SageMaker's smdistributed",
    re.compile(r"^smdistributed\.dataparallel\.tensorflow\b"),
    {**_HOROVOD_CALLS, "oob_allreduce": Role.REDUCE},
    {role: text.replace("hvd.", "sdp.") for role, text in HOROVOD.spelling.items()},
)
LIBRARIES = (LOCKSTEP, HOROVOD, NPU, BYTEPS, SMDISTRIBUTED)
# The packages whose import says that a script is written for one of them.
PACKAGES = {
    "lockstep": LOCKSTEP,
    "horovod": HOROVOD,
    "npu_device": NPU,
    "byteps": BYTEPS,
    "smdistributed": SMDISTRIBUTED,
}

# A script asks for the same ones over and over.
_MOST_PATHS = 4096
# Functions that start processes and run another function in them.
LAUNCHERS = re.compile(r"^(?:horovod\.(?:run$|spark\.|ray\.|torch\.spark)|ray\.)")
# What launchers, schedulers and command lines call these numbers.
_NAMES = {
    Role.RANK: re.compile(r"(?:^|_)(?:RANK|RANK_ID|PROCID|LOCALID|DEVICE_ID|TASK_INDEX|TASK_ID)$"),
    Role.SIZE: re.compile(r"(?:^|_)(?:WORLD_SIZE|RANK_SIZE|NTASKS|DEVICE_NUM)$|^(?:HOROVOD|PMI)_SIZE$"),
}


def named_role(name: str) -> Role | None:
    """What a variable of the environment, or an option of the command line, of that name stands for."""
    return next((role for role, names in _NAMES.items() if names.search(name.upper())), None)


def toolkit_of(module: str) -> Library | None:
    """The library that importing the module brings in; None where it has nothing to do with many processes."""
    return PACKAGES.get(module.split(".")[0])


@lru_cache(maxsize=_MOST_PATHS)
def meaning(path: str) -> tuple[Library, Role] | None:
    """The library and the role of the function or class with that dotted name."""
    for library in LIBRARIES:
        role = library.role(path)
        if role is not None:
            return library, role
    return None


def has_role(path: str, *roles: Role) -> bool:
    """Whether the function or class with that dotted name has one of the roles, in whichever library."""
    found = meaning(path)
    return found is not None and found[1] in roles
