"""Whatever a script passes to an op, its row answers, and never with more than its arguments allow."""

from __future__ import annotations

import random

import pytest

from migrator.analysis.ops import NOT_CONSTANT, Arg, Op, OpCall, rows
from migrator.analysis.placement import (
    LOCAL,
    REPLICATED,
    ROWS,
    Either,
    Local,
    Partial,
    Replicated,
    Scaled,
    Shape,
    Sharded,
    Unknown,
)

CONSTANTS = (
    None,
    0,
    1,
    -1,
    2.5,
    True,
    "sum",
    "bi,bj->ij",
    [0, 1],
    (1, -1),
    [],
    slice(None),
    slice(NOT_CONSTANT, 2),
    ...,
)
PLACES = (
    REPLICATED, ROWS, Sharded(0), Sharded(1), Sharded(0, "ragged"), Sharded(0, "one", 2), Partial("mean"),
    Partial("sum"), Scaled(Sharded(0), -1), Shape(0), Either((Sharded(0), Partial("mean"))),
)  # fmt: skip


def some_arg(draw: random.Random, places: tuple[object, ...], depth: int = 0) -> Arg:
    kind = draw.random()
    if kind < 0.35:
        return Arg(constant=draw.choice(CONSTANTS))
    if kind < 0.45 and depth < 2:
        return Arg(items=tuple(some_arg(draw, places, depth + 1) for _ in range(draw.randrange(3))))
    place = draw.choice(places)
    return Arg(place, rank=draw.choice((None, 0, 1, 2, 3)), many=draw.random() < 0.1)  # type: ignore[arg-type]


def some_call(op: Op, draw: random.Random, places: tuple[object, ...]) -> OpCall:
    args = [some_arg(draw, places) for _ in range(draw.randrange(len(op.parameters) + 2))]
    kwargs = {name: some_arg(draw, places) for name in op.parameters[len(args) :] if draw.random() < 0.4}
    made = OpCall(kwargs={"axis": some_arg(draw, (REPLICATED,)), "reduction": Arg(constant="none")})
    return OpCall(args, kwargs, draw.choice((None, made)))


@pytest.mark.parametrize("seed", range(4))
def test_every_row_answers_every_call(seed: int) -> None:
    draw = random.Random(seed)
    for op in rows():
        for _ in range(12):
            call = some_call(op, draw, PLACES)
            try:
                op.infer(call), op.place(call)
            except Exception as error:
                raise AssertionError(f"{op.path}: {call}") from error


def test_what_is_whole_stays_whole() -> None:
    draw = random.Random(0)
    for op in rows():
        for _ in range(12):
            call = some_call(op, draw, (REPLICATED,))
            for leaf in op.infer(call).leaves():
                assert isinstance(leaf.placement, Replicated), (op.path, call)


def test_what_is_not_seen_or_of_one_worker_stays_so() -> None:
    for op in rows():
        if op.parameters[:1] == ("*",) or not op.parameters:
            continue
        for place in (LOCAL, Unknown("a reason", "all_gather")):
            assert isinstance(op.place(OpCall([Arg(place)])), (Local, Unknown)), op.path
