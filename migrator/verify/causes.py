"""What a difference most likely comes of: read from how the workers' numbers lie to each other and to the original's.

Each cause is that of a rule: the one whose work is missing, or done wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from migrator.verify.comparison import (
    EPOCHS,
    FILES,
    PRINTED,
    RATE,
    SAMPLES,
    SHUFFLES,
    STEPS,
    Difference,
    epochs_have_other_lengths,
)
from migrator.verify.record import (
    ARRAYS,
    BATCHES,
    DATASET,
    ENDED,
    FAILED,
    GRADIENTS,
    LOCAL,
    MINIBATCHES,
    WEIGHTS,
    Numbers,
    Record,
    Step,
)

_CLOSE = 1e-3
# What a schedule does in one step is less.
_SOON = 0.05
# The rule that cuts what the samples come out of.
_CUTS = {
    ARRAYS: "shard-arrays",
    DATASET: "shard-dataset",
    BATCHES: "shard-batch",
    MINIBATCHES: "shard-minibatches",
}


@dataclass(frozen=True)
class Cause:
    """rule: whose work is missing or done wrongly; "" where it is no rule's. line: where it lies, if that is not the
    line of the step."""

    rule: str
    text: str
    line: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}" if self.rule else self.text


def likely_cause(original: Record, ranks: Sequence[Record], first: Difference) -> Cause | None:
    """The cause of the first difference between the original and the ranks; None where the numbers do not tell."""
    index = first.step - 1
    if first.what == PRINTED:
        return _of_printing(ranks, first)
    if first.what == SHUFFLES:
        return Cause("shard-after-shuffle", "each worker cuts its share out of an order of its own")
    ends = {record.end for record in ranks}
    if first.what == STEPS and (len({len(record.steps) for record in ranks}) > 1 or ends >= {ENDED, FAILED}):
        return _of_decisions(original, "go on")
    if first.what == STEPS:
        return Cause(
            "local-step-count", "the workers count their steps by their share of the data, or cut only some of it"
        )
    fits = {step.line for record in ranks for step in record.steps if not step.is_loop}
    if first.what == FILES and first.rank > 0 and first.line in fits:
        return Cause("synchronise-callbacks", "the callbacks of every worker write, and see its own losses")
    if first.what == FILES:
        return Cause("write-once", "every worker writes, or none does")
    if first.what == EPOCHS and epochs_have_other_lengths(original, ranks):
        return Cause("local-step-count", "an epoch has another number of steps: they are counted by the local batch")
    if first.what == EPOCHS:
        return Cause("synchronise-callbacks", "the workers end or count their epochs by what each of them sees")
    if index >= len(original.steps) or any(index >= len(record.steps) for record in ranks):
        return None
    step, found = original.steps[index], [record.steps[index] for record in ranks]
    if first.what == SAMPLES:
        return _of_samples(step, found)
    if first.what == RATE:
        return _of_rate(original, ranks, step, found, first.rank)
    starts = next(filter(None, (_starts_differ(original, ranks, one) for one in _begun(original, step))), "")
    if starts:
        return Cause(
            "broadcast-weights",
            f"{starts} starts from other weights on rank {first.rank or 1}: it is not broadcast, or too early",
        )
    cause = _of_gradients(step, found, len(ranks))
    if cause is None and _rates_differ(step, found[0]):
        cause = _of_rate(original, ranks, step, found, 0)
    if cause is None and _are_right(step, found[0]):
        cause = Cause("wrap-optimizer", "the gradients are right, but the optimizer makes other weights of them")
    return cause


def _begun(original: Record, step: Step) -> list[int]:
    """The optimizers whose weights train already at a step, its own first: those of the same round, too, which has
    used their weights before they make their first step."""
    own = [i for i, one in enumerate(original.steps) if one.optimizer == step.optimizer and one.number > step.number]
    others = [one.optimizer for one in original.steps[: own[0] if own else None]]
    return list(dict.fromkeys([step.optimizer, *others]))


def _of_decisions(original: Record, what: str) -> Cause:
    in_loop = any(step.is_loop for step in original.steps) and not original.epochs
    rule = "average-metrics" if in_loop else "synchronise-callbacks"
    return Cause(rule, f"each worker decides how to {what} by what it sees of the data: average that first")


def _of_printing(ranks: Sequence[Record], first: Difference) -> Cause | None:
    if not np.isfinite(first.size):
        return None
    in_fit = first.line in {step.line for record in ranks for step in record.steps if not step.is_loop}
    rule = "synchronise-callbacks" if in_fit else "average-metrics"
    return Cause(rule, "what is printed is not that of all samples: reduce it over the workers first")


def _of_samples(step: Step, found: Sequence[Step]) -> Cause | None:
    rule = _CUTS.get(step.source, "shard-dataset")
    if len(found) > 1 and all(_same_rows(step, other) for other in found):
        return Cause(rule, "every worker trains on the whole batch: the data are not cut")
    if len(found) > 1 and all(_same_rows(found[0], other) for other in found[1:]):
        return Cause(rule, "all workers train on the same samples")
    return Cause(rule, "the workers' shares do not make up the batch")


def _of_rate(original: Record, ranks: Sequence[Record], step: Step, found: Sequence[Step], rank: int) -> Cause:
    other = found[rank]
    ratio = (other.learning_rate or 0.0) / (step.learning_rate or 1.0)
    made = ranks[rank].optimizers[step.optimizer].line
    if any(_rates_differ(found[0], one) for one in found[1:]):
        return _of_decisions(original, "set its learning rate")
    if step.number == 1 and abs(ratio - 1) > _SOON:
        text = (
            f"the learning rate is {ratio:.3g} times the original's: the global batch is what it was, so it stays, too"
        )
        return Cause("", text, made)
    text = "the learning rate follows another schedule: another number of steps, or epochs"
    return Cause("local-step-count", text, made)


def _rates_differ(one: Step, other: Step) -> bool:
    rates = one.learning_rate, other.learning_rate
    return None not in rates and abs((rates[1] or 0.0) - (rates[0] or 0.0)) > _CLOSE * abs(rates[0] or 0.0)


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
    if _off(expected, applied[0]) < _CLOSE:
        return None
    if _are_taken_right(step, found):
        text = "each worker changes its own gradients, as by clipping, before they are reduced: reduce them first"
        return Cause(rule, text)
    if any(_is_multiple_of_weights(step, kind, wrong) for kind, wrong in _combined(step, found)):
        return Cause("scale-loss", "a penalty on the weights counts another number of times")
    return None


def _are_right(step: Step, other: Step) -> bool:
    expected, applied = _all(step, GRADIENTS), _all(other, GRADIENTS)
    return expected is not None and applied is not None and _off(expected, applied) < _CLOSE


def _are_taken_right(step: Step, found: Sequence[Step]) -> bool:
    """Whether the workers' tapes gave the gradients that make up the original's, as their mean or their sum."""
    taken, of_ranks = _all(step, LOCAL), [_all(other, LOCAL) for other in found]
    if taken is None or len(found) < 2 or any(local is None or local.shape != taken.shape for local in of_ranks):
        return False
    several = np.stack([local for local in of_ranks if local is not None])
    return any(_off(taken, way) < _CLOSE for way in (several.mean(0), several.sum(0)))


def _combined(step: Step, found: Sequence[Step]) -> Iterator[tuple[str, list[Numbers | None]]]:
    """The workers' gradients as they were applied, and as their tapes gave them, averaged and added up."""
    yield GRADIENTS, found[0].arrays[GRADIENTS]
    several = [other.arrays.get(LOCAL, []) for other in found]
    if len({len(one) for one in (step.arrays.get(LOCAL, []), *several)}) == 1:
        for share in (1.0, 1.0 / len(found)):
            yield LOCAL, [_added_up(tensors, share) for tensors in zip(*several)]


def _added_up(tensors: Sequence[Numbers | None], share: float) -> Numbers | None:
    known = [tensor for tensor in tensors if tensor is not None]
    return np.asarray(sum(known) * share) if len(known) == len(tensors) else None


def _is_multiple_of_weights(step: Step, kind: str, found: Sequence[Numbers | None]) -> bool:
    """Whether the gradients are off by a multiple of the weights themselves, as those of an L2 penalty are."""
    for one, wrong, weights in zip(step.arrays[kind], found, step.arrays[WEIGHTS]):
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
