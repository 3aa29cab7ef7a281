"""The results of ops on the arguments that they have had before: loops run until nothing changes, functions for each of
their callers, and scripts are alike, so that most calls of an op are repeated."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Op, OpCall
from migrator.analysis.placing import ranks

# Of all scripts of this project there are 2,500.
_MOST = 10_000
_PLAIN = frozenset({int, float, bool, str, type(None), type(NOT_CONSTANT)})
_others = attrgetter(*(each.name for each in fields(Arg) if each.name != "items"))


class Results:
    def __init__(self) -> None:
        # With the op, so that its id stays its own: ops are slow keys.
        self._known: dict[tuple[int, object], tuple[Op, Arg]] = {}

    def of(self, row: Op, call: OpCall) -> Arg:
        """What `ranks.infer` gives, which depends on nothing else."""
        seen = _key(call)
        if seen is None:
            return ranks.infer(row, call)
        known = self._known.get((id(row), seen))
        if known is not None:
            return known[1]
        result = ranks.infer(row, call)
        # What is lost is told apart by where it is lost first: see Run.where_lost.
        if not result.is_lost:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[id(row), seen] = row, result
        return result


# Of all runs: what is told depends on nothing else.
RESULTS = Results()


def _key(call: OpCall) -> tuple[Any, ...] | None:
    """What tells the call from others; None where an argument is a literal that is no plain one."""
    keys = []
    for arg in call.args:
        key = _key_of(arg)
        if key is None:
            return None
        keys.append(key)
    for name, arg in call.kwargs.items():
        key = _key_of(arg)
        if key is None:
            return None
        keys.append((name, key))
    if call.made is None:
        return tuple(keys)
    made = _key(call.made)
    return (*keys, made, None) if made is not None else None


def _key_of(arg: Arg) -> tuple[Any, ...] | None:
    kind = type(arg.constant)  # 1, 1.0 and True are equal
    if kind not in _PLAIN:
        return None
    items = arg.items if arg.items is None else tuple(map(_key_of, arg.items))
    return None if items is not None and None in items else (kind, items, *_others(arg))
