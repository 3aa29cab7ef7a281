"""What a difference most likely comes of: read from how the workers' numbers lie to each other and to the original's.

Each cause is that of a rule: the one whose work is missing, or done wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migrator.verify.comparison import EPOCHS, FILES, RATE, SAMPLES, STEPS, Difference
from migrator.verify.record import (
    ARRAYS,
    BATCHES,
    DATASET,
    GRADIENTS,
    LOCAL,
    MINIBATCHES,
    WEIGHTS,
    Numbers,
    Record,
    Step,
)

_CLOSE = 1e-3
# The rule that cuts what the samples come out of.
_CUTS = {
    ARRAYS: "shard-arrays",
    DATASET: "shard-dataset",
    BATCHES: "shard-batch",
    MINIBATCHES: "shard-minibatches",
}


@dataclass(frozen=True)
class Cause:
    """rule: whose work is missing or done wrongly; "" where it is no rule's."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}" if self.rule else self.text


def likely_cause(original: Record, ranks: Sequence[Record], first: Difference) -> Cause | None:
    """The cause of the first difference between the original and the ranks; None where the numbers do not tell."""
    index = first.step - 1
    if first.what == STEPS:
        return Cause(
            "local-step-count", "the workers count their steps by their share of the data, or cut only some of it"
        )
    if first.what == FILES:
        return Cause("write-once", "every worker writes, or none does")
    if first.what == EPOCHS:
        return Cause("synchronise-callbacks", "the workers end or count their epochs by what each of them sees")
    if index >= len(original.steps) or any(index >= len(record.steps) for record in ranks):
        return None
    step, found = original.steps[index], [record.steps[index] for record in ranks]
    if first.what == SAMPLES:
        return _of_samples(step, found)
    if first.what == RATE:
        return _of_rate(step, found[first.rank])
    starts = _starts_differ(original, ranks, step.optimizer)
    if starts:
        return Cause(
            "broadcast-weights",
            f"{starts} starts from other weights on rank {first.rank or 1}: it is not broadcast, or too early",
        )
    return _of_gradients(step, found, len(ranks))


def _of_samples(step: Step, found: Sequence[Step]) -> Cause | None:
    rule = _CUTS.get(step.source, "shard-dataset")
    if len(found) > 1 and all(_same_rows(step, other) for other in found):
        return Cause(rule, "every worker trains on the whole batch: the data are not cut")
    if len(found) > 1 and all(_same_rows(found[0], other) for other in found[1:]):
        return Cause(rule, "all workers train on the same samples")
    return Cause(rule, "the workers' shares do not make up the batch")


def _of_rate(step: Step, other: Step) -> Cause:
    ratio = (other.learning_rate or 0.0) / (step.learning_rate or 1.0)
    if step.number == 1:
        text = (
            f"the learning rate is {ratio:.3g} times the original's: the global batch is what it was, so it stays, too"
        )
        return Cause("", text)
    return Cause("local-step-count", "the learning rate follows another schedule: another number of steps, or epochs")


def _same_rows(one: Step, other: Step) -> bool:
    if one.rows.shape != other.rows.shape or not len(one.rows):
        return False
    return bool(np.allclose(np.sort(one.rows, 0), np.sort(other.rows, 0), rtol=1e-6))


def _starts_differ(original: Record, ranks: Sequence[Record], optimizer: int) -> str:
    """The first variable of an optimizer that does not start alike everywhere; or ""."""
    names = original.optimizers[optimizer].variables
    expected = _first_of(original, optimizer)
    for record in ranks:
        for name, one, other in zip(names, expected, _first_of(record, optimizer)):
            if one is not None and other is not None and _off(one, other) > _CLOSE:
                return name
    return ""


def _first_of(record: Record, optimizer: int) -> list[Numbers | None]:
    for step in record.steps:
        if step.optimizer == optimizer and "before" in step.arrays:
            return step.arrays["before"]
    return []


def _of_gradients(step: Step, found: Sequence[Step], size: int) -> Cause | None:
    expected = _all(step, GRADIENTS)
    several = [_all(other, GRADIENTS) for other in found]
    if expected is None or any(g is None or g.shape != expected.shape for g in several):
        return None
    applied = np.stack([g for g in several if g is not None])
    apart = max(_off(applied[0], other) for other in applied) if size > 1 else 0.0
    rule = "all-reduce-gradients" if step.is_loop else "wrap-optimizer"
    if _differ_between_tape_and_optimizer(step, found):
        text = "each worker changes its own gradients, as by clipping, before they are reduced: reduce them first"
        return Cause(rule, text)
    if apart > _CLOSE:
        if _off(expected, applied.mean(0)) < _CLOSE:
            return Cause(rule, "each worker applies its own gradients: they are not averaged over the workers")
        if _off(expected, applied.sum(0)) < _CLOSE:
            return Cause(rule, "each worker applies its own gradients: they are not added up over the workers")
        return Cause(rule, "the workers apply different gradients")
    factor = _factor(expected, applied[0])
    if _off(expected * factor, applied[0]) < _CLOSE and abs(factor - 1) > _CLOSE:
        if abs(factor - size) < _CLOSE * size:
            return Cause(rule, f"the gradients are {size} times the original's: added up where they are to be averaged")
        if abs(factor * size - 1) < _CLOSE:
            return Cause(
                rule,
                f"the gradients are 1/{size} of the original's: averaged where they are to be added up",
            )
        return Cause(rule, f"the gradients are {factor:.4g} times the original's")
    if _is_multiple_of_weights(step, found[0]):
        return Cause("scale-loss", "a penalty on the weights counts another number of times")
    if _off(expected, applied[0]) < _CLOSE:
        rates = step.learning_rate, found[0].learning_rate
        if None not in rates and abs((rates[1] or 0.0) - (rates[0] or 0.0)) > _CLOSE * abs(rates[0] or 0.0):
            return _of_rate(step, found[0])
        return Cause("wrap-optimizer", "the gradients are right, but the optimizer makes other weights of them")
    return None


def _differ_between_tape_and_optimizer(step: Step, found: Sequence[Step]) -> bool:
    """Whether the original changes its gradients before it applies them, and the workers' tapes gave the right ones."""
    taken, applied = _all(step, LOCAL), _all(step, GRADIENTS)
    of_ranks = [_all(other, LOCAL) for other in found]
    if taken is None or applied is None or len(found) < 2 or _off(taken, applied) < _CLOSE:
        return False
    if any(local is None or local.shape != taken.shape for local in of_ranks):
        return False
    return _off(taken, np.mean(np.stack([local for local in of_ranks if local is not None]), 0)) < _CLOSE


def _is_multiple_of_weights(step: Step, other: Step) -> bool:
    """Whether the gradients are off by a multiple of the weights themselves, as those of an L2 penalty are."""
    for one, wrong, weights in zip(step.arrays[GRADIENTS], other.arrays[GRADIENTS], step.arrays[WEIGHTS]):
        if one is None or wrong is None or weights is None or one.shape != weights.shape or one.size < 8:
            continue
        error = wrong - one
        if np.abs(error).max() < _CLOSE * max(float(np.abs(one).max()), 1e-30):
            continue
        likeness = float(np.dot(error, weights) / max(np.linalg.norm(error) * np.linalg.norm(weights), 1e-30))
        if abs(likeness) > 0.98:
            return True
    return False


def _all(step: Step, kind: str) -> Numbers | None:
    tensors = [tensor for tensor in step.arrays.get(kind, []) if tensor is not None]
    return np.concatenate(tensors) if tensors else None


def _factor(expected: Numbers, found: Numbers) -> float:
    return float(np.dot(expected, found) / max(float(np.dot(expected, expected)), 1e-300))


def _off(one: Numbers, other: Numbers) -> float:
    if one.shape != other.shape:
        return float("inf")
    return float(np.abs(other - one).max()) / max(float(np.abs(one).max()), 1e-30) if one.size else 0.0
