"""What a pipeline reads while the training changes it: a generator's own attributes, a variable in a filter, a random
state that both draw from. Batches are read ahead, so that time decides what is read, on each worker by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.data.changes_made import SETTING, ChangesMade, key_of
from migrator.facts.data.remembering import CHANGING
from migrator.facts.data.run_ahead import RunAhead
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Literal, Member, Object, Result, Value
from migrator.facts.program.tree import FunctionLike, Tree
from migrator.facts.randomness.draws import draws, is_drawn_from_common

_VIEWS = frozenset({"reshape", "ravel", "view", "transpose", "swapaxes", "squeeze", "diagonal", "T", "flat", "values"})
_YIELDS = (cst.Yield, cst.From)


class ChangedMeanwhile:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._changes = ChangesMade(tree, resolver)

    def first(self, run: RunAhead, bodies: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """Where the code that runs for each batch changes what the pipeline reads, or reads what that changes."""
        in_graphs, in_python = run
        if not bodies or not (in_graphs or in_python):
            return None
        inside = [part for function in in_python for part in self._repeated(function)]
        outside = [body for body in bodies if not self.tree.is_in(body, (*in_python, *in_graphs))]
        read = self._held_in(inside)
        for node, owner, part in self._changes.among(outside):
            if part in SETTING:
                held = read | self._held_in(in_graphs)
                if part in api.SETTING_VARIABLES and not self._kept(owner) and any(map(self._has_weights, held)):
                    return node  # a variable of something that is not seen, which may be that model's
            elif part.startswith("["):
                held = self._held_in(inside, key=part)
            else:
                held = read if not part or part in self._attributes_in(inside) else set()
            if held & self._kept(owner):
                return node
        return (
            self._bound_again(inside, outside)
            or self._put_in_globals(inside, outside)
            or self._read_back(inside, outside)
            or self._drawn_by_both(inside, outside)
        )

    def _repeated(self, function: FunctionLike) -> list[cst.CSTNode]:
        """What of the function runs for each element: of a generator, what stands in loops that yield."""
        loops = [
            loop
            for loop in self.tree.all_of(cst.For, cst.While)
            if self.tree.contains(function, loop)
            and any(self.tree.contains(loop, found) for found in self.tree.all_of(*_YIELDS))
        ]
        is_generator = any(
            self.tree.contains(function, found) and self.tree.function_of(found) is function
            for found in self.tree.all_of(*_YIELDS)
        )
        return list(loops) if is_generator else [function]

    def _kept(self, node: cst.CSTNode) -> set[Value]:
        """The objects that the expression may be, of those that can be changed: of a class of the script, any of it."""
        values = (v.of if isinstance(v, Object) else _viewed(v) for v in self.resolver.values(node))
        return {v for v in values if isinstance(v, (Class, Result)) or _is_display(v)}

    def _has_weights(self, kept: Value) -> bool:
        return self.kinds.has_weights(Object(kept) if isinstance(kept, Class) else kept)

    def _held_in(self, parts: Sequence[cst.CSTNode], key: str = "") -> set[Value]:
        """What the parts read, and do not only change: a log that both write to tells nobody anything. `key`: where
        they may read that of it, and not only what stands under another one."""
        nodes = self.tree.all_of(cst.Name, cst.Attribute) if parts else ()
        inside = (n for n in nodes if self.tree.is_in(n, parts))
        read = (n for n in inside if not self._is_only_changed(n) and not (key and self._is_under_another(n, key)))
        return {value for node in read for value in self._kept(node)}

    def _is_under_another(self, node: cst.CSTNode, key: str) -> bool:
        owner = self.tree.parent.get(node)
        return isinstance(owner, cst.Subscript) and owner.value is node and key_of(owner) not in ("", key)

    def _is_only_changed(self, node: cst.CSTNode) -> bool:
        owner = self.tree.parent.get(node)
        if isinstance(owner, cst.Subscript) and owner.value is node:
            return isinstance(self.tree.parent.get(owner), (cst.AssignTarget, cst.AugAssign))
        if not isinstance(owner, cst.Attribute) or owner.value is not node or owner.attr.value not in CHANGING:
            return False
        call = self.tree.parent.get(owner)
        return isinstance(call, cst.Call) and isinstance(self.tree.parent.get(call), cst.Expr)

    def _attributes_in(self, parts: Sequence[cst.CSTNode]) -> set[str]:
        nodes = self.tree.all_of(cst.Attribute)
        return {node.attr.value for node in nodes if self.tree.is_in(node, parts)}

    def _bound_again(self, inside: Sequence[cst.CSTNode], outside: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """Where the training gives a new value to a name that the generator reads: `difficulty += 0.05`."""
        bound = [target for target in self.tree.targets_in(outside) if isinstance(target, cst.Name)]
        if not bound or not inside:
            return None
        names = {name.value for name in bound}
        read = {
            self.resolver.variable(node)
            for node in self.tree.all_of(cst.Name)
            if node.value in names and self.tree.is_read(node) and self.tree.is_in(node, inside)
        } - {None}
        return next((name for name in bound if self.resolver.variable(name) in read), None)

    def _put_in_globals(self, inside: Sequence[cst.CSTNode], outside: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """Where the training puts what the generator reads by its name: `globals()["level"] = 0.5`."""
        for node, name in self._changes.of_globals(outside):
            for read in self.tree.all_of(cst.Name):
                if read.value == name and self.tree.is_in(read, inside):
                    return node
        return None

    def _read_back(self, inside: Sequence[cst.CSTNode], outside: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        """Where the training reads an attribute that the pipeline sets, and does more than show it."""
        for _, owner, name in self._changes.among(inside):
            for node in self.tree.all_of(cst.Attribute) if name and not name.startswith("[") else ():
                is_read = node.attr.value == name and self.tree.is_in(node, outside)
                if is_read and not self._is_shown(node) and self._kept(node.value) & self._kept(owner):
                    return node
        return None

    def _is_shown(self, node: cst.CSTNode) -> bool:
        return any(
            isinstance(owner, cst.FormattedString)
            or (isinstance(owner, cst.Call) and "builtins.print" in self.resolver.public(owner.func))
            for owner in self.tree.ancestors(node)
        )

    def _drawn_by_both(self, inside: Sequence[cst.CSTNode], outside: Sequence[cst.CSTNode]) -> cst.CSTNode | None:
        drawn = {generator for _, generator in self._draws(inside)}
        return next((call for call, generator in self._draws(outside) if generator in drawn), None)

    def _draws(self, parts: Sequence[cst.CSTNode]) -> Iterator[tuple[cst.Call, object]]:
        """The calls that draw random numbers, with the generator; the one that all have by the name of its module."""
        for call in self.tree.calls if parts else ():
            if self.tree.is_in(call, parts):
                for value in filter(draws, self.resolver.values(call.func)):
                    if isinstance(value, Member):
                        yield call, value.owner
                    elif isinstance(value, External) and is_drawn_from_common(value.path):
                        yield call, value.path.split(".")[0]


def _viewed(value: Value) -> Value:
    """What the value is a view of: `level.reshape(2, 2)`, `level.flat`."""
    while True:
        member = value.function if isinstance(value, Result) else value
        if not isinstance(member, Member) or member.name not in _VIEWS:
            return value
        value = member.owner


def _is_display(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.node, (cst.List, cst.Dict, cst.Set))
