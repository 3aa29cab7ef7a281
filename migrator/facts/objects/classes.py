"""The program's classes: their bases, methods and attributes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Callable, cast

import libcst as cst

from migrator.facts.objects.heirs import Heirs
from migrator.facts.objects.values import Class, External, Object, Value, Values
from migrator.facts.program.syntax import argument, as_written, declared_fields, is_abstract, is_private
from migrator.facts.program.tree import Binding, Tree


class Classes:
    """`values` evaluates an expression, `binding_values` what a binding gives; `is_known`: see Heirs."""

    def __init__(
        self,
        tree: Tree,
        values: Callable[[cst.CSTNode], Values],
        binding_values: Callable[[Binding], Values],
        is_known: Callable[[cst.CSTNode], bool],
    ) -> None:
        self.tree = tree
        self._values = values
        self._binding_values = binding_values
        self.heirs = Heirs(tree, values, is_known)
        self.bases, self.lineage = self.heirs.bases, self.heirs.line

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
        return self._first(self.lineage(cls), name)

    def of_metaclass(self, cls: Class, name: str) -> cst.FunctionDef | None:
        """The method of that name that the class has from its metaclass, as an object has it from its class."""
        for ancestor in self.lineage(cls):
            for keyword in ancestor.node.keywords:
                if keyword.keyword is not None and keyword.keyword.value == "metaclass":
                    makers = [v for v in self._values(keyword.value) if isinstance(v, Class)]
                    return next((method for v in makers if (method := self.method(v, name)) is not None), None)
        return None

    def methods(self, base: Object, name: str) -> list[cst.FunctionDef]:
        """The methods of that name which the object may have: `self` may be one of a subclass, which has its own."""
        lines = [self.lineage(base.of)] if base.call is not None else self.heirs.lines(base.of)
        methods = [self._first(line, name) for line in lines]
        found = list(dict.fromkeys(method for method in methods if method is not None))
        return [m for m in found if not is_abstract(m)] or found

    def private_method(self, node: cst.Attribute) -> cst.FunctionDef | None:
        """The method that `self.__name` is: that of the class in which it is written, whatever others have."""
        cls = self.tree.class_around(node) if is_private(node.attr.value) else None
        return self._first([Class(cls)], node.attr.value) if cls is not None else None

    def methods_behind(self, cls: Class, name: str) -> list[cst.FunctionDef | None]:
        """The methods that `super().name` may be in the class: those of the bases that come next to it, in its own line
        and in those of its subclasses, where others may stand between; None for one of another library."""
        found = [self._first(line[line.index(cls) + 1 :], name) for line in self.heirs.lines(cls)]
        return list(dict.fromkeys(found))

    def _first(self, line: Sequence[Class], name: str) -> cst.FunctionDef | None:
        bindings = (b.node for cls in line for b in self._bound_in(cls, name))
        return next((node for node in bindings if isinstance(node, cst.FunctionDef)), None)

    def _bound_in(self, cls: Class, name: str) -> Sequence[Binding]:
        return self.tree.scopes[cls.node].bindings.get(as_written(name, cls.node), ())

    def kin(self, cls: Class) -> list[Class]:
        """The classes whose methods and attributes `self` of a method of the class may have: its own line, and those of
        its subclasses, in which others stand beside it (`class Trainer(Logging, Base)`)."""
        return list(dict.fromkeys(each for line in self.heirs.lines(cls) for each in line))

    def class_attribute(self, cls: Class, name: str, is_self: bool = False) -> list[Value]:
        return [v for b in self.class_bindings(cls, name, is_self) for v in self._binding_values(b)]

    def class_bindings(self, cls: Class, name: str, is_self: bool = False) -> list[Binding]:
        """Where the class or one of its bases gives the name a value in its body, or `Class.name = …` does; of `self`
        also one of its kin."""
        lineage = self.kin(cls) if is_self else self.lineage(cls)
        found = [b for ancestor in lineage for b in self._bound_in(ancestor, name)]
        for binding in self.tree.attributes.get(name, ()):
            owners = self._values(cast(cst.Attribute, binding.target).value)
            if any(owner in lineage for owner in owners if isinstance(owner, Class)):
                found.append(binding)
        return found

    def declares(self, cls: Class, name: str) -> bool:
        """Whether the name is a field that the class or a base of it declares with a type."""
        return any(name in declared_fields(each.node) for each in self.lineage(cls))

    def attribute_bindings(self, cls: Class, name: str) -> list[Binding]:
        """Where `self.name` of the class or its kin gets a value, or `obj.name` from outside."""
        family = self.kin(cls)
        found = []
        for binding in self.tree.attributes.get(name, ()):
            target = cast(cst.Attribute, binding.target)
            for owner in self._values(target.value):
                if isinstance(owner, Object) and owner.of in family:
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
