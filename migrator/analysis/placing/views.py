"""How the data of an op's arguments are taken to stand when its result is asked for.

As they are; or as they would be once something is put together, to see whether the result is then known.
"""

from __future__ import annotations

from typing import Callable

from migrator.analysis.placement import REPLICATED, Partial, Placement, Scaled, Shape, Sharded, options
from migrator.analysis.values import Data

View = Callable[[Data], Placement]


def as_it_is(data: Data) -> Placement:
    return data.placement


def as_rows(data: Data) -> Placement:
    """All rows as a worker's part of them: what becomes of the one becomes of the other."""
    if data.whole:
        return Sharded(data.across)
    return REPLICATED if isinstance(data.placement, (Partial, Scaled, Shape)) else data.placement


def as_batch(data: Data) -> Placement:
    """Batches that a dataset is still to hand out as a worker's part of them."""
    return Sharded(0) if data.batch and data.is_replicated else data.placement


def as_sizes(data: Data) -> Placement:
    """The sizes of all rows as those of a worker's part: what is made by the one is made by the other."""
    return data.sized if data.sized is not None and data.is_replicated else data.placement


def once_gathered(data: Data) -> Placement:
    """The same, once all workers' rows are put together."""
    return Sharded(0) if any(isinstance(p, Sharded) for p in options(data.placement)) else as_rows(data)


def once_reduced(data: Data) -> Placement:
    """Sums and means over the rows as they are once the workers have put them together."""
    return REPLICATED if isinstance(data.placement, (Partial, Scaled)) else data.placement


def once_summed(data: Data) -> Placement:
    """The same of sums alone."""
    return REPLICATED if data.placement == Partial("sum") else data.placement
