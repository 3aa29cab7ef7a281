"""What an expression is, seen over the batch, and what becomes of such kinds in arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

FREE = "free"  # a constant
PENALTY = "penalty"  # depends on the weights alone, as regularisers do
SHARED = "shared"  # a penalty of which each worker counts its part: the sum over the workers is the whole
SAMPLES = "samples"  # a value for each sample
DATA = "data"  # some tensor, of which the text does not tell more
PARTS = "parts"  # a value for each sample, divided by the number of samples: the sum over them is a mean
MEAN = "mean"
SUM = "sum"
COUNT = "count"  # the number of samples in the batch at hand
MIXED = "mixed"  # a value for each sample plus a mean over the batch: fine while nothing curved is done to it
UNSPLIT = "unsplit"  # depends on the whole batch in a way that no mean or sum over workers gives back


def sum_of(kinds: Iterable[str]) -> str:
    present = set(kinds) - {FREE}
    if SHARED in present and len(present) > 1:
        return SUM if present == {SHARED, SUM} else UNSPLIT
    if SUM in present and PENALTY in present:
        return UNSPLIT  # summed over N workers, the penalty would count N times
    if len(present) > 1:
        present.discard(PENALTY)
    if not present:
        return FREE
    if SAMPLES in present and not present & {UNSPLIT, SUM, PARTS}:
        return MIXED if present & {MEAN, MIXED} else SAMPLES
    if present == {DATA, MEAN}:
        return MIXED
    if present == {COUNT}:
        return DATA
    return present.pop() if len(present) == 1 else UNSPLIT


def product(*kinds: str) -> str:
    present = [k for k in kinds if k != FREE]
    reduced = [k for k in present if k in (MEAN, SUM, MIXED, UNSPLIT)]
    if not present:
        return FREE
    if len(reduced) > 1:
        return UNSPLIT
    if reduced:
        return UNSPLIT if {COUNT, SAMPLES, PARTS} & set(present) else reduced[0]
    if COUNT in present and len(set(present) - {PENALTY, COUNT}) > 0:
        return UNSPLIT
    return next((k for k in (PARTS, SAMPLES, DATA, COUNT) if k in present), present[0])


def quotient(over: str, under: str) -> str:
    if under in (FREE, PENALTY):
        return under if over == FREE else over
    if under == COUNT:
        if over in (SAMPLES, DATA):
            return PARTS
        return MEAN if over == SUM else UNSPLIT if over in (MEAN, MIXED, UNSPLIT, PARTS) else over
    if over in (MEAN, SUM, MIXED, UNSPLIT):
        # `/ args.batch_size` and the like: a number that the text does not show, but no tensor of the batch.
        return over if under == DATA and over in (MEAN, SUM) else UNSPLIT
    if under == PARTS or (over == PARTS and under != DATA):
        return UNSPLIT
    if over == PARTS:
        return PARTS
    return UNSPLIT if under in (MEAN, SUM, MIXED, UNSPLIT) else SAMPLES if over == SAMPLES else DATA


def counted_together(kind: str) -> str:
    """A number of which every worker takes the mean over the workers: a sum then is what N-th parts are divided by."""
    return COUNT if kind == SUM else FREE if kind == MEAN else kind


def alternatives(kinds: list[str]) -> str:
    present = list(dict.fromkeys(kinds))
    if len(present) == 1:
        return present[0]
    informative = [k for k in present if k != FREE]
    if set(informative) == {DATA, SAMPLES}:
        return DATA
    return informative[0] if len(informative) == 1 else UNSPLIT if informative else FREE
