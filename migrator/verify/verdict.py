"""What the comparison comes to: one of four verdicts, with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from migrator.verify.causes import Cause, likely_cause
from migrator.verify.comparison import (
    EPOCHS,
    FAILURE,
    FILES,
    LOSS,
    PRINTED,
    RATE,
    SAMPLES,
    SHUFFLES,
    START,
    STEPS,
    Comparison,
    Difference,
    Rounding,
    epochs_have_other_lengths,
)
from migrator.verify.record import ENDED, FAILED, GRADIENTS, WEIGHTS, Record

SAME, DIFFERENT, INCONCLUSIVE, NOT_TRAINING = "SAME", "DIFFERENT", "INCONCLUSIVE", "NOT TRAINING"

# Of these, no rounding explains any difference.
_EXACT = (FAILURE, SHUFFLES, SAMPLES, STEPS, START, RATE, EPOCHS, FILES)
# Of a rank that has failed, these differ all the same.
_AFTER_FAILURE = (LOSS, STEPS, EPOCHS, FILES, PRINTED)
# A script that repeats itself worse than this is not deterministic, whatever rounding does.
_MOST_SPREAD = 1e-3
# No rounding makes this much at a step where the cause shows as well.
_CLEARLY = 1e-2
# Of a difference that float64 reduces to this share of what it was in float32, and to this, rounding was all.
_LEFT_OF_ROUNDING, _MOST_LEFT = 1e-3, 1e-6
# What keeps this share is no rounding.
_STAYS = 0.1


@dataclass(frozen=True)
class Verdict:
    """The verdict of one comparison; reason: one sentence; advice: what to do, where there is something."""

    kind: str
    reason: str
    advice: str = ""
    difference: Difference | None = None
    cause: Cause | None = None


def not_training(original: Record) -> Verdict | None:
    """NOT TRAINING where the original itself does not: two dead models agree, too."""
    if not original.steps:
        return Verdict(
            NOT_TRAINING,
            "the script made no optimizer step",
            "give it arguments with which it trains, or name the file that does",
        )
    for number, optimizer in enumerate(original.optimizers):
        steps = [step for step in original.steps if step.optimizer == number and GRADIENTS in step.arrays]
        if not steps:
            continue
        line = f" ({steps[0].line})" if steps[0].line else ""
        before, after = steps[0].arrays.get("before", []), steps[-1].arrays[WEIGHTS]
        moved = [b is None or a is None or not np.array_equal(a, b) for b, a in zip(before, after)]
        if not any(moved):
            return Verdict(
                NOT_TRAINING, f"{len(steps)} steps of {optimizer.name} leave all its weights as they were{line}"
            )
        for index, name in enumerate(optimizer.variables):
            gradients = [step.arrays[GRADIENTS][index] for step in steps if index < len(step.arrays[GRADIENTS])]
            if all(g is None or not np.any(g) for g in gradients):
                return Verdict(NOT_TRAINING, f"the gradient of {name} is zero in all {len(steps)} steps{line}")
    if original.untouched:
        names = ", ".join(original.untouched[:3]) + (" and others" if len(original.untouched) > 3 else "")
        verb = "is" if len(original.untouched) == 1 else "are"
        return Verdict(
            NOT_TRAINING,
            f"{names} can be trained, but {verb} given to no optimizer and never changed",
            "say trainable=False where that is meant",
        )
    return None


def judge(original: Record, comparison: Comparison, ranks: Sequence[Record], rounding: Rounding, steps: int) -> Verdict:
    """The verdict on so many ranks, from the comparison with the original."""
    failed = next((record for record in ranks if record.end == FAILED), None)
    first = _first_that_counts(comparison)
    if failed is None:
        return _of_first(original, comparison, ranks, rounding, steps)
    if first is not None and first.what not in _AFTER_FAILURE:
        # What parted before a rank failed is most likely why, unless it is rounding.
        verdict = _of_first(original, comparison, ranks, rounding, steps)
        if verdict.kind == DIFFERENT and not is_unclear(verdict):
            return verdict
    left, one = _one_that_left(ranks), next((d for d in comparison.differences if d.what == STEPS), None)
    if left is not None and one is None and f"rank {left.rank}: leaving" in failed.error:
        # The one that left has made the original's steps, the other was about to make more.
        one = Difference(STEPS, len(left.steps) + 1, 1.0, 0.0, failed.failed_at, rank=failed.rank)
    if left is not None and one is not None:
        reason = (
            f"rank {left.rank} ended after {len(left.steps)} optimizer steps, while rank {failed.rank} goes on and "
            f"waits for it: {failed.error}"
        )
        return Verdict(DIFFERENT, reason, difference=one, cause=likely_cause(original, ranks, one))
    who = f"rank {failed.rank}" if len(ranks) > 1 else "the migrated script"
    at = Difference(FAILURE, len(failed.steps) + 1, 1.0, 0.0, failed.failed_at, rank=failed.rank)
    reason = f"{who} failed, which the original does not: {failed.error}"
    return Verdict(DIFFERENT, reason, difference=at, cause=Cause("", "the error came through this line last"))


def _of_first(
    original: Record, comparison: Comparison, ranks: Sequence[Record], rounding: Rounding, steps: int
) -> Verdict:
    """The verdict on ranks of which none has failed: told by the first difference."""
    first = _first_that_counts(comparison)
    if first is None:
        recorded = sum(1 for step in original.steps if step.arrays)
        if recorded < min(steps, 3):
            return Verdict(
                INCONCLUSIVE,
                f"only {recorded} steps could be compared",
                "let it make more: give it more data or epochs",
            )
        return Verdict(SAME, _figure(comparison))
    spread = rounding.spread
    if first.what not in _EXACT and spread > _MOST_SPREAD:
        return Verdict(
            INCONCLUSIVE,
            f"the original itself is not deterministic: two runs of it are {spread:.0e} apart",
            "look for a random generator that is neither TensorFlow's, NumPy's nor Python's, or for threads",
            first,
        )
    if first.what not in _EXACT and rounding.noise(WEIGHTS, first.step - 1) * 50 > 0.1:
        return Verdict(
            INCONCLUSIVE,
            "the script amplifies rounding: moving its gradients by one unit in the last place moves its weights by "
            f"{rounding.noise(WEIGHTS, first.step - 1):.0e}",
            "try a smaller learning rate, or compare fewer steps (--steps)",
            first,
        )
    cause = likely_cause(original, ranks, first)
    difference = replace(first, line=cause.line) if cause is not None and cause.line else first
    return Verdict(DIFFERENT, _told(first), difference=difference, cause=cause)


def _one_that_left(ranks: Sequence[Record]) -> Record | None:
    """The rank that came to its end while another waits for it; None where none or all did."""
    return next((record for record in ranks if record.end == ENDED), None)


def _first_that_counts(comparison: Comparison) -> Difference | None:
    """The first difference; one of the losses only where what is trained differs, too: workers may tell theirs
    otherwise."""
    others = [d for d in comparison.differences if d.what != LOSS]
    is_trained_alike = all(d.what == PRINTED for d in others)
    return next(iter(others if is_trained_alike else comparison.differences), None)


def _figure(comparison: Comparison) -> str:
    found = comparison.figures.get(WEIGHTS, [])
    largest = max((size for _, size, _ in found), default=0.0)
    if largest == 0.0:
        return f"the weights are equal, bit for bit, in {len(found)} steps"
    return (
        f"the weights are at most {largest:.1e} apart, relative to the largest of each variable, in {len(found)} steps"
    )


def _told(first: Difference) -> str:
    where = f"step {first.step}"
    rank = f" on rank {first.rank}" if first.rank else ""
    if first.what in (SHUFFLES, SAMPLES, STEPS, RATE, EPOCHS, FILES):
        return f"the {first.what} differ{'s' * (first.what == RATE)} at {where}{rank}: {first.detail}"
    if first.what == PRINTED:
        return f"the training is the same, but what is printed is not, after {where}: {first.detail}"
    tensor = f" of {first.tensor}" if first.tensor else ""
    verb = "is" if first.what == LOSS else "are"
    apart = f"{first.size:.1e} apart at {where}{rank}, of which rounding explains {first.allowed:.0e}"
    return f"the {first.what}{tensor} {verb} {apart}"


def is_unclear(verdict: Verdict) -> bool:
    """Whether rounding may be what the runs part by: nothing else is known to be, and it could be."""
    if verdict.difference is None or verdict.difference.what in _EXACT:
        return False
    if verdict.difference.what == PRINTED:
        return True
    return verdict.cause is None or verdict.kind == INCONCLUSIVE or verdict.difference.size < _CLEARLY


def widened(first: Verdict, narrow: Comparison, second: Verdict, wide: Comparison) -> Verdict:
    """The verdict on runs that were repeated in float64: rounding is gone, what is wrong stays."""
    if second.difference is not None and second.difference.what == PRINTED:
        return second
    before, after = _largest(narrow), _largest(wide)
    figures = f"in float32 the weights are {before:.1e} apart, in float64 {after:.1e}"
    if second.kind == SAME or (after < _LEFT_OF_ROUNDING * before and after < _MOST_LEFT):
        return Verdict(SAME, f"{figures}: what parts the runs in float32 is rounding, which the script amplifies")
    if after >= _STAYS * before:
        return replace(second, kind=DIFFERENT, reason=f"{second.reason}; {figures}: it is not rounding", advice="")
    return Verdict(
        INCONCLUSIVE,
        f"{figures}: less, but not as little as rounding in float64 explains",
        "look for numbers that the script keeps in float32, as files or NumPy arrays that it trains on again",
        second.difference or first.difference,
    )


def beyond_rounding(original: Record, comparison: Comparison, ranks: Sequence[Record]) -> Verdict | None:
    """DIFFERENT by what no rounding explains however much it is amplified; None where there is nothing such. Decisions
    of the script, as when to stop, may come of rounding, but then all ranks take the same; how long its epochs are, and
    who writes, does not.
    """
    for one in comparison.differences:
        if (
            one.what == SHUFFLES
            or (one.what == EPOCHS and epochs_have_other_lengths(original, ranks))
            or (one.what == FILES and one.rank > 0)
            or (one.what == RATE and _rates_of_ranks_differ(ranks, one.step - 1))
        ):
            return Verdict(DIFFERENT, _told(one), difference=one, cause=likely_cause(original, ranks, one))
    return None


def _rates_of_ranks_differ(ranks: Sequence[Record], index: int) -> bool:
    return len({record.steps[index].learning_rate for record in ranks}) > 1


def unwidened(first: Verdict) -> Verdict:
    """The verdict where the runs could not be repeated in float64."""
    one = first.difference
    if one is not None and one.what == PRINTED and one.size >= _CLEARLY:
        return first
    advice = "they could not be repeated in float64; compare fewer steps (--steps)"
    return replace(first, kind=INCONCLUSIVE, reason=f"in float32 {first.reason}", advice=advice)


def _largest(comparison: Comparison) -> float:
    return max((size for _, size, _ in comparison.figures.get(WEIGHTS, ())), default=0.0)
