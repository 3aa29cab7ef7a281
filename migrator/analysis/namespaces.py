"""`vars(obj)`, `obj.__dict__`, `globals()`: what an object or a file holds, as a dictionary by its names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.values import NONE, NOTHING, Atom, Container, Data, File, Instance, Made, Method, Value

if TYPE_CHECKING:
    from migrator.analysis.calls import Arguments
    from migrator.analysis.run import Run

ATTRIBUTE = "__dict__"


def of(owner: Value) -> Value:
    return v.of(Method(owner, ATTRIBUTE))


def is_namespace(atom: Atom) -> bool:
    return isinstance(atom, Method) and atom.name == ATTRIBUTE


def item(run: Run, namespace: Method, key: Value, node: cst.CSTNode) -> Value:
    if isinstance(key.constant, str):
        return run.objects.attribute(namespace.owner, key.constant, node)
    return _everything(run, namespace)


def store(run: Run, namespace: Method, key: Value, value: Value, node: cst.CSTNode) -> None:
    if isinstance(key.constant, str):
        run.objects.store_attribute(namespace.owner, key.constant, value, node)
    else:
        run.redefined.store_somewhere(namespace.owner, value, node)


def method(run: Run, namespace: Method, name: str, args: Arguments, node: cst.CSTNode) -> Value:
    given = args.positional
    if name == "update":
        for key, value in args.keywords.items():
            store(run, namespace, v.constant(key), value, node)
        for source in given:
            fill(run, namespace.owner, source, node)
        return NONE
    if name in ("__setitem__", "setdefault") and len(given) > 1:
        store(run, namespace, given[0], given[1], node)
    if name in ("get", "pop", "setdefault", "__getitem__") and given:
        return v.join_all([item(run, namespace, given[0], node), *given[1:]])
    held = _everything(run, namespace)
    return (
        run.placing.opaque([held, *given], "what this method gives is not known") if held is not NOTHING else v.NUMBER
    )


def fill(run: Run, owner: Value, source: Value, node: cst.CSTNode) -> None:
    """The attributes of an object are, or are joined by, what a dictionary holds: `obj.__dict__ = source`."""
    for atom in source:
        if isinstance(atom, Container):
            for key in run.heap.fields(atom):
                if isinstance(key, str):
                    run.objects.store_attribute(owner, key, run.heap.load(atom, key), node)
            run.redefined.store_somewhere(owner, run.heap.load(atom, None).without_data(), node)
    if source.data is not None or any(not isinstance(a, Container) or None in run.heap.fields(a) for a in source):
        _fill_unnamed(run, owner, source, node)


def _fill_unnamed(run: Run, owner: Value, source: Value, node: cst.CSTNode) -> None:
    """Under which names the object holds it is not seen: settings, where all workers have the same."""
    is_agreed = all(d.is_replicated and not d.needs for d in run.objects.leaves(source))
    if is_agreed and not any(isinstance(atom, (Instance, Made)) for atom in source):
        rest = Value(Data(nested=True))
    else:
        rest = v.unseen("under which names an object holds what it is given by a dictionary is not seen")
        for name in [name for name, _ in _held(run, Method(owner, ATTRIBUTE))]:
            run.objects.store_attribute(owner, name, rest, node)
    for atom in owner:
        if isinstance(atom, Instance):
            run.heap.store(atom, ATTRIBUTE, rest)


def _everything(run: Run, namespace: Method) -> Value:
    return v.join_all(value for _, value in _held(run, namespace))


def _held(run: Run, namespace: Method) -> Iterator[tuple[str, Value]]:
    for atom in namespace.owner:
        if isinstance(atom, (Instance, Made)):
            yield from ((k, run.heap.load(atom, k)) for k in run.heap.fields(atom) if isinstance(k, str))
        elif isinstance(atom, File):
            frame = run.frames.get(atom.module)
            names = frame.names if frame is not None and frame.names is not None else {}
            yield from ((name, value) for name, value in names.items() if value.data is not None)
