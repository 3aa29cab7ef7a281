"""The verdict on a case: what the tool made of its script, and whether that trains the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from migrator.engine import migrate
from migrator.registry import choose

from . import truth
from .case import Case
from .runs import Ran, alone, together

SAME, REFUSED, DOCUMENTED, OPEN = "same", "refused", "documented", "open"
WRONG, INVALID = "WRONG", "INVALID"
SIZES = (2, 3)
# Float rounding of a few steps; what is wrong by a mean that should be a sum, or by one term, is off by much more.
_RELATIVE, _ABSOLUTE = 2e-4, 2e-6


@dataclass(frozen=True)
class Judgement:
    case: Case
    verdict: str
    why: str = ""
    truth: str = ""  # what its loss is, where that was measured: see truth.py
    migrated: str = ""

    @property
    def is_needless(self) -> bool:
        """Refused although averaging or adding up the gradients would do."""
        return self.verdict == REFUSED and self.truth in ("mean", "sum")


def judge(case: Case) -> Judgement:
    outcome = migrate(case.script.encode(), choose())
    original, *still = alone(case.script, *case.parts[:1])
    if original.error:
        return Judgement(case, INVALID, f"the original fails: {original.error}")
    if not original.has_trained:
        return Judgement(case, INVALID, "the original trains nothing")
    if any(not _difference(original, [unmoved], count_updates=False) for unmoved in still):
        return Judgement(case, INVALID, "the original does not change its weights")
    if outcome.refusals:
        why = "; ".join(dict.fromkeys(f"{f.line}: {f.rule}: {f.message}" for f in outcome.refusals))
        return Judgement(case, REFUSED, why, _truth(case), outcome.text)
    for size in SIZES:
        difference = _difference(original, together(outcome.text, size, moved_apart=not case.untrained))
        if difference:
            verdict = OPEN if case.open else DOCUMENTED if case.documented and "weights" in difference else WRONG
            return Judgement(case, verdict, f"{size} ranks: {difference}", _truth(case), outcome.text)
    if case.repaired_by and not _needs_repair(case, original):
        return Judgement(case, INVALID, f"trains the same without {case.repaired_by}", migrated=outcome.text)
    return Judgement(case, SAME, migrated=outcome.text)


def _needs_repair(case: Case, original: Ran) -> bool:
    """Whether on some number of ranks another model is trained once the rule is left out."""
    rules = [rule for rule in choose() if rule.id != case.repaired_by]
    unrepaired = migrate(case.script.encode(), rules).text
    return any(_difference(original, together(unrepaired, size)) for size in SIZES)


def _truth(case: Case) -> str:
    """What the loss of the case is, where its parts tell that."""
    return truth.of_loss(*alone(*case.parts)) if case.parts else ""


def _difference(original: Ran, ranks: Sequence[Ran], count_updates: bool = True) -> str:
    """What the ranks did otherwise than the original; nothing where they trained the same."""
    for rank, ran in enumerate(ranks):
        if ran.error:
            return f"rank {rank}: {ran.error}"
    for rank, ran in enumerate(ranks):
        if count_updates and ran.updates != original.updates:
            return f"rank {rank} made {ran.updates} updates, the original {original.updates}"
        if [w.shape for w in ran.weights] != [w.shape for w in original.weights]:
            return f"rank {rank} has other variables"
        off = max((_distance(a, b) for a, b in zip(ran.weights, original.weights)), default=0.0)
        if not off <= 1:
            return f"rank {rank} ends with other weights, off by {off:.3g} times the tolerance"
    return ""


def _distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, in units of what rounding explains; infinite where only one of the two is a number."""
    if not expected.size:
        return 0.0
    if not (np.isfinite(found).all() and np.isfinite(expected).all()):
        return 0.0 if np.array_equal(found, expected, equal_nan=True) else float("inf")
    scale = _ABSOLUTE + _RELATIVE * float(np.abs(expected).max())
    return float(np.abs(found - expected).max()) / scale
