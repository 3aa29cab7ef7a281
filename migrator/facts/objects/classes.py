"""The program's classes: their bases, methods and attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Callable, cast

import libcst as cst

from migrator.facts.objects.values import Class, External, Object, Value, Values
from migrator.facts.program.syntax import argument, declared_fields, is_abstract
from migrator.facts.program.tree import Binding, Tree


class Classes:
    """`values` evaluates an expression, `binding_values` what a binding gives."""

    def __init__(
        self,
        tree: Tree,
        values: Callable[[cst.CSTNode], Values],
        binding_values: Callable[[Binding], Values],
    ) -> None:
        self.tree = tree
        self._values = values
        self._binding_values = binding_values

    def bases(self, cls: Class) -> Iterator[Value]:
        for arg in cls.node.bases:
            yield from self._values(arg.value)

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases as far as the script defines them."""
        found, queue = [], [cls]
        while queue:
            current = queue.pop(0)
            if current not in found:
                found.append(current)
                queue.extend(base for base in self.bases(current) if isinstance(base, Class))
        return found

    def derives_from(self, cls: Class, is_wanted: Callable[[str], bool]) -> bool:
        return any(
            isinstance(base, External) and is_wanted(base.path)
            for ancestor in self.lineage(cls)
            for base in self.bases(ancestor)
        )

    def methods_of(self, cls: Class) -> list[cst.FunctionDef]:
        """The methods of the class and of those that it derives from, but for those that Python calls by itself."""
        owners = {ancestor.node for ancestor in self.lineage(cls)}
        return [f for f in self.tree.functions if self.tree.class_of(f) in owners and not f.name.value.startswith("__")]

    def method(self, cls: Class, name: str) -> cst.FunctionDef | None:
        for ancestor in self.lineage(cls):
            for binding in self.tree.scopes[ancestor.node].bindings.get(name, ()):
                if isinstance(binding.node, cst.FunctionDef):
                    return binding.node
        return None

    def methods(self, base: Object, name: str) -> list[cst.FunctionDef]:
        """The methods of that name which the object may have: `self` may be one of a subclass, which has its own."""
        own = self.method(base.of, name)
        found = [own] if own is not None else []
        if base.call is None:
            for cls in self._subclasses.get(base.of, ()):
                for binding in self.tree.scopes[cls.node].bindings.get(name, ()):
                    if isinstance(binding.node, cst.FunctionDef) and binding.node not in found:
                        found.append(binding.node)
        return [m for m in found if not is_abstract(m)] or found

    def methods_behind(self, cls: Class, name: str) -> list[cst.FunctionDef | None]:
        """The methods that `super().name` may be in the class: those of the bases that come next to it, in its own line
        and in those of its subclasses, where others may stand between; None for one of another library."""
        found: list[cst.FunctionDef | None] = []
        for heir in (cls, *self._subclasses.get(cls, ())):
            lineage = self.lineage(heir)
            behind = lineage[lineage.index(cls) + 1 :]
            own = (b.node for c in behind for b in self.tree.scopes[c.node].bindings.get(name, ()))
            found.append(next((node for node in own if isinstance(node, cst.FunctionDef)), None))
        return list(dict.fromkeys(found))

    @cached_property
    def _subclasses(self) -> dict[Class, list[Class]]:
        found: dict[Class, list[Class]] = defaultdict(list)
        for node in self.tree.classes:
            for ancestor in self.lineage(Class(node))[1:]:
                found[ancestor].append(Class(node))
        return found

    def class_attribute(self, cls: Class, name: str, is_self: bool = False) -> list[Value]:
        return [v for b in self.class_bindings(cls, name, is_self) for v in self._binding_values(b)]

    def class_bindings(self, cls: Class, name: str, is_self: bool = False) -> list[Binding]:
        """Where the class or one of its bases gives the name a value in its body, or `Class.name = …` does; of `self`
        also one of its subclasses."""
        lineage = [*self.lineage(cls), *(self._subclasses.get(cls, ()) if is_self else ())]
        found = [b for ancestor in lineage for b in self.tree.scopes[ancestor.node].bindings.get(name, ())]
        for binding in self.tree.attributes.get(name, ()):
            owners = self._values(cast(cst.Attribute, binding.target).value)
            if any(owner in lineage for owner in owners if isinstance(owner, Class)):
                found.append(binding)
        return found

    def attribute_bindings(self, cls: Class, name: str) -> list[Binding]:
        """Where `self.name` of the class, its bases or its subclasses gets a value, or `obj.name` from outside."""
        family = set(self.lineage(cls))
        found = []
        for binding in self.tree.attributes.get(name, ()):
            target = cast(cst.Attribute, binding.target)
            for owner in self._values(target.value):
                if isinstance(owner, Object) and (owner.of in family or cls in self.lineage(owner.of)):
                    found.append(binding)
                    break
        return [*found, *self._field_bindings(cls, name)]

    def _field_bindings(self, cls: Class, name: str) -> Iterator[Binding]:
        """What a dataclass or NamedTuple is called with for the field of that name."""
        for record in [c for c in self.lineage(cls) if name in declared_fields(c.node)]:
            for call in self._made.get(record.node.name.value, ()):
                made = next((v for v in self._values(call.func) if isinstance(v, Class)), None)
                if made is None or record not in self.lineage(made) or self.method(made, "__init__") is not None:
                    continue
                fields = [field for c in reversed(self.lineage(made)) for field in declared_fields(c.node)]
                given = argument(call, name, fields.index(name))
                if given is not None:
                    yield Binding(name, "field", call, given.value)

    @cached_property
    def _made(self) -> dict[str, list[cst.Call]]:
        """The calls of what has the name of a class."""
        found: dict[str, list[cst.Call]] = defaultdict(list)
        for call in self.tree.calls:
            func = call.func
            name = (
                func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
            )
            found[name].append(call)
        return found
