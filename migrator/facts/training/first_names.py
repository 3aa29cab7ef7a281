"""Where a model has to be sent that a function makes: most often where the caller gives it a name, but where it has its
first one if the function does something with its weights, which must be the chief's by then."""

from __future__ import annotations

from collections.abc import Container, Iterable

import libcst as cst

from migrator.facts.objects.holders import Holder, Holders, Origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.syntax import is_constant, part_at
from migrator.facts.program.tree import Tree

# What is done to a model, and asked of it, whatever its weights are.
_SETTING_UP = frozenset({"build", "compile", "summary", "add"})
_LAID_OUT = frozenset({
    "trainable", "name", "built", "input", "inputs", "output", "outputs", "input_shape", "output_shape",
})  # fmt: skip


class FirstNames:
    def __init__(self, tree: Tree, resolver: Resolver, holders: Holders) -> None:
        self.tree = tree
        self.resolver = resolver
        self.holders = holders

    def of(self, origins: Iterable[Origin]) -> list[Origin]:
        """The places where the objects are to be sent that get their names there: one for each."""
        found: dict[Origin, None] = {}
        passed: set[Origin] = set()
        for origin in origins:
            found.update(dict.fromkeys(self._first(origin, passed) if isinstance(origin, Holder) else [origin]))
        named = {origin.value for origin in found if isinstance(origin, Holder) and origin not in passed}
        return [o for o in found if o not in passed or not self._is_named_by_all(o, named)]

    def are_among(self, holder: Holder, places: Container[Origin]) -> bool:
        """Whether functions make the object, and each gives it one of these names first."""
        functions, parts = self._returned(holder)
        named = [self.holders.of(part) if isinstance(part, cst.Name) else [] for part in parts]
        return bool(named) and all(
            origins
            and all(
                isinstance(o, Holder) and self.tree.function_of(o.statement) in functions and o in places
                for o in origins
            )
            for origins in named
        )

    def _is_named_by_all(self, origin: Origin, named: set[cst.CSTNode]) -> bool:
        """Whether each call of the function that makes it gives it a name later."""
        function = self.tree.function_of(origin.statement) if isinstance(origin, Holder) else None
        return function is not None and named.issuperset(self.resolver.callers(function))

    def _first(self, holder: Holder, passed: set[Origin]) -> list[Origin]:
        """`passed`: the names that it has had before, of which a later one will do."""
        functions, parts = self._returned(holder)
        inner = [o for part in parts for o in (self.holders.of(part) if isinstance(part, cst.Name) else ())]
        if not inner or not all(
            isinstance(o, Holder) and self.tree.function_of(o.statement) in functions for o in inner
        ):
            return [holder]
        found: list[Origin] = []
        before: list[Origin] = []
        for one in (o for o in inner if isinstance(o, Holder) and o is not holder):
            earlier = [one] if self._is_used(one) else [o for o in self._first(one, passed) if o is not one]
            found += earlier
            before += [] if earlier else [one]
        if found and len(parts) == len(inner) and not before:
            return found
        passed.update(before)
        return [holder, *found]

    def _returned(self, holder: Holder) -> tuple[list[cst.FunctionDef], list[cst.CSTNode]]:
        """The functions that give it, and what they return for it; nothing where that is not all seen."""
        if not isinstance(holder.value, cst.Call):
            return [], []
        values = self.resolver.values(holder.value.func)
        nodes = [v.node for v in values if isinstance(v, Function)]
        functions = [node for node in nodes if isinstance(node, cst.FunctionDef)]
        if len(functions) != len(values):
            return [], []
        returned = [part_at(node, holder.part) for f in functions for node in self.resolver.returned(f)]
        return functions, [part for part in returned if part is not None and not is_constant(part)]

    def _is_used(self, holder: Holder) -> bool:
        """Whether the function that gives it this name does more with it than to set it up and to return it."""
        function, name = self.tree.function_of(holder.statement), holder.target
        if function is None or not isinstance(name, cst.Name):
            return True
        read = [n for n in self.tree.names[name.value] if self.tree.contains(function, n) and self.tree.is_variable(n)]
        return any(
            node is not name
            and any(binding.target is name for binding in self.resolver.reaching(node))
            and not self._leaves_weights_alone(node)
            for node in read
        )

    def _leaves_weights_alone(self, read: cst.CSTNode) -> bool:
        node, owner = read, self.tree.parent[read]
        if isinstance(owner, cst.Attribute) and owner.value is node:
            if owner.attr.value in _LAID_OUT:
                return True
            node, owner = owner, self.tree.parent[owner]
            if not isinstance(node, cst.Attribute) or node.attr.value not in _SETTING_UP:
                return False
            return isinstance(owner, cst.Call) and isinstance(self.tree.parent[owner], cst.Expr)
        if isinstance(owner, cst.Call) and owner.func is node:  # it makes its variables
            return isinstance(self.tree.parent[owner], cst.Expr)
        while isinstance(owner, (cst.Element, cst.DictElement, cst.Tuple, cst.List, cst.Dict)):
            owner = self.tree.parent[owner]
        return isinstance(owner, (cst.Return, cst.AssignTarget))
