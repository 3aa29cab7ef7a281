"""What it takes for workers to have trained the model that one process trains.

Each check raises an error of its own, so that a test can tell not only that something is wrong but what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from training_runs import Trained


class RanksDisagreeError(AssertionError):
    """The workers ended with different weights."""


class StepsDifferError(AssertionError):
    """The workers made another number of optimizer steps than the single process."""


class WeightsDifferError(AssertionError):
    """The workers agree on a model that is not the single process's."""


class SamplesDifferError(AssertionError):
    """The workers together did not train once an epoch on each sample."""


def check_bit_equal(one: Trained, other: Trained) -> None:
    """Both trained the same weights, bit for bit, in as many steps."""
    check_steps(one, [other])
    check_shapes(one, other)
    differing = [i for i, (a, b) in enumerate(zip(one.weights, other.weights)) if a.tobytes() != b.tobytes()]
    if differing:
        raise WeightsDifferError(
            f"variables {differing} differ, by up to {largest_relative_difference(one, other):.1e}"
        )


def check_ranks_agree(ranks: Sequence[Trained]) -> None:
    """Every rank holds the chief's weights, bit for bit."""
    chief = ranks[0]
    for rank, trained in enumerate(ranks):
        check_shapes(chief, trained)
        for i, (expected, found) in enumerate(zip(chief.weights, trained.weights)):
            if expected.tobytes() != found.tobytes():
                difference = np.abs(found - expected).max()
                raise RanksDisagreeError(f"variable {i} of rank {rank} is up to {difference:.1e} off the chief's")


def check_steps(original: Trained, ranks: Sequence[Trained]) -> None:
    """Every optimizer made as many steps on every rank as in the single process."""
    for rank, trained in enumerate(ranks):
        if trained.steps != original.steps:
            raise StepsDifferError(f"rank {rank} made {trained.steps} steps, the original {original.steps}")


def check_close(original: Trained, ranks: Sequence[Trained], tolerance: float) -> None:
    """The chief's weights are the original's but for rounding."""
    difference = largest_relative_difference(original, ranks[0])
    if not difference <= tolerance:
        raise WeightsDifferError(f"weights differ by {difference:.1e}, more than {tolerance:.0e}")


def check_samples(original: Trained, ranks: Sequence[Trained], epochs: int, shared_rows: int = 1) -> None:
    """In each epoch the ranks together train on what the original does.

    All ranks but the chief may repeat `shared_rows` of them: those of a last batch that several ranks compute since it
    does not split evenly, or one that fills up a share and weighs nothing.
    """
    for epoch in range(epochs):
        expected = Counter(rows_of_epoch(original, epoch, epochs))
        found = Counter(row for trained in ranks for row in rows_of_epoch(trained, epoch, epochs))
        missing, repeated = expected - found, found - expected
        not_trained, too_often = sum(missing.values()), sum(repeated.values())
        if not_trained or too_often > shared_rows * (len(ranks) - 1):
            raise SamplesDifferError(
                f"epoch {epoch}: of {sum(expected.values())} rows {not_trained} were not trained on, "
                f"{too_often} once too often"
            )


def rows_of_epoch(trained: Trained, epoch: int, epochs: int) -> list[int]:
    """The hashes of the rows of one of the epochs, all of which have the same number of rows."""
    rows, uneven = divmod(len(trained.samples), epochs)
    if uneven or not rows:
        raise SamplesDifferError(f"{len(trained.samples)} rows do not make {epochs} epochs")
    return trained.samples[epoch * rows : (epoch + 1) * rows].tolist()


def check_shapes(one: Trained, other: Trained) -> None:
    shapes, others = [w.shape for w in one.weights], [w.shape for w in other.weights]
    if not shapes or shapes != others:
        raise WeightsDifferError(f"not the same variables: {shapes} and {others}")


def largest_relative_difference(original: Trained, other: Trained) -> float:
    """The largest difference of any weight, relative to the largest weight of its variable.

    NaN if there is a NaN among the weights: no tolerance lets that pass.
    """
    check_shapes(original, other)
    smallest = np.finfo(np.float64).tiny  # a variable of zeros has no scale
    differences = [
        np.abs(found.astype(np.float64) - expected).max() / max(np.abs(expected).max(), smallest)
        for expected, found in zip(original.weights, other.weights)
    ]
    return float(np.max(differences))
