"""What runs or not by a value that no condition asks: the rest of what `any(step(x) < 0.1 for x in data)` goes through,
a function with a cache, what a dictionary makes of a key that it has not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.unseen_choices import UnseenChoices
from migrator.facts.objects.defaults import Defaults
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.lookups import Lookups
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Object, Result, Value, calls
from migrator.facts.program.tree import Tree
from migrator.worklist import Worklist

# They go through what they are given until they have found what they look for.
_STOPPING = frozenset({"builtins.any", "builtins.all"})
_NEXT = "builtins.next"
# They give what they are given one after the other, or what functions make of it.
_LAZY = frozenset({"builtins.map", "builtins.filter", "builtins.enumerate", "builtins.zip", "builtins.iter"})
_MAPPING = frozenset({"builtins.map", "itertools.starmap"})
_FILTERING = frozenset({"builtins.filter", "itertools.filterfalse", "itertools.takewhile", "itertools.dropwhile"})
_CACHING = ("functools.lru_cache", "functools.cache")


class CutShort:
    def __init__(self, tree: Tree, resolver: Resolver, choices: UnseenChoices) -> None:
        self.tree = tree
        self.resolver = resolver
        self._choices = choices
        self._lookups = Lookups(tree, resolver, Defaults(tree, resolver))

    @cached_property
    def bodies(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """By the value that decides it, the code that runs or not."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for decider, body in self._found():
            found[decider].append(body)
        return found

    def _found(self) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        yield from self._by_items()
        yield from self._by_caches()
        yield from self._by_keys()
        for choice in self._choices.found:
            yield from ((decider, function) for decider in choice.deciders for function in choice.functions)

    # -- what goes on until something is found -----------------------------------------------------------------------

    def _by_items(self) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        for node, asks_items in self._gone_through():
            for lazy in self._lazies(node):
                inside = [*self._inside(lazy)]
                bodies = [lazy, *(f for each in inside for f in self._run_by(each))]
                items = [*self._items(lazy)] if asks_items else []
                for decider in (*items, *(r for each in inside for r in self._told_by_filter(each))):
                    yield from ((decider, body) for body in bodies)

    def _gone_through(self) -> Iterator[tuple[cst.BaseExpression, bool]]:
        """What is gone through until something is found, and whether that is settled by what the items are."""
        for call in self.tree.calls:
            paths = self.resolver.public(call.func) if call.args else ()
            if not _STOPPING.isdisjoint(paths) or _NEXT in paths:
                yield call.args[0].value, _NEXT not in paths
        for comparison in self.tree.all_of(cst.Comparison):
            for target in comparison.comparisons:
                if isinstance(target.operator, (cst.In, cst.NotIn)):
                    yield target.comparator, True

    def _lazies(self, node: cst.BaseExpression) -> list[cst.GeneratorExp | cst.Call]:
        """What gives items one after the other, be it by a name."""
        if isinstance(node, (cst.GeneratorExp, cst.Call)):
            return [node]
        found: list[cst.GeneratorExp | cst.Call] = []
        for value in self.resolver.values(node) if isinstance(node, (cst.Name, cst.Attribute)) else ():
            if isinstance(value, Literal) and isinstance(value.node, cst.GeneratorExp):
                found.append(value.node)
            elif isinstance(value, Result):
                found.append(value.call)
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else ()
        return [*found, *(b.value for b in bindings if isinstance(b.value, cst.Call) and not b.path)]

    def _inside(self, lazy: cst.GeneratorExp | cst.Call) -> Iterator[cst.GeneratorExp | cst.Call]:
        """All that gives items on the way to those."""
        queue = Worklist([lazy])
        for node in queue:
            yield node
            queue += [each for part in self._given(node) for each in self._lazies(part)]

    def _given(self, lazy: cst.GeneratorExp | cst.Call) -> list[cst.BaseExpression]:
        """What the items are made of."""
        if isinstance(lazy, cst.Call):
            is_lazy = any(p in _LAZY or p.startswith("itertools.") for p in self.resolver.public(lazy.func))
            return [arg.value for arg in lazy.args] if is_lazy else []
        found: list[cst.BaseExpression] = []
        clause: cst.CompFor | None = lazy.for_in
        while clause is not None:
            found.append(clause.iter)
            clause = clause.inner_for_in
        return found

    def _items(self, lazy: cst.GeneratorExp | cst.Call) -> Iterator[cst.CSTNode]:
        """What the items are, where they are made."""
        queue = Worklist([lazy])
        for node in queue:
            if isinstance(node, cst.GeneratorExp):
                yield node.elt
                continue
            for function in functions_in(self.resolver, node.func):
                values = [y.value for y in self.tree.yields.get(function, ()) if y.value is not None]
                yield from (value.item if isinstance(value, cst.From) else value for value in values)
            if _MAPPING.isdisjoint(self.resolver.public(node.func)):
                queue += [each for part in self._given(node) for each in self._lazies(part)]
            elif node.args:
                yield from (
                    r for f in functions_in(self.resolver, node.args[0].value) for r in self.resolver.returned(f)
                )

    def _told_by_filter(self, lazy: cst.GeneratorExp | cst.Call) -> Iterator[cst.CSTNode]:
        """What decides whether a `filter` lets an item through."""
        if isinstance(lazy, cst.Call) and lazy.args and not _FILTERING.isdisjoint(self.resolver.public(lazy.func)):
            yield from (r for f in functions_in(self.resolver, lazy.args[0].value) for r in self.resolver.returned(f))

    def _run_by(self, lazy: cst.GeneratorExp | cst.Call) -> Iterator[cst.CSTNode]:
        if isinstance(lazy, cst.Call):
            yield from functions_in(self.resolver, lazy.func)
            yield from (f for part in self._given(lazy)[:1] for f in functions_in(self.resolver, part))

    # -- what has been asked for before ------------------------------------------------------------------------------

    def _by_caches(self) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        for call in self.tree.calls if self.tree.names.get("lru_cache") or self.tree.names.get("cache") else ():
            for function in dict.fromkeys(f for v in self.resolver.values(call.func) for f in self._cached(v)):
                yield from ((arg.value, function) for arg in call.args)

    def _cached(self, value: Value) -> Iterator[cst.FunctionDef | cst.Lambda]:
        """The function of which `lru_cache` keeps what it gives."""
        if isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
            if any(self._is_cache(d.decorator) for d in value.node.decorators):
                yield value.node
        elif isinstance(value, Result) and value.call.args and self._is_cache(value.call.func):
            yield from functions_in(self.resolver, value.call.args[0].value)

    def _is_cache(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        return any((isinstance(v, External) and v.path in _CACHING) or calls(v) in _CACHING for v in values)

    def _by_keys(self) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
        """`table[key]`, where the table is a defaultdict, or of a class with a `__missing__`: what makes the entries
        runs for keys that are not met."""
        for _, (table, keys) in self._lookups.found:
            tables = self.resolver.values(table)
            makers = [f for made in self._lookups.defaults.factories(tables) for f in functions_in(self.resolver, made)]
            for value in tables:
                method = self.resolver.method(value.of, "__missing__") if isinstance(value, Object) else None
                makers += [method] if method is not None else []
            yield from ((key, made) for key in keys for made in makers)
