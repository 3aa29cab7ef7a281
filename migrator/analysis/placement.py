"""Where a value stands: how the workers' values make up the value of the run on one device.

The algebra of PyTorch DTensor's Shard, Replicate and Partial and of JAX's varying axes, put on a program before it
runs. "Rows" are the rows of the batch that a worker holds; the parts of a batch may be uneven.

Whoever reads a placement treats a class that it does not handle as `Unknown`: that is always safe.
"""

from __future__ import annotations

from typing import Union

from migrator.records import dataclass

ALL_REDUCE = "all_reduce"
ALL_GATHER = "all_gather"


@dataclass(frozen=True)
class Replicated:
    """Every worker has the value of the one-device run."""


@dataclass(frozen=True)
class Local:
    """Each worker has its own, and nothing makes the one-device value out of them: a rank, a clock, a host name."""


@dataclass(frozen=True)
class Sharded:
    """The workers' values laid one after the other along `axis`, which counts from the front.

    `rows` says how many lie along that axis on a worker: "one" a sample, "even" (the same number a sample), or
    "ragged" (no fixed number: after a mask along the batch, so that a mean over them is no mean weighted by samples).
    `blocks` > 1: that many batches were concatenated along the axis. The one-device value holds the whole first batch,
    then the whole second; the workers' values are those rows in another order, the same for all values of as many
    blocks. Means and sums do not see the order.
    """

    axis: int
    rows: str = "one"
    blocks: int = 1


@dataclass(frozen=True)
class Partial:
    """The workers' values' mean weighted by rows ("mean"), or their sum ("sum")."""

    reduction: str


@dataclass(frozen=True)
class Scaled:
    """A value times (the worker's number of rows) ** `power`; the one-device value has the number of all rows instead.

    `Scaled(REPLICATED, 1)` is a number of rows, such as `tf.shape(x)[0]` or `len(x)`: an all-reduced sum makes the
    one-device value. `Scaled(REPLICATED, -1)` is one over it, `Scaled(Sharded(0), -1)` per-sample values divided by it,
    whose sum is a `Partial("mean")`. Nothing but an op's row tells what becomes of the last two.
    """

    base: Placement
    power: int


@dataclass(frozen=True)
class Shape:
    """The sizes of a value that is sharded along `axis`: that entry is a number of rows, the others are replicated.

    `blocks`: see Sharded. `least`: so many axes the value has at least.
    """

    axis: int
    rows: str = "one"
    blocks: int = 1
    least: int = 1


@dataclass(frozen=True)
class Either:
    """One of `options`: which one depends on a rank that is not known.

    An op takes all of them into account, and the mean of `Either(Sharded(0), Partial("mean"))` is a `Partial("mean")`
    again. The likeliest comes first. Where an obligation asks, read `settled(placement)`.
    """

    options: tuple[Placement, ...]


@dataclass(frozen=True)
class Unknown:
    """Not seen. `repair` names what makes an input of the op usable: `ALL_REDUCE`, `ALL_GATHER`, or None: nothing does.

    `ALL_GATHER` is right for sharded inputs, `ALL_REDUCE` for partial inputs and numbers of rows.
    """

    why: str
    repair: str | None = None


Placement = Union[Replicated, Local, Sharded, Partial, Scaled, Shape, Either, Unknown]

REPLICATED = Replicated()
LOCAL = Local()
ROWS = Scaled(REPLICATED, 1)


def either(options: list[Placement]) -> Placement:
    """One placement out of several possible ones, which are told apart only as far as they differ."""
    flat: dict[Placement, None] = {}
    for option in options:
        flat.update(dict.fromkeys(option.options if isinstance(option, Either) else (option,)))
    distinct = tuple(flat)
    return distinct[0] if len(distinct) == 1 else Either(distinct)


def options(placement: Placement) -> tuple[Placement, ...]:
    """All that it may turn out to be: the placement, or the options of an `Either`."""
    return placement.options if isinstance(placement, Either) else (placement,)


def settled(placement: Placement) -> Placement:
    """The placement, or for an `Either` the `Unknown` that is safe for each of its options."""
    if not isinstance(placement, Either):
        return placement
    for option in placement.options:
        if isinstance(option, Unknown):
            return option
    return Unknown("how many axes it has is not known, and where it stands depends on that", ALL_GATHER)
