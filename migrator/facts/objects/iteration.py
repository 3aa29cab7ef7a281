"""What the turns of a loop get: the elements of lists, tuples and dictionaries that the script writes out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Binding, Statement, Tree
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class Turn:
    """An expression that a turn gets, None where it cannot be seen; `within` names the list that it is a part of, and
    `complete` is the statement after which all is in it. `path` leads to it from an element of that list."""

    node: cst.CSTNode | None
    within: Binding | None = None
    complete: Statement | None = None
    path: tuple[int, ...] = ()


_GROWING = frozenset({"append", "extend", "insert", "update", "setdefault", "add", "appendleft"})


class Iteration:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def turns(self, iterated: cst.CSTNode, path: tuple[int, ...]) -> list[Turn]:
        """What the part of a `for` target at that path gets, turn by turn; of a comprehension, its one expression."""
        return list(self._turns(iterated, path, None, set())) or [Turn(None)]

    def written(self, iterated: cst.CSTNode, path: tuple[int, ...]) -> list[cst.CSTNode]:
        """What the part of a `for` target at that path gets, of tuples that are written out, in a list that nothing but
        loops reads; empty where it is not all seen."""
        display = self._looped_over(iterated) if isinstance(iterated, cst.Name) else iterated
        if not path or not isinstance(display, (cst.List, cst.Tuple)):
            return []
        parts = [part_at(e.value, path) for e in display.elements if isinstance(e, cst.Element)]
        found = [part for part in parts if part is not None]
        return found if len(found) == len(display.elements) else []

    def _looped_over(self, name: cst.Name) -> cst.CSTNode | None:
        """What the name is bound to; None where it is not bound once, or read by anything but loops."""
        bindings = self.resolver.reaching(name)
        only = bindings[0] if len(bindings) == 1 else None
        reads = [read for read in self.tree.names[name.value] if self.tree.is_read(read)]
        if only is None or only.kind != "assign" or only.path or not all(map(self._is_looped_over, reads)):
            return None
        return only.value

    def _is_looped_over(self, read: cst.Name) -> bool:
        """`for … in pairs`, `for … in enumerate(pairs)`"""
        node: cst.CSTNode = read
        owner = self.tree.parent[node]
        while isinstance(owner, (cst.Arg, cst.Call)):
            if isinstance(owner, cst.Call) and not {External("builtins.enumerate"), External("builtins.zip")} & set(
                self.resolver.values(owner.func)
            ):
                return False
            node, owner = owner, self.tree.parent[owner]
        return isinstance(owner, (cst.For, cst.CompFor)) and owner.iter is node

    def narrowed(self, iterated: cst.CSTNode, path: tuple[int, ...]) -> tuple[cst.CSTNode, tuple[int, ...]]:
        """What that part of a `for` target goes through, and its place there, inside of `zip` and `enumerate`."""
        while isinstance(iterated, cst.Call) and path and not any(arg.star for arg in iterated.args):
            functions = self.resolver.values(iterated.func)
            if External("builtins.enumerate") in functions and path[0] == 1 and iterated.args:
                iterated = iterated.args[0].value
            elif External("builtins.zip") in functions and 0 <= path[0] < len(iterated.args):
                iterated = iterated.args[path[0]].value
            else:
                break
            path = path[1:]
        return iterated, path

    def _turns(
        self, node: cst.CSTNode, path: tuple[int, ...], within: Binding | None, seen: set[cst.CSTNode]
    ) -> Iterator[Turn]:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
            for element in node.elements:
                if isinstance(element, cst.StarredElement):
                    yield from self._turns(element.value, path, None, seen)
                else:
                    yield Turn(part_at(element.value, path), within, path=path)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp, cst.SetComp)):
            yield Turn(part_at(node.elt, path), within, path=path)
        elif isinstance(node, cst.Call):
            yield from self._of_call(node, path, seen)
        elif isinstance(node, (cst.Name, cst.Attribute)):
            bindings = self.resolver.bound(node)
            for binding in bindings:
                if self._grows(binding):
                    yield from self._appended(binding, path)
                elif binding.kind == "assign" and binding.value is not None and not binding.path:
                    yield from self._turns(binding.value, path, binding, seen)
                elif binding.kind == "param":
                    for given in self.resolver.given(cast(cst.Param, binding.node)):
                        yield from self._turns(given, path, None, seen)
                else:
                    yield Turn(None)
            if not bindings:
                yield Turn(None)
        else:
            yield Turn(None)

    def _grows(self, binding: Binding) -> bool:
        """Whether the script may put more into the list or dictionary than it writes out there."""
        return bool(self._growing(binding)) or any(
            target.value.deep_equals(binding.target) for target, _ in self.tree.item_assignments if binding.target
        )

    def _growing(self, binding: Binding) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value in _GROWING
            and binding.target is not None
            and call.func.value.deep_equals(binding.target)
        ]

    def _appended(self, binding: Binding, path: tuple[int, ...]) -> list[Turn]:
        """What `models = []` … `models.append(model)` puts into a list, all of it in the block that makes the list."""
        calls = self._growing(binding)
        home = self.tree.statement_of(binding.node)
        last = self.tree.lift(calls[-1], self.tree.block_of(home)) if calls else None
        if (
            last is None
            or not isinstance(binding.value, cst.List)
            or binding.value.elements
            or any(self.tree.function_of(c) is not self.tree.function_of(home) for c in calls)
            or any(cst.ensure_type(c.func, cst.Attribute).attr.value != "append" or not c.args for c in calls)
        ):
            return [Turn(None)]
        return [Turn(part_at(call.args[0].value, path), binding, last, path) for call in calls]

    def _of_call(self, call: cst.Call, path: tuple[int, ...], seen: set[cst.CSTNode]) -> Iterator[Turn]:
        inner, rest = self.narrowed(call, path)
        if inner is not call:
            yield from self._turns(inner, rest, None, seen)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "values":
            yield from self._of_dictionary(call.func.value, path)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "items" and path[:1] == (1,):
            yield from self._of_dictionary(call.func.value, path[1:])
        else:
            yield Turn(None)

    def _of_dictionary(self, node: cst.BaseExpression, path: tuple[int, ...]) -> Iterator[Turn]:
        bindings = self.resolver.bound(node)
        written = [(b, b.value) for b in bindings if b.kind == "assign" and not b.path]
        if not written or len(written) < len(bindings) or any(map(self._grows, bindings)):
            yield Turn(None)
        for binding, value in written:
            if isinstance(value, cst.Dict):
                for pair in value.elements:
                    is_pair = isinstance(pair, cst.DictElement)
                    yield Turn(part_at(pair.value, path) if is_pair else None, binding, path=path)
            elif isinstance(value, cst.DictComp):
                yield Turn(part_at(value.value, path), binding, path=path)
            else:
                yield Turn(None)
