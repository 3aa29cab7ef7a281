"""Where code changes what others may read: attributes, items, variables, arrays that a function of a library fills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.data.remembering import CHANGING
from migrator.facts.dependence import libraries
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import text_of
from migrator.facts.program.tree import Tree

# They change what stands in a graph, too.
SETTING = api.SETTING_VARIABLES | {
    "set_weights", "load_weights", "load_own_variables", "load_state_dict", "update_state", "reset_state",
    "reset_states",
}  # fmt: skip
_METHODS = CHANGING | SETTING | {"fill", "itemset", "resize", "partition", "setfield", "__setitem__", "__setattr__"}
# Of a generator of random numbers, which puts another list or array in order.
_ORDERING = frozenset({"shuffle"})
_NAMESPACES = frozenset({"builtins.vars"})

Change = tuple[cst.CSTNode, cst.BaseExpression, str]


class ChangesMade:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def among(self, parts: Sequence[cst.CSTNode]) -> Iterator[Change]:
        """Where the parts change something: the place, what is changed, and the attribute, the key or the method."""
        for target in self.tree.targets_in(parts):
            if isinstance(target, cst.Attribute):
                yield target, target.value, target.attr.value
            elif isinstance(target, cst.Subscript):
                space = self._namespace(target.value)
                yield (target, space, _text(target)) if space is not None else (target, target.value, key_of(target))
        for change in self.tree.all_of(cst.AugAssign) if parts else ():
            if isinstance(change.target, cst.Name) and self.tree.is_in(change, parts):
                yield change, change.target, ""  # an array stays the same, with other numbers in it
        for call in self.tree.calls if parts else ():
            if self.tree.is_in(call, parts):
                yield from self._by(call)

    def of_globals(self, parts: Sequence[cst.CSTNode]) -> Iterator[tuple[cst.CSTNode, str]]:
        """Where the parts set a name of the module by its text."""
        for target in self.tree.targets_in(parts):
            owner = target.value if isinstance(target, cst.Subscript) else None
            if isinstance(owner, cst.Call) and "builtins.globals" in self.resolver.public(owner.func):
                yield target, _text(target)

    def _by(self, call: cst.Call) -> Iterator[Change]:
        func, paths = call.func, self.resolver.public(call.func)
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        given = [arg.value for arg in call.args]
        if "builtins.setattr" in paths and len(given) == 3:
            yield call, given[0], text_of(given[1])
        elif given and (name in _ORDERING or any(map(libraries.fills_first, paths))):
            yield call, given[0], ""
        elif isinstance(func, cst.Attribute) and name in _METHODS:
            yield call, func.value, name if name in SETTING else ""
        for arg in call.args:
            if arg.keyword is not None and arg.keyword.value == "out":
                yield call, arg.value, ""

    def _namespace(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """The object whose attributes the expression holds: `vars(noise)`, `noise.__dict__`."""
        if isinstance(node, cst.Attribute) and node.attr.value == "__dict__":
            return node.value
        is_asked = isinstance(node, cst.Call) and not _NAMESPACES.isdisjoint(self.resolver.public(node.func))
        return node.args[0].value if isinstance(node, cst.Call) and is_asked and node.args else None


def key_of(node: cst.Subscript) -> str:
    """`["level"]`; empty where the key does not stand there."""
    index = node.slice[0].slice
    is_literal = isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.Integer))
    return f"[{cst.ensure_type(index, cst.Index).value.value}]" if is_literal else ""  # type: ignore[attr-defined]


def _text(node: cst.CSTNode) -> str:
    index = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    return text_of(index.value) if isinstance(index, cst.Index) else ""
