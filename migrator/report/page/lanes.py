"""The parts of a training that a reviewer looks at one after the other, and what each rule is about."""

from __future__ import annotations

LANES = {
    "Data": (
        "shard-dataset", "shard-arrays", "shard-minibatches", "shard-batch", "shard-made-tensors", "unread-shard",
        "uncut-data", "shard-after-shuffle", "local-step-count", "broadcast-randomness",
    ),
    "Model": ("broadcast-weights", "missing-broadcast", "broadcast-before-build", "synchronise-batch-normalization"),
    "Loss": ("scale-loss", "gather-batch", "traced-state"),
    "Update": (
        "all-reduce-gradients", "wrap-optimizer", "unreduced-gradients", "dropped-reduction", "reduced-twice",
        "wrong-reduction", "xla-on-one-device",
    ),
    "Decisions": ("average-metrics", "synchronise-callbacks"),
    "Files": ("write-once", "unguarded-write"),
    "Start": (
        "join-early", "already-distributed", "missing-start", "branch-only-name", "outside-strategy",
        "hidden-training",
    ),
}  # fmt: skip


def lane_of(rule: str) -> str:
    """The part of the training that the rule is about."""
    return next((lane for lane, rules in LANES.items() if rule in rules), "Start")
