"""Objects of the program behind what a library makes of them: a reference, a proxy, a store, a method that is bound.

What no table knows may give the object that it is given, or keep it and give it later, or call its methods with all
else that it is given. So what comes of it may be that object wherever it is asked for what the object has, and what the
methods of the object set may be made of whatever such a call is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.libraries.python import holders
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import (
    NOTHING,
    Bound,
    Container,
    Curried,
    Data,
    Instance,
    Made,
    Method,
    Site,
    Tuple,
    Value,
)
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.calls import Arguments
    from migrator.analysis.frames import Frame
    from migrator.analysis.run import Run

_DEEPEST = 4
_KEPT = "kept"  # by what a library has made, of what its methods were given
# What these make of an object, a layer or a model, is known by other means.
_WITH_OBJECTS = ("tensorflow.", "keras.")
_NONE: frozenset[Instance] = frozenset()


def given(run: Run, values: Iterable[Value], depth: int = 0) -> frozenset[Instance]:
    """The objects of the program's classes that are in the values, or behind them."""
    found: set[Instance] = set()
    for value in values:
        if value.data is not None:
            found |= value.data.behind
        for atom in value:
            if isinstance(atom, Instance):
                bases = run.classes.external_bases(atom.cls)
                found.update(() if any(path.startswith(_WITH_OBJECTS) for path in bases) else (atom,))
            elif depth < _DEEPEST:
                found |= given(run, _held_by(run, atom), depth + 1)
    return frozenset(found) if found else _NONE


def _held_by(run: Run, atom: v.Atom) -> Iterable[Value]:
    if isinstance(atom, Tuple):
        return atom.items
    if isinstance(atom, Bound):
        return (atom.receiver,)
    if isinstance(atom, Curried):
        return (atom.function, *atom.args, *(value for _, value in atom.keywords))
    if isinstance(atom, Method):
        return (atom.owner,)
    if isinstance(atom, Container) or (isinstance(atom, Made) and holders.is_python(atom)):
        return [run.heap.load(atom, key) for key in (None, *run.heap.fields(atom))]
    return ()


def behind(value: Value, objects: frozenset[Instance]) -> Value:
    """The value, behind whose data these objects may be, too."""
    if value.data is None or objects <= value.data.behind:
        return value
    return Value(replace(value.data, constant=NOT_CONSTANT, behind=value.data.behind | objects), value.objects)


# -- what is asked of them ------------------------------------------------------------------------------------------


def without(run: Run, objects: Iterable[Instance], name: str) -> list[Instance]:
    """Those of the objects that have nothing under the name."""
    return [atom for atom in objects if not _has(run, atom, name)]


def _has(run: Run, atom: Instance, name: str) -> bool:
    return run.classes.of_class(atom.cls, name) is not None or run.heap.load(atom, name) is not NOTHING


def attribute(run: Run, data: Data, name: str, node: cst.CSTNode) -> Value:
    """What those of the objects have under the name that have it."""
    found = NOTHING
    for atom in data.behind:
        if _has(run, atom, name):
            found = v.join(found, run.objects.attribute(v.of(atom), name, node))
    return found


def called(run: Run, data: Data, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What those of the objects give that can be called."""
    own = [atom for atom in data.behind if run.classes.method(atom, "__call__") is not None]
    return v.join_all(run.calls.instance(atom, args, node, frame) for atom in own)


def item(run: Run, data: Data, index: Value, node: cst.Subscript) -> Value:
    own = [atom for atom in data.behind if run.classes.method(atom, "__getitem__") is not None]
    return v.join_all(run.objects.item(v.of(atom), index, node) for atom in own)


def elements(run: Run, data: Data, reader: cst.CSTNode, node: cst.CSTNode) -> Value:
    own = [a for a in data.behind if any(run.classes.method(a, name) is not None for name in ("__iter__", "__next__"))]
    return v.join_all(run.objects.elements(v.of(atom), reader, node) for atom in own)


# -- what is done to them -------------------------------------------------------------------------------------------


def keep(run: Run, maker: cst.CSTNode | None, args: Arguments) -> None:
    """Notes the objects that a method is given of what a library has made there: it may give them later."""
    objects = given(run, (value for _, value in args.all()))
    if objects and maker is not None:
        run.heap.store(_store(maker), _KEPT, behind(Value(Data()), objects))


def kept(run: Run, maker: cst.CSTNode | None) -> frozenset[Instance]:
    held = run.heap.load(_store(maker), _KEPT) if maker is not None else NOTHING
    return held.data.behind if held.data is not None else _NONE


def _store(maker: cst.CSTNode) -> Made:
    return Made("", Site(maker, ()))


def may_change(run: Run, objects: Collection[Instance], args: Arguments, node: cst.CSTNode) -> None:
    """What nobody knows may call the methods of the objects with all else that it is given."""
    if not objects:
        return
    others = args.mapped(lambda value: Value(value.data, frozenset(a for a in value if not isinstance(a, Instance))))
    leaves = [d for _, value in others.all() for d in run.objects.leaves(value)]
    if all(d.is_replicated and not d.needs for d in leaves):
        return
    made = v.mapped(run.placing.unknown(others, node), lambda d: replace(d, whole=False, behind=_NONE))
    for atom in objects:
        for name in run.classes.set_by_methods(atom.cls):
            held = run.heap.load(atom, name)
            if held.data is not None:
                run.heap.store(atom, name, made)
            for inner in held:
                if isinstance(inner, Container):
                    run.heap.store(inner, None, made)
