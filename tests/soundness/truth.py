"""What a loss is, measured: the weights' change by one step on a batch against those by steps on its parts."""

from __future__ import annotations

import numpy as np

from .runs import Ran

ROWS = tuple(range(24))
# The whole; halves cut in the middle, and every second row; quarters.
PARTS = (
    ROWS,
    *(ROWS[:12], ROWS[12:]),
    *(ROWS[::2], ROWS[1::2]),
    *(ROWS[i : i + 6] for i in range(0, 24, 6)),
)
_SPLITS = (PARTS[1:3], PARTS[3:5], PARTS[5:])
_TOLERANCE = 1e-3  # of float32 differences of weights; what does not split is off by much more


def of_loss(start: Ran, *parts: Ran) -> str:
    """ "mean" or "sum" where the steps on the parts add up to it in every split, "neither" where they do not.

    `start` made no step, `parts` one step each on the rows of PARTS. "fails" where a part cannot be trained on.
    """
    if start.error or any(part.error for part in parts):
        return "fails"
    steps = dict(zip(PARTS, (_change(start, part) for part in parts)))
    whole = steps[ROWS]
    size = float(np.abs(whole).max())
    for kind, combine in (("mean", np.mean), ("sum", np.sum)):
        whole_again = [combine([steps[part] for part in split], axis=0) for split in _SPLITS]
        if all(np.abs(found - whole).max() < _TOLERANCE * size for found in whole_again):
            return kind
    return "neither"


def _change(start: Ran, after: Ran) -> np.ndarray:
    return np.concatenate([np.ravel(a - s).astype(np.float64) for s, a in zip(start.weights, after.weights)])
