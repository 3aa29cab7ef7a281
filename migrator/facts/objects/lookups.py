"""Where something is looked up in a table by a key: `table[key]`, `operator.getitem(table, key)`, `text % table`, or by
whatever else is given a table that makes entries for keys which it has not met."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from migrator.facts.objects.defaults import Defaults
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, File, Function, Literal, Object, Result, Value
from migrator.facts.program.tree import Tree

_ASKING = frozenset({"__getitem__", "__missing__"})
_GETITEM = External("operator.getitem")
# They ask a table that they are given for no key that it has not.
_CALM = (
    "builtins.", "json.", "pprint.", "copy.", "pickle.", "yaml.", "logging.", "numpy.", "tensorflow.", "keras.",
    "pandas.", "csv.", "collections.", "dataclasses.", "absl.", "wandb.", "mlflow.", "lockstep.", "tqdm.",
)  # fmt: skip
_ASKING_BUILTINS = frozenset(f"builtins.{name}" for name in ("eval", "exec", "map", "filter", "format"))
_CALM_METHODS = frozenset({
    "append", "appendleft", "extend", "insert", "update", "add", "put", "setdefault", "copy", "get", "pop", "items",
    "keys", "values", "clear", "popitem", "remove", "index", "count",
})  # fmt: skip


class Lookup(NamedTuple):
    """`keys`: what settles by which key something is asked for."""

    table: cst.BaseExpression
    keys: list[cst.BaseExpression]


class Lookups:
    def __init__(self, tree: Tree, resolver: Resolver, defaults: Defaults) -> None:
        self.tree = tree
        self.resolver = resolver
        self.defaults = defaults

    @cached_property
    def are_any(self) -> bool:
        """Whether anything but a subscript may ask a table of the script's: a look at all calls takes long."""
        return bool(self.tree.methods.get("__missing__") or self.tree.names.get("defaultdict"))

    @cached_property
    def found(self) -> list[tuple[cst.BaseExpression, Lookup]]:
        nodes = self.tree.all_of(cst.Subscript, cst.Call, cst.BinaryOperation) if self.are_any else ()
        return [(node, lookup) for node in nodes for lookup in self.at(node)]

    def at(self, node: cst.CSTNode) -> Iterator[Lookup]:
        if isinstance(node, cst.Subscript):
            indices = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
            if len(indices) == len(node.slice):
                yield Lookup(node.value, indices)
        elif not self.are_any:
            return
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            if self._makes_entries(node.right):
                yield Lookup(node.right, [node.left])
        elif isinstance(node, cst.Call):
            yield from self._by_call(node)

    def _by_call(self, call: cst.Call) -> Iterator[Lookup]:
        values = self.resolver.values(call.func)
        made = [v.call for v in values if isinstance(v, Result)]  # `partial(operator.getitem, table)(key)`
        given = [arg.value for each in (call, *made) for arg in each.args]
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _ASKING:
            table = call.func.value
            is_class = any(isinstance(v, (Class, External)) for v in self.resolver.values(table))
            yield Lookup(given[0], given[1:]) if is_class and given else Lookup(table, given)
        elif given and _GETITEM in values:
            yield Lookup(given[0], given[1:])
        elif not self._is_calm(call):
            for node in given:
                asked = self._asked(node)
                if asked is not None:
                    yield Lookup(asked, [call.func, *(other for other in given if other is not node)])

    def _asked(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The table that is handed on there, be it by its method: `map(table.__getitem__, names)`."""
        is_method = isinstance(node, cst.Attribute) and node.attr.value in _ASKING
        if isinstance(node, cst.Dict):
            return next((e.value for e in node.elements if self._makes_entries(e.value)), None)
        table = cst.ensure_type(node, cst.Attribute).value if is_method else node
        return table if is_method or self._makes_entries(table) else None

    def _makes_entries(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        if self.defaults.factories(values):
            return True
        return any(isinstance(v, Object) and self.resolver.method(v.of, "__missing__") is not None for v in values)

    def _is_calm(self, call: cst.Call) -> bool:
        """Whether what is called is followed itself, or asks for no key."""
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _CALM_METHODS:
            return True
        if any(isinstance(arg.value, cst.Attribute) and arg.value.attr.value in _ASKING for arg in call.args):
            return False
        values = self.resolver.values(call.func)
        return bool(values) and all(map(_is_calm, values))


def _is_calm(value: Value) -> bool:
    if isinstance(value, (Function, Class, Object, File, Literal)):
        return True
    path = origin(value)
    return f"{path}.".startswith(_CALM) and path not in _ASKING_BUILTINS
