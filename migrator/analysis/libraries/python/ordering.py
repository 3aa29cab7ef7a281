"""What is put in an order, or picked, by what it is: heaps, `sort`, `min` and `max`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.placement import Partial
from migrator.analysis.values import NONE, NOTHING, NUMBER, Container, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_COMPARING = "python.comparing"


def ordered(run: Run, item: Value, key: Value | None, node: cst.CSTNode, frame: Frame) -> Value:
    """The item where what it is settles its place, or what the key makes of it: a worker's own numbers put it elsewhere
    than those of all."""
    if item is NOTHING:
        return NOTHING
    settling = _settling(run, item, key, node, frame) if key is not None and key.objects else item
    leaves = list(run.objects.leaves(settling))
    apart = [d for d in leaves if (not d.is_replicated if settling is not item else isinstance(d.placement, Partial))]
    if apart:
        return run.placing.opaque([item, settling], "its place among others is settled by what it is")
    return v.with_needs(item, frozenset(repair for d in leaves for repair in d.needs))


def _settling(run: Run, item: Value, key: Value, node: cst.CSTNode, frame: Frame) -> Value:
    """What the key makes of the item, or of two of them, which it compares."""
    comparing = frozenset(atom for atom in key if isinstance(atom, Made) and atom.path == _COMPARING)
    found = [run.calls.call(run.heap.load(atom, 0), Arguments([item, item]), node, frame) for atom in comparing]
    others = key.objects - comparing
    if others:
        found.append(run.calls.call(Value(key.data, others), Arguments([item]), node, frame))
    return v.join_all(found)


def picked(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """The one of several objects that `min` or `max` picks; None for numbers and all other functions."""
    if path not in ("builtins.min", "builtins.max") or len(args.positional) != 1 or args.rest is not NOTHING:
        return None
    key = args.keywords.get("key")
    is_by_key = key is not None and bool(key.objects)
    items = run.objects.elements(args.positional[0], node, node) if is_by_key or args.positional[0].objects else NOTHING
    return ordered(run, items, key, node, frame) if items.objects or is_by_key else None


def _sorted(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    value = args.positional[0] if args.positional else NOTHING
    made = Container("list", Site(node, frame.context))
    if value is NOTHING:
        return v.of(made)
    key = args.keywords.get("key")
    counts = [d for atom in value for turns in run.turns.get(atom, ()) for d in v.contents(turns)]
    if key is not None and key.objects and not all(d.is_replicated for d in counts):
        return v.unseen("an order of the numbers of a worker's rows tells of these alone")
    items = run.objects.sequence_items(value)
    anywhere = v.join_all(items) if items is not None else run.objects.elements(value, node, node)
    item = ordered(run, anywhere, key, node, frame)
    for place in range(len(items)) if items is not None else (None,):
        run.heap.store(made, place, item)
    return v.of(made)


def _comparing(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`functools.cmp_to_key(function)`"""
    made = Made(_COMPARING, Site(node, frame.context))
    run.heap.store(made, 0, args.positional[0] if args.positional else args.get("mycmp", 0) or NOTHING)
    return v.of(made)


def _push(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`heapq.heappush(heap, item)`"""
    for atom in args.positional[0] if len(args.positional) > 1 else ():
        run.heap.store(atom, None, ordered(run, args.positional[1], args.keywords.get("key"), node, frame))
    return NONE


def _pop(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`heapq.heappop(heap)`, after an item was pushed where one is given."""
    _push(run, args, node, frame)
    return run.objects.parts(args.positional[0]) if args.positional else NUMBER


FUNCTIONS: dict[str, Handler] = {
    "builtins.sorted": _sorted,
    "functools.cmp_to_key": _comparing,
    "heapq.heappush": _push,
    "heapq.heappop": _pop,
    "heapq.heappushpop": _pop,
    "heapq.heapreplace": _pop,
    "bisect.insort": _push,
    "bisect.insort_left": _push,
    "bisect.insort_right": _push,
}
