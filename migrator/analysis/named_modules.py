"""Modules that a program asks for by their names: `import __main__`, `sys.modules[name]`, `import_module("steps")`.

What it puts into them is set from outside, as by `steps.loss = f` where that is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import namespaces
from migrator.analysis import values as v
from migrator.analysis.values import NOTHING, NUMBER, External, File, Value
from migrator.facts.names import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run

MAIN = "__main__"
FRAMES = frozenset({"f_globals", "f_locals"})  # names of whichever function runs, or of its file
_ANY = External("python.any_module")


def named(run: Run, name: Value, node: cst.CSTNode) -> Value:
    """The module of that name: a file of the program, or of another library; one that is not seen may be any."""
    text = name.constant
    if isinstance(text, str) and text:
        return told(run, text, node)
    return v.join(NUMBER, v.of(_ANY))


def told(run: Run, name: str, node: cst.CSTNode) -> Value:
    own = run.tree.module_of(node) if node in run.tree.order else None
    if own is None:
        return NUMBER  # a package asks for it
    if name == MAIN:  # also what `__name__` is in each file
        return v.join_all(v.of(File(module)) for module in dict.fromkeys((own, *run.imports.started)))
    module = run.imports.modules.named(own, name)
    return v.of(File(module) if module is not None else External(api.canonical(name)))


def of_path(run: Run, path: str, node: cst.CSTNode) -> Value:
    """What a dotted path leads to, in the longest part of it that is a module: `steps.Trainer`."""
    parts = path.split(".")
    own = run.tree.module_of(node) if node in run.tree.order else None
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if own is not None and (name == MAIN or run.imports.modules.named(own, name) is not None):
            found = told(run, name, node)
            for part in parts[count:]:
                found = run.objects.attribute(found, part, node)
            return found
    return v.of(External(api.canonical(path)))


def files(run: Run) -> Value:
    """Whichever file of the program it is."""
    return v.join_all(v.of(File(module)) for module in run.tree.modules)


def names_of_frame(run: Run, node: cst.CSTNode) -> Value:
    """`sys._getframe().f_globals`: of which file's code the frame is, is not seen."""
    return namespaces.of(files(run)) if node in run.tree.order else NUMBER


def is_any(external: External) -> bool:
    return external == _ANY


def set_in_any(run: Run, name: str, value: Value, node: cst.CSTNode) -> None:
    """Gives the value to whichever file has such a name."""
    for module in run.tree.modules:
        frame = run.frames.get(module)
        if frame is not None and (frame.names or {}).get(name, NOTHING) is not NOTHING:
            run.objects.store_attribute(v.of(File(module)), name, value, node)
