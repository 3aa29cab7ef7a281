"""Objects of Python's that hold what a program puts into them: by attributes of any name, or by their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.values import NOTHING, Instance, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_NAMESPACES = frozenset({"types.SimpleNamespace", "types.ModuleType", "threading.local"})
_STORES = frozenset({
    "contextvars.ContextVar", "queue.Queue", "queue.LifoQueue", "queue.PriorityQueue", "queue.SimpleQueue",
})  # fmt: skip
_PUTTING, _GETTING = frozenset({"set", "put", "put_nowait"}), frozenset({"get", "get_nowait"})
_STORED = "stored"


def is_namespace(atom: v.Atom) -> bool:
    """Whether any attribute of it is what the program has put there."""
    return isinstance(atom, Made) and atom.path in _NAMESPACES


def is_python(atom: Made) -> bool:
    """Whether it is an object of Python's that holds what it is made with, or what is put into it."""
    return atom.path.startswith("python.") or atom.path in _NAMESPACES or atom.path in _STORES


def is_store(atom: v.Atom) -> bool:
    return isinstance(atom, Made) and atom.path in _STORES


def method(run: Run, atom: Made, name: str, args: Arguments) -> Value:
    """What a method takes out that differs from worker to worker; nothing for others."""
    if name in _PUTTING and args.positional:
        run.heap.store(atom, _STORED, args.positional[0])
    stored = run.heap.load(atom, _STORED) if name in _GETTING else NOTHING
    is_apart = any(not d.is_replicated or d.needs for d in run.objects.leaves(stored))
    return stored if is_apart or any(isinstance(a, Instance) for a in stored) else NOTHING


def _make(path: str) -> Handler:
    def make(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Made(path, Site(node, frame.context))
        for name, value in args.keywords.items() if path in _NAMESPACES else ():
            run.heap.store(made, name, value)
        if args.rest is not NOTHING and path in _NAMESPACES:  # `SimpleNamespace(**batch)`
            run.heap.store(made, None, args.rest)
        return v.of(made)

    return make


FUNCTIONS: dict[str, Handler] = {path: _make(path) for path in (*_NAMESPACES, *_STORES)}
