"""Wraps the data that a Keras method trains on (`x`, `y`, `sample_weight`) in a call of the runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from migrator.edits import Wrap
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts


def wrap_data(
    facts: Facts,
    call: cst.Call,
    function: str,
    tail: str = "",
    weight_position: int | None = None,
    done: Collection[cst.BaseExpression] = (),
    unpacked: cst.Arg | None = None,
) -> Iterator[Wrap]:
    """One call around x and y where they stand side by side, else one around each; `tail` ends its arguments.

    What is `done` is left as it is. `unpacked`: `*batch` in the place of x, y and what may follow on them.
    """
    x, y = argument(call, "x", 0), argument(call, "y", 1)
    weight = argument(call, "sample_weight", weight_position)
    opening, closing = f"{facts.runtime}.{function}(", f"{tail})"
    given = [arg for arg in (x, y, weight) if arg is not None and arg.value not in done]
    if unpacked is not None and unpacked.value not in done:
        yield Wrap(unpacked.value, f"{opening}*", closing)
    if x is not None and y is not None and given[:2] == [x, y] and _stand_alone(facts, call, x, y):
        yield Wrap(x.value, f"*{opening}", closing, last=y.value)
        given = given[2:]
    for arg in given:
        yield Wrap(arg.value, opening, closing)


def _stand_alone(facts: Facts, call: cst.Call, x: cst.Arg, y: cst.Arg) -> bool:
    """Whether x and y are the only positional arguments, on one line: unpacked, they hide the positions of others."""
    if x.keyword is not None or y.keyword is not None:
        return False
    positional = sum(arg.keyword is None and not arg.star for arg in call.args)
    return positional == 2 and facts.position(x.value)[0] == facts.position(y.value)[0]
