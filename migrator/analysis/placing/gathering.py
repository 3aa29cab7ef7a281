"""All rows put together where a plan, or the user, says so: around an expression, or around the arguments of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.placement import REPLICATED, Local, Sharded, Unknown, options
from migrator.analysis.placing.repairing import by_adding_up, by_gathering
from migrator.analysis.values import NOTHING, Container, Data, Repair, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


class Gathering:
    def __init__(self, run: Run) -> None:
        self.run = run

    def at(self, node: cst.CSTNode, value: Value) -> Value:
        """The value of an expression around which all rows are put together."""
        if not any(not d.is_replicated for d in self.run.objects.leaves(value)):
            self.run.note_plain(node, "sources")
            return value
        args = Arguments([value], nodes={0: node})  # type: ignore[dict-item]
        repair = self.run.placing.repairing.make(args, node, by_gathering, "what follows works on the batch as a whole")
        needs = frozenset((repair,))
        return self._mapped(value, node, lambda d: as_whole(d, needs))

    def arguments(self, args: Arguments, node: cst.CSTNode) -> Arguments:
        """The arguments of a function that is given all rows of the batch instead of a worker's."""
        if not any(not d.is_replicated for _, x in args.all() for d in self.run.objects.leaves(x)):
            self.run.note_plain(node, "calls")
            return args
        repair = self.run.placing.repairing.make(args, node, by_gathering, "it works on the batch as a whole", "call")
        needs = frozenset((repair,))
        return args.mapped(lambda value: self._mapped(value, node, lambda d: as_whole(d, needs)))

    def added_up(self, args: Arguments, node: cst.CSTNode) -> Arguments:
        """The arguments of a function that is given means and sums over the whole batch, where the call gives such,
        and a worker's rows where it gives those."""
        if not any(map(self._adds_up, (x for _, x in args.all()))):
            self.run.note_plain(node, "calls")
            return args
        parts = replace(args, positional=[], keywords={}, rest=NOTHING)
        parts.positional = [x if self._adds_up(x) else NOTHING for x in args.positional]
        parts.keywords = {name: x if self._adds_up(x) else NOTHING for name, x in args.keywords.items()}
        why = "it works on what is made of the batch as a whole"
        repair = self.run.placing.repairing.make(parts, node, by_adding_up, why, "call")
        needs = frozenset((repair,))

        def add_up(data: Data) -> Data:
            return replace(data, placement=REPLICATED, needs=data.needs | needs)

        return args.mapped(lambda x: self._mapped(x, node, add_up) if self._adds_up(x) else x)

    def _adds_up(self, value: Value) -> bool:
        """Whether it is a mean over the batch, or a sum, and all of it is."""
        hows = {by_adding_up(d) for d in self.run.objects.leaves(value)}
        return len(hows) == 1 and None not in hows and all(isinstance(atom, (Container, Tuple)) for atom in value)

    def whole(self, args: Arguments) -> Arguments:
        """The arguments as they are once all rows are put together."""

        def gather(value: Value) -> Value:
            return v.mapped(value, lambda d: as_whole(d, frozenset()))

        return replace(args.mapped(gather), rest=gather(args.rest))

    def _mapped(self, value: Value, node: cst.CSTNode, change: Callable[[Data], Data]) -> Value:
        """The value with its data changed, in lists and dictionaries of its own."""
        objects = frozenset(self._changed(atom, node, change) for atom in value)
        return Value(change(value.data) if value.data is not None else None, objects)

    def _changed(self, atom: v.Atom, node: cst.CSTNode, change: Callable[[Data], Data]) -> v.Atom:
        if isinstance(atom, Tuple):
            return Tuple(tuple(self._mapped(item, node, change) for item in atom.items))
        if not isinstance(atom, Container) or all(d.is_replicated for d in self.run.objects.leaves(v.of(atom))):
            return atom
        copy = Container(atom.kind, v.Site(node, (id(atom.site.node), *atom.site.context)))
        for key in self.run.heap.fields(atom):
            self.run.heap.store(copy, key, self._mapped(self.run.heap.load(atom, key), node, change))
        return copy


def as_whole(data: Data, needs: frozenset[Repair]) -> Data:
    if data.is_replicated or isinstance(data.placement, (Unknown, Local)):
        return data
    is_rows = any(isinstance(p, Sharded) for p in options(data.placement))
    return replace(data, placement=REPLICATED, whole=is_rows, needs=data.needs | needs)
