"""Random numbers: of generators that a script makes with a seed, and of NumPy's common one.

All workers draw the same, as long as all draw equally many. So what is drawn for the rows of a worker is drawn for the
whole batch, of which the worker takes its rows: then it gets the very numbers that one device does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import Op
from migrator.analysis.ops.making import Draws
from migrator.analysis.placement import Shape
from migrator.analysis.values import Made, Site, Value
from migrator.facts.names import api
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.frames import Frame
    from migrator.analysis.run import Run

_NUMPY = "numpy.random."
# Methods of generators that draw as a function of another name does.
_LIKE = {"numpy.random.integers": "numpy.random.randint"}
# What these take besides, and that has nothing to do with where the numbers stand.
_BESIDES = ("dtype", "endpoint", "shuffle")
_OF_TENSORFLOW = {
    f"tensorflow.random.{name}": Op(f"tensorflow.random.Generator.{name}", ("shape", *more, "dtype"), Draws(), "draws")
    for name, more in (
        ("normal", ("mean", "stddev")),
        ("truncated_normal", ("mean", "stddev")),
        ("uniform", ("minval", "maxval")),
    )
}


def make(run: Run, path: str, node: cst.CSTNode, frame: Frame) -> Value:
    return v.of(Made(path, Site(node, frame.context)))


def is_generator(atom: v.Atom) -> bool:
    return isinstance(atom, Made) and atom.path in api.GENERATORS


def method(run: Run, atom: Made, name: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """What a method of a generator draws; None for others."""
    path = f"{api.GENERATORS[atom.path]}.{name}"
    row = _OF_TENSORFLOW.get(path) if path.startswith("tensorflow.") else _numpy_row(_LIKE.get(path, path))
    if row is None:
        return None
    besides = [each for each in _BESIDES if each not in row.parameters]
    return _drawn(run, replace(row, parameters=(*row.parameters, *besides)), args, node)


def function(run: Run, path: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """What a function of NumPy's draws from the common generator; None for others."""
    row = _numpy_row(path)
    return _drawn(run, row, args, node) if row is not None else None


def _numpy_row(path: str) -> Op | None:
    row = ops.lookup(path) if path.startswith(_NUMPY) else None
    return row if row is not None and isinstance(row.kind, Draws) else None


def _drawn(run: Run, row: Op, args: Arguments, node: cst.CSTNode) -> Value:
    if row.parameters[:1] == ("*shape",) and args.starred is not None and not args.positional:
        place, value = args.starred
        if value.data is not None and isinstance(value.data.placement, Shape):  # `np.random.rand(*x.shape)`
            row = replace(row, parameters=("shape",))
            args = Arguments([value], args.keywords, nodes={0: place})
    return run.placing.place(row, row.path, args, node)
