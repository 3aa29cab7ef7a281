"""What a dictionary does for keys that it has not met: what its factory or `__missing__` changes besides, it may have
changed at any later read. That of a program's own class that derives from a library's, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.values import NOTHING, Instance, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

DEFAULTDICT = "collections.defaultdict"
FACTORY = "default_factory"


def run_factory(run: Run, factory: Value | None, node: cst.CSTNode, frame: Frame) -> Value:
    """What it gives for a key that is not there."""
    if factory is None or not factory.objects:
        return NOTHING
    return run.calls.call(factory, Arguments([]), node, frame)


def made_with(run: Run, made: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
    """Runs the factory that the constructor of a library's class is given for an object of a class that derives from
    it: its first argument."""
    if isinstance(made, Instance) and DEFAULTDICT in run.classes.external_bases(made.cls):
        run_factory(run, args.get(FACTORY, 0), node, frame)


def initialised(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`defaultdict.__init__(self, factory)`"""
    run_factory(run, args.get(FACTORY, 1), node, frame)
    return v.NONE


def missing(run: Run, atom: Instance, index: Value, node: cst.CSTNode) -> Value:
    """What `table[key]` gives by the class's `__missing__`."""
    method = run.classes.method(atom, "__missing__")
    if method is None:
        return NOTHING
    return run.calls.call(method, Arguments([index]), node, run.frames[run.tree.module_of(atom.cls.node)])
