"""Where training takes its batches from: the datasets that loops and `next` calls around an update read."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.data.pipelines import Pipelines
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Result, is_call_of
from migrator.facts.program.syntax import clauses, part_at
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training, Update
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class Consumption:
    """A place where training takes its batches from a dataset: the loop, or the `fit` call."""

    dataset: cst.BaseExpression
    reader: cst.For | cst.CompFor | cst.Call


class Reading:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, pipelines: Pipelines) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.pipelines = pipelines

    def consumptions(self, update: Update) -> list[Consumption]:
        """The datasets whose batches reach the update: of the nearest loop over one, in each way to the call, or to
        where the gradients are taken that it applies later."""
        found = self._all(update)
        return [] if any(map(self._is_undecided, found)) else found

    def undecided(self, update: Update) -> Consumption | None:
        """A loop that reads one of several datasets, where a condition tells whether it trains: of the data that it
        evaluates with, every worker has to see all."""
        return next(filter(self._is_undecided, self._all(update)), None)

    def _all(self, update: Update) -> list[Consumption]:
        taken = [call for gradients in update.gradients for call in gradients.tape_calls]
        return self.around(update.call) or list(dict.fromkeys(c for call in taken for c in self.around(call)))

    def _is_undecided(self, consumption: Consumption) -> bool:
        reader = consumption.reader
        history = self.pipelines.history(consumption.dataset)
        ways = history.ways if not history.is_put_together else []
        if len(ways) < 2 or any(way.is_sharded for way in ways) or isinstance(reader, cst.Call):
            return False
        return not any(self._runs_in(update.call, reader, set()) for update in self.training.updates)

    def _runs_in(self, node: cst.CSTNode, loop: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Whether each turn of the loop runs the node."""
        for owner in self.tree.ancestors(node):
            if owner is loop:
                return True
            if isinstance(owner, (cst.If, cst.IfExp, cst.BooleanOperation, cst.MatchCase, cst.ExceptHandler)):
                return False
            if isinstance(owner, (cst.FunctionDef, cst.Lambda)):
                if not isinstance(owner, cst.FunctionDef) or owner in seen:
                    return False
                return any(self._runs_in(call, loop, seen | {owner}) for call in self.resolver.callers(owner))
        return False

    def around(self, call: cst.Call) -> list[Consumption]:
        """The datasets whose batches reach the call, as those of an update."""
        return list(self._consumptions(call, set()))

    def _consumptions(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Consumption]:
        found = list(self._around(node))
        if found:
            nearest = found[0].reader
            yield from (c for c in found if c.reader is nearest)  # `zip` reads several at once
            if isinstance(nearest, cst.For):
                yield from (c for c in self._next_calls(nearest) if self._feeds_training(cast(cst.Call, c.reader)))
            others = [c.reader for c in found if isinstance(nearest, cst.Call) and c.reader is not nearest]
            yield from (c for c in found if c.reader in others and self._is_trained_with(cast(cst.Call, c.reader)))
            return
        function = self.tree.function_of(node)
        if function is None or function in seen:
            return
        for caller in dict.fromkeys((*self.resolver.callers(function), *self.resolver.run_by_partials(function))):
            yield from self._consumptions(caller, seen | {function})

    def _around(self, node: cst.CSTNode) -> Iterator[Consumption]:
        """Loops over datasets around the node within its function, innermost first, then datasets read by `next`."""
        child = node
        loops: list[cst.CSTNode] = []
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
                break
            if isinstance(owner, cst.For) and child is owner.body:
                yield from self._reads(owner)
            if isinstance(owner, (cst.For, cst.While)):
                loops.append(owner)
            if isinstance(owner, cst.BaseComp) and child is not owner.for_in:
                for clause in reversed(list(clauses(owner.for_in))):
                    yield from self._reads(clause)
            child = owner
        function = self.tree.function_of(node)
        if loops:
            yield from self._next_calls(loops[-1])
        elif function is not None:
            yield from self._next_calls(function.body)  # a step that takes its batch from an iterator by itself

    def _reads(self, loop: cst.For | cst.CompFor) -> Iterator[Consumption]:
        iterated = self.pipelines.core(loop.iter)
        zipped = self.zips(loop)
        if self.pipelines.sources.gives_batches(iterated):
            yield Consumption(iterated, loop)
        elif zipped:
            for arg in (arg for call in zipped for arg in call.args if arg.value not in zipped):
                core = self.pipelines.core(arg.value)
                if self.pipelines.is_dataset(core):
                    yield Consumption(core, loop)
        elif self.pipelines.is_dataset(iterated):
            yield Consumption(self.pipelines.read(loop.iter), loop)

    def zips(self, loop: cst.For | cst.CompFor) -> list[cst.Call]:
        """The calls of `zip` that the loop goes through, one inside of another."""
        iterated = self.pipelines.core(loop.iter)
        found = [iterated] if isinstance(iterated, cst.Call) and self._is_zip(iterated) else []
        for call in found:
            found += [a.value for a in call.args if isinstance(a.value, cst.Call) and self._is_zip(a.value)]
        return found

    def _is_zip(self, call: cst.Call) -> bool:
        return "builtins.zip" in self.resolver.public(call.func)

    def _next_calls(self, loop: cst.CSTNode) -> Iterator[Consumption]:
        for call, iterator in self._advances:
            if self.tree.contains(loop, call):
                for value in self.resolver.values(iterator):
                    if is_call_of(value, "builtins.iter"):
                        source = self.pipelines.core(cast(Result, value).call)
                        if self.pipelines.is_dataset(source):
                            yield Consumption(source, call)

    def _feeds_training(self, call: cst.Call) -> bool:
        """Whether what `next` gives is read under a tape or handed to a function that updates; what has no name is."""
        return not self._named(call) or self._is_trained_with(call)

    def _is_trained_with(self, call: cst.Call) -> bool:
        """The same where it is seen."""
        reads = [
            name
            for binding in self._named(call)
            for name in self.tree.names[binding.name]
            if binding in self.resolver.reaching(name)
        ]
        return any(self._is_under_tape(read) or self._is_trained_on(read) for read in (call, *reads))

    def _named(self, call: cst.Call) -> list[Binding]:
        return [b for bs in self.tree.scope_of(call).bindings.values() for b in bs if _is_given(b, call)]

    def _is_under_tape(self, node: cst.CSTNode) -> bool:
        return any(owner in self.training.tapes for owner in self.tree.ancestors(node))

    def _is_trained_on(self, node: cst.CSTNode) -> bool:
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.Call):
                bodies = self.training.reached_from(owner)
                if any(self.tree.contains(body, update.call) for body in bodies for update in self.training.updates):
                    return True
            if isinstance(owner, cst.BaseStatement):
                return False
        return False

    def iterators_read_by(self, reader: cst.For | cst.CompFor | cst.Call) -> set[cst.Call]:
        """The calls of `iter` that make what a loop goes through, or a call takes the next of."""
        read = self._advanced(reader) if isinstance(reader, cst.Call) else reader.iter
        values = self.resolver.values(read) if read is not None else ()
        return {cast(Result, value).call for value in values if is_call_of(value, "builtins.iter")}

    def reading_along(self, iterators: Set[cst.Call]) -> Iterator[cst.For | cst.CompFor | cst.Call]:
        """All loops and calls that read what one of these calls has made."""
        readers: list[cst.For | cst.CompFor | cst.Call] = [call for call, _ in self._advances]
        readers += [*self.tree.all_of(cst.For), *self.tree.all_of(cst.CompFor)]
        return (reader for reader in readers if self.iterators_read_by(reader) & iterators)

    @cached_property
    def _advances(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls that take the next of an iterator, with the iterator."""
        found = ((call, self._advanced(call)) for call in self.tree.calls)
        return [(call, iterator) for call, iterator in found if iterator is not None]

    def _advanced(self, call: cst.Call) -> cst.BaseExpression | None:
        """The iterator of `next(iterator)` or `iterator.get_next()`."""
        if call.args and External("builtins.next") in self.resolver.values(call.func):
            return call.args[0].value
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "get_next":
            return call.func.value
        return None


def _is_given(binding: Binding, call: cst.Call) -> bool:
    """Whether the name gets what the call gives, or a part of it: `x, y = next(a), next(b)`"""
    value = binding.value
    if isinstance(value, (cst.Tuple, cst.List)) and binding.path:
        value = part_at(value, binding.path[:1])
    return value is call
