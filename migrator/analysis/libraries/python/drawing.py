"""What `random` draws from lists: any of their items, the same ones on all workers, whose lists are equally long."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.values import NOTHING, Container, Data, Site, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_ONE, _SEVERAL = "choice", frozenset({"sample", "choices"})


def drawn(run: Run, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What the function or method of that name draws from a list or tuple; nothing for all others."""
    given = args.get("population" if name in _SEVERAL else "seq", 0)
    if given is not None and isinstance(given.only, Container) and given.only in run.turns:
        given = _of_all(run, given.only)
    is_list = given is not None and given.data is None and bool(given.objects)
    if given is None or not is_list or not all(isinstance(a, Tuple) or _is_list(a) for a in given):
        return NOTHING
    how = (d for _, value in args.all() if value is not given for d in run.objects.leaves(value))
    if any(not d.is_replicated or d.needs for d in how):
        return NOTHING  # which ones are drawn, or how many
    item = run.objects.parts(given)
    if name == _ONE or item is NOTHING:
        return item
    made = Container("list", Site(node, frame.context))
    run.heap.store(made, None, item)
    return v.of(made)


def _of_all(run: Run, numbers: Container) -> Value:
    """A list of the numbers of a `range`, where what settles how many there are is that of all rows."""
    call = numbers.site.node
    nodes = [arg.value for arg in call.args] if isinstance(call, cst.Call) else []
    bounds = [run.placing.repairing.agreed(node, value) for node, value in zip(nodes, run.turns[numbers])]
    needs = frozenset(r for bound in bounds for d in v.contents(bound) for r in d.needs)
    made = Container("list", numbers.site)
    run.heap.store(made, None, Value(Data(rank=0, needs=needs)))
    return v.of(made)


def _is_list(atom: v.Atom) -> bool:
    return isinstance(atom, Container) and atom.kind == "list"


def _function(name: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        found = drawn(run, name, args, node, frame)
        return found if found is not NOTHING else run.libraries.unread(f"random.{name}", args, node, frame)

    return handler


FUNCTIONS: dict[str, Handler] = {f"random.{name}": _function(name) for name in (_ONE, *_SEVERAL)}
