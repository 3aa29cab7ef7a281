"""Repairs: what has to be put together of the values that a call is given, and why that cannot be where it cannot.

What is made of sums and means over a worker's rows, and of their number, is right once those are of all rows; what is
made of rows once all rows are there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Optional

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.callables import is_called
from migrator.analysis.calls import Arguments
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import REPLICATED, ROWS, Partial, Scaled, Sharded, Unknown, options
from migrator.analysis.values import Data, Operand, Repair, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# They make a list of an array.
_LISTING = frozenset(v.External(path) for path in ("builtins.list", "builtins.tuple", "collections.deque"))
_CHANGING = frozenset({"pop", "popitem", "setdefault", "update", "clear", "append", "extend", "insert", "remove"})
IN_PARTS = "its parts stand in different ways"
MIXED = "on another way all workers have the same there, which would count several times"
ROUNDED = "it is a multiple of the number of rows that is rounded, and of each worker's otherwise"

# How data are put together: what the `how` of their operand says; None for what stays as it is.
How = Callable[[Data], Optional[str]]


def by_adding_up(data: Data) -> str | None:
    return data.placement.reduction if isinstance(data.placement, Partial) else None


def by_reducing(data: Data) -> str | None:
    if data.placement == ROWS:
        return "sum"
    return "unknown" if isinstance(data.placement, Scaled) else by_adding_up(data)


def by_gathering(data: Data) -> str | None:
    if any(isinstance(p, Sharded) for p in options(data.placement)):
        return "gather"
    return by_reducing(data)


def is_result(node: cst.CSTNode) -> bool:
    """Whether it is `metric.result()`, and not the metric that is called."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "result"


class Repairing:
    def __init__(self, run: Run) -> None:
        self.run = run
        # Why nothing can be written into the code that runs; empty where it can.
        self.blocked = ""
        # Whether it would do what it must not there.
        self.is_barred = False

    @contextmanager
    def ruled_out(self, why: str, *, is_barred: bool = True) -> Iterator[None]:
        """While code runs into which nothing can be written; the outermost reason is told. Not `is_barred`: what is
        written there for the sake of others does nothing."""
        before = self.blocked, self.is_barred
        self.blocked, self.is_barred = self.blocked or why, self.is_barred or is_barred
        try:
            yield
        finally:
            self.blocked, self.is_barred = before

    def make(
        self,
        args: Arguments,
        node: cst.CSTNode,
        how: How,
        why: str,
        form: str = "whole",
        *,
        ordered: bool = True,
        exact: bool = False,
    ) -> Repair:
        """The repair that puts together what is given at the node, which is noted. Not `ordered`: its rows may come in
        any order, the same for all arguments. `exact`: sums must not differ by rounding."""
        found: set[Operand] = set()
        blocked = self.blocked
        for place, value in args.written():
            blocked = self.wrap(place, value, how, found, ordered=ordered) or blocked
            if exact and any(d.multiple_of for d in self.run.objects.leaves(value)):
                blocked = blocked or ROUNDED
        repair = Repair(node, frozenset(found), why, blocked, form)
        if blocked:
            self.run.lost_at[node].update(n for n, x in args.written() if n is not None)
        self.run.note_repair(repair)
        return repair

    def wrap(
        self, node: cst.BaseExpression | None, value: Value, how: How, found: set[Operand], *, ordered: bool = True
    ) -> str:
        """Adds what has to be wrapped of an argument; returns why that cannot be."""
        leaves = list(self.run.objects.leaves(value))
        hows = {how(d) for d in leaves} - {None}
        if not hows:
            return ""
        if node is None:
            return "what it takes is not written where it is called"
        items = self.run.objects.sequence_items(value)
        if items is not None and isinstance(node, (cst.Tuple, cst.List)) and len(items) == len(node.elements):
            blocked = ""
            for element, item in zip(node.elements, items):
                blocked = self.wrap(element.value, item, how, found, ordered=ordered) or blocked
            return blocked
        if any(d.symbolic for d in leaves):
            return "it is part of a model that is built of Keras tensors"
        if len(hows) > 1 or any(how(d) is None for d in leaves):
            return IN_PARTS
        if "unknown" in hows:
            return "it is divided or multiplied by the number of rows that a worker has"
        if any(d.masked for d in leaves):
            return "Keras carries a mask along with it"
        cuts = [p for d in leaves for p in options(d.placement) if isinstance(p, Sharded)]
        if any(cut.axis != 0 for cut in cuts):
            return "the samples do not lie along its first axis"
        if ordered and any(cut.blocks > 1 for cut in cuts):
            return "it is made of several batches, one behind the other"
        how_put = str(hows.pop())
        if how_put in ("gather", "sum") and any(d.mixed for d in leaves):
            return MIXED
        if how_put == "gather" and isinstance(node, cst.Name) and is_called(self.run, node):
            return "it is called as a function, and no rows of a batch"
        if how_put == "gather" and self._is_changed(node):
            return "a method changes it, and what is put together is a copy"
        array = self.unlisted(node) if how_put == "gather" else node
        if how_put == "gather" and array is node and any(d.listed for d in leaves):
            return "it is a list of Python's, which is gathered item by item"
        found.add(Operand(array, how_put))
        return ""

    def _is_changed(self, node: cst.BaseExpression) -> bool:
        """Whether a method of dictionaries or lists is called here that changes them."""
        attribute = self.run.tree.parent.get(node)
        if not isinstance(attribute, cst.Attribute) or attribute.value is not node:
            return False
        call = self.run.tree.parent[attribute]
        return isinstance(call, cst.Call) and call.func is attribute and attribute.attr.value in _CHANGING

    def unlisted(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The array of which the expression makes a list: `labels.numpy().tolist()`. Lists go item by item."""
        while isinstance(node, cst.Call):
            func = node.func
            inner: cst.BaseExpression = node
            if isinstance(func, cst.Attribute) and func.attr.value == "tolist" and not node.args:
                inner = func.value
            elif self.run.seen.get(func, v.NOTHING).only in _LISTING and len(node.args) == 1:
                inner = node.args[0].value
            value = self.run.seen.get(inner)
            if inner is node or value is None or value.data is None or value.objects:
                break
            node = inner
        return node

    def as_mean(self, value: Value, place: cst.BaseExpression | None, node: cst.CSTNode) -> Value:
        """A term of a loss that is a mean: a sum over the batch is put together first."""
        data = value.data
        if data is None or data.placement != Partial("sum"):
            return value
        args = Arguments([value], nodes={0: place} if place is not None else {})
        repair = self.make(args, node, by_reducing, "it is a sum over the batch beside a mean", "term")
        return Value(replace(data, placement=REPLICATED, needs=data.needs | {repair}))

    def put_together(self, args: Arguments, node: cst.CSTNode) -> Repair:
        """The repair that has all rows, and sums and means over all of them, where the call keeps its arguments."""
        given = (d for _, x in args.all() for d in self.run.objects.leaves(x))
        lost = next((d for d in given if not d.is_replicated and by_gathering(d) is None), None)
        why = "it keeps what depends on a worker's part of the batch"
        if lost is None:
            return self.make(args, node, by_gathering, why)
        unseen = lost.placement.why if isinstance(lost.placement, Unknown) else "each worker has a value of its own"
        with self.ruled_out(unseen):
            return self.make(args, node, by_gathering, why)

    def counted_by_all(self, node: cst.CSTNode, how: str = "metric") -> Repair:
        """The repair that makes `metric.result()` that of the rows of all workers; `how`: "batches" where the metric is
        told a number for each batch."""
        is_given_too = "the metric is given rows and asked for its result at once"
        blocked = self.blocked or ("" if is_result(node) else is_given_too)
        operands = frozenset((Operand(node, how),)) if isinstance(node, cst.BaseExpression) else frozenset()
        repair = Repair(node, operands, "it is of what this worker has counted", blocked, "metric")
        self.run.note_repair(repair)
        return repair

    def counted_once(self, args: Arguments, node: cst.CSTNode) -> Repair:
        """The repair that has a worker count its own of the rows that a metric is given, where each has all of them:
        the metric counts parts of other batches besides."""
        found: set[Operand] = set()
        blocked = self.blocked or ("Keras evaluates the model" if self.run.evaluations.are_running else "")
        for place, value in args.written():
            leaves = list(self.run.objects.leaves(value))
            if all(d.rank == 0 or d.constant is not NOT_CONSTANT for d in leaves):
                continue
            if place is None:
                blocked = blocked or "what it is given is not written where it is called"
            elif any(d.needs or d.symbolic or d.pairs or d.across or not d.is_replicated for d in leaves):
                blocked = blocked or IN_PARTS
            else:
                found.add(Operand(place, "once"))
        repair = Repair(node, frozenset(found), "it counts rows that all workers have", blocked, "once")
        self.run.note_repair(repair)
        return repair

    def agreed(self, node: cst.CSTNode, value: Value) -> Value:
        """What a condition is once sums and means over the batch, and numbers of rows, are those of all."""
        if not isinstance(node, cst.BaseExpression):
            return value
        if all(by_reducing(d) is None for d in v.contents(value)):
            self.run.note_plain(node, "sources")
            return value
        repair = self.make(
            Arguments([value], nodes={0: node}), node, by_reducing, "it decides by a worker's part of the batch"
        )
        needs = frozenset((repair,))
        return v.mapped(
            value, lambda d: d if by_reducing(d) is None else replace(d, placement=REPLICATED, needs=needs | d.needs)
        )
