"""`functools.partial(function, …)`: what it is called with beforehand, which the program may look at, and change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from migrator.analysis import values as v
from migrator.analysis.values import NOTHING, Container, Curried, Site, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_KEYWORDS = "keywords"


def attribute(run: Run, atom: Curried, name: str) -> Value | None:
    if name == "func":
        return atom.function
    if name == "args":
        return v.of(Tuple(atom.args))
    if name != _KEYWORDS:
        return None
    table = _table(run, atom)
    for keyword, value in atom.keywords:
        run.heap.store(table, keyword, value)
    return v.of(table)


def keywords(run: Run, atom: Curried) -> tuple[dict[str, Value], Value]:
    """Those that the function is called with, and others whose names are not seen: `partial.keywords["axis"] = 0` holds
    for later calls, of which each may be."""
    own, others = dict(atom.keywords), NOTHING
    table = _table(run, atom)
    for key in run.heap.fields(table) if run.tree.names.get(_KEYWORDS) else ():
        held = run.heap.load(table, key)
        if isinstance(key, str):
            own[key] = v.join(own[key], held) if key in own else held
        else:
            others = v.join(others, held)
    return own, others


def _table(run: Run, atom: Curried) -> Container:
    return Container("dict", Site(run.tree.modules[0], (hash(atom),)))
