"""All rows put together where a plan, or the user, says so: around an expression, or around the arguments of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.placement import REPLICATED, Local, Sharded, Unknown, options
from migrator.analysis.placing.repairing import by_gathering
from migrator.analysis.values import Container, Data, Repair, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


class Gathering:
    def __init__(self, run: Run) -> None:
        self.run = run

    def at(self, node: cst.CSTNode, value: Value) -> Value:
        """The value of an expression around which all rows are put together."""
        if not any(not d.is_replicated for d in self.run.objects.leaves(value)):
            self.run.plain_now.sources.add(node)
            return value
        args = Arguments([value], nodes={0: node})  # type: ignore[dict-item]
        repair = self.run.placing.repairing.make(args, node, by_gathering, "what follows works on the batch as a whole")
        needs = frozenset((repair,))
        return v.mapped(self._copied(value, node), lambda d: _as_whole(d, needs))

    def arguments(self, args: Arguments, node: cst.CSTNode) -> Arguments:
        """The arguments of a function that is given all rows of the batch instead of a worker's."""
        if not any(not d.is_replicated for _, x in args.all() for d in self.run.objects.leaves(x)):
            self.run.plain_now.calls.add(node)
            return args
        repair = self.run.placing.repairing.make(args, node, by_gathering, "it works on the batch as a whole", "call")
        needs = frozenset((repair,))

        def gather(value: Value) -> Value:
            return v.mapped(self._copied(value, node), lambda d: _as_whole(d, needs))

        return args.mapped(gather)

    def whole(self, args: Arguments) -> Arguments:
        """The arguments as they are once all rows are put together."""

        def gather(value: Value) -> Value:
            return v.mapped(value, lambda d: _as_whole(d, frozenset()))

        return replace(args.mapped(gather), rest=gather(args.rest))

    def _copied(self, value: Value, node: cst.CSTNode) -> Value:
        """The value with lists and dictionaries of its own, which hold the same."""
        objects: set[v.Atom] = set()
        for atom in value:
            if isinstance(atom, Container) and any(not d.is_replicated for d in self.run.objects.leaves(v.of(atom))):
                copy = Container(atom.kind, v.Site(node, (id(atom.site.node), *atom.site.context)))
                for key in self.run.heap.fields(atom):
                    held = self.run.heap.load(atom, key)
                    self.run.heap.store(copy, key, v.mapped(held, lambda d: _as_whole(d, frozenset())))
                objects.add(copy)
            else:
                objects.add(atom)
        return Value(value.data, frozenset(objects))


def _as_whole(data: Data, needs: frozenset[Repair]) -> Data:
    if data.is_replicated or isinstance(data.placement, (Unknown, Local)):
        return data
    is_rows = any(isinstance(p, Sharded) for p in options(data.placement))
    return replace(data, placement=REPLICATED, whole=is_rows, needs=data.needs | needs)
