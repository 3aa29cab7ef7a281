"""Data-parallel training of single-device TensorFlow 2 scripts, in step with the single-device run.

Importing lockstep joins the cluster that the environment describes, so it has to be imported right below
the first import of TensorFlow or Keras of the script that is started. In one process nothing happens and
every function returns what it was given: TensorFlow is not even imported.
"""

from __future__ import annotations

from lockstep._api import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    callbacks,
    distributed_optimizer,
    for_all_samples,
    for_each_sample,
    gather,
    is_chief,
    local_batch_size,
    local_rank,
    metric_result,
    on_whole_data,
    rank,
    reduce,
    reduce_scatter,
    sample_gradients,
    scatter,
    shard_and_rebatch_dataset,
    shard_arrays,
    shard_batch,
    shard_batches,
    shard_like,
    size,
    synchronise_batch_normalization,
    unshard_batch,
    whole_batch,
    whole_batch_metric,
)
from lockstep._errors import JoinError, LockstepError, LostWorkerError, MismatchError
from lockstep._version import __version__

__all__ = [
    "JoinError",
    "LockstepError",
    "LostWorkerError",
    "MismatchError",
    "__version__",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "callbacks",
    "distributed_optimizer",
    "for_all_samples",
    "for_each_sample",
    "gather",
    "is_chief",
    "local_batch_size",
    "local_rank",
    "metric_result",
    "on_whole_data",
    "rank",
    "reduce",
    "reduce_scatter",
    "sample_gradients",
    "scatter",
    "shard_and_rebatch_dataset",
    "shard_arrays",
    "shard_batch",
    "shard_batches",
    "shard_like",
    "size",
    "synchronise_batch_normalization",
    "unshard_batch",
    "whole_batch",
    "whole_batch_metric",
]
