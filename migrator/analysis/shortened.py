"""Lists of numbers that lose some of them, in place or as a slice: `axes = list(range(n)); del axes[0]`.

What lists hold is joined over the whole run. A list that one name alone holds becomes another one where it loses items;
of every other one nothing more is known than that its items are some of those that it ever held.

A list holds the items 0, 1, … that are known one by one, as far as it is that long, and under None those behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import NOTHING, Atom, Container, Site, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def is_of_numbers(run: Run, atom: Atom) -> bool:
    """Whether it is a list of numbers that all workers have."""
    if not isinstance(atom, Container) or atom.kind != "list":
        return False
    held = [run.heap.load(atom, key) for key in run.heap.fields(atom)]
    return bool(held) and all(
        x.data is not None and not x.objects and x.data.rank == 0 and x.data.is_replicated and not x.data.needs
        for x in held
    )


def begins_at_zero(run: Run, atom: Container) -> bool:
    """Whether it counts from zero to a number that is not known."""
    is_list = atom.kind in ("list", "iterator") and {None, 0} <= set(run.heap.fields(atom))
    rest = run.heap.load(atom, None).data
    return is_list and run.heap.load(atom, 0).constant == 0 and rest is not None and rest.is_positive


def without_item(run: Run, atom: Container, index: Value, owner: cst.CSTNode, node: cst.CSTNode, frame: Frame) -> None:
    """`del axes[index]`, `axes.pop(index)`"""
    items, rest = _held(run, atom)
    bounds = index.constant
    if not isinstance(bounds, v.Slice):
        items, rest = _less_one(items, rest, bounds)
    elif (bounds.lower, bounds.step) in ((None, None), (0, None)) and _is_from_front(bounds.upper):
        items = items[bounds.upper or 0 :]
    else:
        scatter(run, atom)
        return
    _becomes(run, atom, items, rest, owner, node, frame)


def without_number(
    run: Run, atom: Container, number: Value, owner: cst.CSTNode, node: cst.CSTNode, frame: Frame
) -> None:
    """`axes.remove(number)`"""
    items, rest = _held(run, atom)
    constants = [item.constant for item in items]
    known = NOT_CONSTANT not in (number.constant, *constants)
    at = constants.index(number.constant) if known and number.constant in constants else len(items)
    items, rest = _less_one(items, rest, at if known else NOT_CONSTANT)
    _becomes(run, atom, items, rest, owner, node, frame)


def part_of(run: Run, atom: Container, bounds: v.Slice, node: cst.CSTNode) -> Value:
    """`axes[1:]`: another list."""
    items, rest = _held(run, atom)
    made = _site(atom, node)
    known = isinstance(bounds, v.Slice) and NOT_CONSTANT not in (bounds.lower, bounds.upper, bounds.step)
    if known and rest is NOTHING:
        items = items[slice(bounds.lower, bounds.upper, bounds.step)]
    elif isinstance(bounds, v.Slice) and bounds.step is None and _is_from_front(bounds.lower):
        items = items[bounds.lower or 0 :]
        if bounds.upper is not None:
            items, rest = [], v.join_all([*items, rest])
    else:
        items, rest = [], v.join_all([*items, rest])
    _fill(run, made, items, rest)
    return v.of(made)


def _is_from_front(lower: object) -> bool:
    return lower is None or (isinstance(lower, int) and lower >= 0)


def scatter(run: Run, atom: Container) -> None:
    """Any of its numbers may stand anywhere, or be gone."""
    items, rest = _held(run, atom)
    run.heap.store(atom, None, v.join_all([*items, rest]))


def _held(run: Run, atom: Container) -> tuple[list[Value], Value]:
    keys = [key for key in run.heap.fields(atom) if key is not None]
    rest = run.heap.load(atom, None)
    if sorted(k for k in keys if isinstance(k, int)) != list(range(len(keys))):
        return [], v.join_all([rest, *(run.heap.load(atom, key) for key in keys)])
    return [run.heap.load(atom, i) for i in range(len(keys))], rest


def _less_one(items: list[Value], rest: Value, at: object) -> tuple[list[Value], Value]:
    if isinstance(at, int) and at < 0:
        at = at + len(items) if rest is NOTHING else len(items) if at == -1 else NOT_CONSTANT
    if isinstance(at, int):
        return [item for i, item in enumerate(items) if i != at], rest
    moved = [*items[1:], rest]
    found = [v.join(item, behind) for item, behind in zip(items, moved)]
    return found[:-1] if rest is NOTHING else found, rest


def _becomes(
    run: Run, atom: Container, items: list[Value], rest: Value, owner: cst.CSTNode, node: cst.CSTNode, frame: Frame
) -> None:
    names = frame.names or {}
    name = owner.value if isinstance(owner, cst.Name) else ""
    if atom.site.node is node or name not in names or any(other != name for other in _holders(run, atom, frame)):
        scatter(run, atom)
        return
    made = _site(atom, node)
    _fill(run, made, items, rest)
    names[name] = Value(names[name].data, (names[name].objects - {atom}) | {made})


def _holders(run: Run, atom: Container, frame: Frame) -> Iterator[str]:
    """The names of the frame that hold the list; nameless, all else that does."""
    sought = frozenset((atom,))
    frames = {*run.running}
    outer: Frame | None = frame
    while outer is not None:
        frames.add(outer)
        outer = outer.parent
    for other in frames:
        for name, value in (other.names or {}).items():
            if _holds(value, sought):
                yield name if other is frame and atom in value.objects else ""
    for _, value in run.heap.held():
        if _holds(value, sought):
            yield ""


def _holds(value: Value, sought: frozenset[Atom]) -> bool:
    """Whether it is one of these, or a tuple holds it. Two sets know the hashes of what is in them: that of an object
    takes long to find, and all values of the program are asked."""
    objects = value.objects
    return bool(objects) and (
        not objects.isdisjoint(sought)
        or any(_holds(item, sought) for o in objects if isinstance(o, Tuple) for item in o.items)
    )


def _site(atom: Container, node: cst.CSTNode) -> Container:
    return Container("list", Site(node, (*atom.site.context, id(atom.site.node))))


def _fill(run: Run, made: Container, items: list[Value], rest: Value) -> None:
    for i, item in enumerate(items):
        run.heap.store(made, i, item)
    if rest is not NOTHING:
        run.heap.store(made, None, rest)
