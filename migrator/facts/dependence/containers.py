"""Through which names, attributes and objects what is put into a container may be read again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.dependence.graph import Graph, Key
from migrator.facts.dependence.handed_back import HandedBack
from migrator.facts.dependence.item_paths import Path, anywhere, behind, constant_key, parts_with
from migrator.facts.dependence.libraries import VIEWING_ATTRIBUTES, is_of_keras
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.namespaces import Namespaces, holds_attributes
from migrator.facts.objects.indirect import Indirect
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Object, Parameter, Value, Values
from migrator.facts.program.syntax import is_slice, part_at
from migrator.facts.program.tree import Binding, Tree

COLLECTING = frozenset({"append", "extend", "appendleft", "extendleft", "insert", "update", "setdefault", "put"})
# They put in what they are given as it is: as many elements as that has.
JOINING = frozenset({"extend", "extendleft", "update"})
_ANSWERS = (External("builtins.True"), External("builtins.False"), External("builtins.None"))
_MOST_HOLDERS = 300  # what a name was made of more steps ago, it no longer is
_MOST_PATHS = 4  # by which a name's items are told apart, and the keys of one


class Containers:
    def __init__(
        self,
        graph: Graph,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        indirect: Indirect,
        names: Names,
        namespaces: Namespaces,
        handed_back: HandedBack,
    ) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.indirect = indirect
        self.names = names
        self.namespaces = namespaces
        self.handed_back = handed_back
        self._with_contents: set[tuple[Binding, bool]] = set()

    def holders(self, node: cst.CSTNode, path: Path) -> list[tuple[Key, Path]]:
        """All through which an item of the value that is changed in place may be read again: names, attributes, what
        they are made of, and the parameters' arguments; each with the keys that lead from there to the item."""
        found: dict[tuple[Key, Path], None] = {}
        queue, seen = [(node, path)], defaultdict[Binding, set[Path]](set)
        while queue and len(seen) < _MOST_HOLDERS:
            bindings, others = self._named_in(*queue.pop())
            found.update(dict.fromkeys(others))
            for binding, inside in bindings:
                inside = inside if len(seen[binding]) < _MOST_PATHS else anywhere(inside)
                if inside not in seen[binding]:
                    seen[binding].add(inside)
                    found[binding, inside] = None
                    queue += self._made_from(binding, inside)
        return list(found)

    def contents(self, node: cst.CSTNode) -> list[Key]:
        """Where what is put into the value goes, from which it comes to all holders."""
        bindings, others = self._named_in(node, (None,))
        found: list[Key] = [*(key for key, _ in others), *(("contents", binding) for binding, _ in bindings)]
        while bindings:
            binding, path = bindings.pop()
            path = path if len(path) == 1 else anywhere(path)
            if (binding, len(path) == 1) in self._with_contents:
                continue
            self._with_contents.add((binding, len(path) == 1))
            self.graph.link(("contents", binding), binding)
            for part, inside in self._made_from(binding, path):
                inner, outside = self._named_in(part, inside)
                for key in (*(key for key, _ in outside), *(("contents", b) for b, _ in inner)):
                    self.graph.link(("contents", binding), key)
                bindings += inner
        return list(dict.fromkeys(found))

    def _made_from(self, binding: Binding, path: Path) -> list[tuple[cst.CSTNode, Path]]:
        """What the binding has its value from, and how the item is found there that `path` leads to."""
        if binding.kind == "param":
            param = cast(cst.Param, binding.node)
            function = self.resolver.function_of_parameter(param)
            given = [(node, path) for node in self.resolver.given(param)]
            return [*given, *((node, anywhere(path)) for node in self.indirect.given_to(function))]
        if binding.value is None:
            return []
        if binding.kind == "for":
            return [(binding.value, anywhere(path) if binding.path else (None, *path))]
        part = part_at(binding.value, binding.path)
        return [(binding.value, anywhere(path)) if part is None else (part, path)]

    def _named_in(self, node: cst.CSTNode, path: Path) -> tuple[list[tuple[Binding, Path]], list[tuple[Key, Path]]]:
        """The bindings of the names and attributes that the value may be, or be a part of, and their attributes and
        objects; each with the keys that lead from there to the item to which `path` leads from the value."""
        bindings: dict[tuple[Binding, Path], None] = {}
        others: dict[tuple[Key, Path], None] = {}
        queue: list[tuple[cst.CSTNode, Path]] = [(node, path)]
        seen: set[tuple[cst.CSTNode, Path]] = set()
        while queue:
            part, path = queue.pop()
            path = path if len(path) <= _MOST_PATHS else anywhere(path)
            if (part, path) in seen or self._is_fixed(part):
                continue
            seen.add((part, path))
            named: Iterable[Binding] = ()
            if isinstance(part, cst.Name):
                named = self.names.bindings_of(part)
                objects = [v for v in self.resolver.values(part) if isinstance(v, Object)]
                others.update(dict.fromkeys((("changed", v.of.node), path) for v in objects))
            elif isinstance(part, cst.Attribute):
                others[("attribute", part.attr.value), path] = None
                named = self.names.bindings_of_attribute(part)
                if part.attr.value in VIEWING_ATTRIBUTES or self._is_of_library(part.value):
                    queue.append((part.value, anywhere(path)))
                if holds_attributes(part):  # `state.__dict__.setdefault("losses", [])`
                    queue.append((part.value, anywhere(path)))
                    if isinstance(path[0], str) and len(path) > 1:
                        others[("attribute", path[0]), path[1:]] = None
                        named = [*named, *self.tree.attributes.get(path[0], ())]
            elif isinstance(part, cst.Call):
                queue += self.handed_back.by(part, path)
                others.update(dict.fromkeys((("changed", f), path) for f in self.handed_back.remembering(part)))
                others.update(
                    dict.fromkeys((("changed", cls.node), path) for cls in self.handed_back.behind_super(part))
                )
                name = self.namespaces.attribute_asked_for(part)
                if name is not None:
                    others[("attribute", name), path] = None
                    named = self.tree.attributes.get(name, ())
            elif isinstance(part, cst.Subscript):
                key = constant_key(part)
                queue.append((part.value, path if is_slice(part) else (key, *path)))
                if key is not None and holds_attributes(part.value):  # `vars(state)["best"]`
                    others[("attribute", key), path] = None
                    named = self.tree.attributes.get(key, ())
                elif self.namespaces.is_namespace(part.value):
                    named = self.namespaces.bound_in(part.value, key)
            else:
                queue += parts_with(part, path)
            bindings.update(dict.fromkeys((b, path) for b in named if b.kind not in ("import", "def", "class")))
            for holder in (*named, *((("attribute", part.attr.value),) if isinstance(part, cst.Attribute) else ())):
                for keys, value in self._put_into.get(holder, ()):
                    inside = behind(keys, path)
                    if inside is not None and (keys or len(path) > 1):  # what is joined to it is a copy
                        queue.append((value, inside))
        return list(bindings), list(others)

    @cached_property
    def _put_into(self) -> dict[Key, list[tuple[Path, cst.CSTNode]]]:
        """By the name or attribute that holds the container what is put into it, under which keys: what is changed
        there in place is changed under the names that it has besides."""
        found: dict[Key, list[tuple[Path, cst.CSTNode]]] = defaultdict(list)
        puts: list[tuple[cst.BaseExpression, Path, cst.CSTNode]] = []
        puts += [(target.value, (constant_key(target),), value) for target, value in self.tree.item_assignments]
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in COLLECTING:
                for arg in call.args:
                    puts.append((call.func.value, () if call.func.attr.value in JOINING else (None,), arg.value))
        for container, keys, value in puts:
            while isinstance(container, cst.Subscript):
                container, keys = container.value, (constant_key(container), *keys)
            if isinstance(value, (cst.BaseNumber, cst.BaseString)) or self._is_fixed(value):
                continue
            if isinstance(container, cst.Name):
                for binding in self.names.bindings_of(container):
                    found[binding].append((keys, value))
            elif isinstance(container, cst.Attribute):
                found["attribute", container.attr.value].append((keys, value))
        return found

    def _is_of_library(self, node: cst.BaseExpression) -> bool:
        """Whether a library has made the object, of which an attribute may be a view: `frame.loc[step] = loss`. Models
        and optimizers have walks of their own."""
        values = self.resolver.values(node)
        return any(origin(v) for v in values) and not any(map(self._has_own_walk, values))

    def _has_own_walk(self, value: Value) -> bool:
        return self.kinds.has_weights(value) or self.kinds.is_optimizer(value)

    def _is_fixed(self, node: cst.CSTNode) -> bool:
        """Whether the expression is a dataset, or says whether Keras trains: nothing changes these."""
        values = self.resolver.values(node) if isinstance(node, (cst.Name, cst.Attribute, cst.Call)) else ()
        return bool(values) and (all(map(self.kinds.is_dataset, values)) or self._tells_training(node, values))

    def _tells_training(self, node: cst.CSTNode, values: Values) -> bool:
        """Whether it is the `training` of a `call` that Keras runs, given by Keras, or `True` and the like."""
        if not isinstance(node, cst.Name) or node.value != "training":
            return False
        functions = [self.tree.callable_of(b.node) for b in self.names.bindings_of(node) if b.kind == "param"]
        owners = [self.tree.class_of(f) for f in functions if isinstance(f, cst.FunctionDef) and f.name.value == "call"]
        return (
            len(owners) == len(self.names.bindings_of(node))
            and all(owner is not None and is_of_keras(Object(Class(owner)), self.resolver) for owner in owners)
            and all(isinstance(v, Parameter) or v in _ANSWERS for v in values)
        )
