"""What refusals advise to write by hand, in the words of npu_device."""

from __future__ import annotations

from dataclasses import replace

from migrator.edits import Refusal

# The longer ones first: some are parts of others.
_CALLS = (
    (
        "lockstep.shard_arrays or lockstep.shard_batches",
        "slices by rank (x[rank_id::rank_size]) or npu.distribute.shard_and_rebatch_dataset",
    ),
    ("lockstep.shard_batch", "slices by rank (x[rank_id::rank_size])"),
    ("lockstep.distributed_optimizer", "npu.distribute.npu_distributed_keras_optimizer_wrapper"),
    ("lockstep.broadcast", "npu.distribute.broadcast"),
    ("lockstep.all_reduce", "npu.distribute.all_reduce"),
    ("lockstep.is_chief()", "rank_id == 0"),
)


def in_npu_words(refusal: Refusal) -> Refusal:
    """The refusal with the calls of npu_device in the place of the runtime's."""
    advice = refusal.advice
    for call, other in _CALLS:
        advice = advice.replace(call, other)
    return replace(refusal, advice=advice)
