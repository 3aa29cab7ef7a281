"""The classes of the program: their bases, what they define, and what of that their objects have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame, Names
from migrator.analysis.libraries.python.holders import is_namespace
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import (
    NOTHING,
    Bound,
    Class,
    Container,
    External,
    Function,
    Instance,
    Made,
    Site,
    Tuple,
    Value,
)
from migrator.facts.program.linearisation import linearised
from migrator.facts.program.syntax import declared_fields, is_private, mangled

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_DECORATED = ("property", "static", "class")
_DATACLASS = External("dataclasses.dataclass")
_NAMED_TUPLES = ("typing.NamedTuple", "typing_extensions.NamedTuple")
_MOST_LINES = 16
CUT = -1  # in the context of the site of an object: a worker's part of the one that was made there


@dataclass(eq=False)
class _Definition:
    cls: Class
    ways: list[list[Value]]  # its bases, each time that the definition has run with others
    names: Names
    decorators: list[Value]


_GETTER = "__getattribute__"
_BY_GETTER = v.unseen("what an object gives is not seen whose class decides by `__getattribute__`")


class Classes:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._definitions: dict[cst.ClassDef, _Definition] = {}
        self._are_several = False  # whether a class may have these bases or those
        self._lineages: dict[tuple[int, int], list[Class]] = {}  # as long as nothing is defined
        self._set_later: dict[cst.ClassDef, frozenset[str]] = {}
        self._later: dict[cst.ClassDef, Names] = {}  # numbers that attributes of classes get, whenever that is

    def define(self, cls: Class, bases: Sequence[Value], decorators: Sequence[Value], frame: Frame) -> None:
        known = self._definitions.get(cls.node)
        names = frame.names or {}
        if any(map(is_private, names)):
            names = {mangled(name, cls.node): value for name, value in names.items()}
        if known is not None:
            names = {**{k: x for k, x in known.names.items() if k not in names}, **names}
        for name, value in self._later.get(cls.node, {}).items():
            names[name] = v.join(names.get(name, NOTHING), value)
        ways = known.ways if known is not None else []
        if list(bases) not in ways:
            ways = [*ways, list(bases)]
        self._definitions[cls.node] = _Definition(cls, ways, names, list(decorators))
        self._lineages.clear()
        self._are_several |= len(self._choices(cls)) > 1

    def at(self, node: cst.ClassDef) -> Class | None:
        """The class that the node defines, once that has run."""
        known = self._definitions.get(node)
        return known.cls if known is not None else None

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases as far as the program defines them, in the order in which they are asked."""
        key = (id(cls.node), id(cls.frame))
        if key not in self._lineages:
            self._lineages[key] = linearised(
                cls, lambda each: [b for base in self._bases(each) for b in base if isinstance(b, Class)]
            )
        return self._lineages[key]

    def lines(self, cls: Class) -> list[list[Class]]:
        """The same, one for each of the bases that a name may stand for (`class T(mixin, Trainer)` in a function)."""
        lineage = self.lineage(cls)
        if not self._are_several:
            return [lineage]
        choices = [self._choices(each) for each in lineage]
        if prod(map(len, choices)) > _MOST_LINES:
            return [lineage]
        found = (linearised(cls, dict(zip(lineage, chosen)).__getitem__) for chosen in product(*choices))
        return [list(line) for line in dict.fromkeys(map(tuple, found))]

    def _choices(self, cls: Class) -> list[tuple[Class, ...]]:
        """The bases that the class may have, one of each at a time."""
        known = self._definitions.get(cls.node)
        found: dict[tuple[Class, ...], None] = {}
        for way in known.ways if known is not None else ():
            slots = [classes for base in way if (classes := [b for b in base if isinstance(b, Class)])]
            if prod(map(len, slots)) > _MOST_LINES:
                return [tuple(b for slot in slots for b in slot)]
            found.update(dict.fromkeys(product(*slots)))
        return list(found) or [()]

    def is_seen(self, cls: Class) -> bool:
        """Whether all classes that it comes from are seen: the program's, and those of libraries by their names."""
        return all(
            base.data is None and base.objects and all(isinstance(b, (Class, External)) for b in base)
            for each in self.lineage(cls)
            for base in self._bases(each)
        )

    def heirs(self, cls: Class) -> list[Class]:
        """The class and those that derive from it."""
        known = [definition.cls for definition in self._definitions.values()]
        return [cls, *(each for each in known if each != cls and cls in self.lineage(each))]

    def _bases(self, cls: Class) -> list[Value]:
        known = self._definitions.get(cls.node)
        return [base for way in known.ways for base in way] if known is not None else []

    def external_bases(self, cls: Class) -> list[str]:
        """The classes of other libraries that it comes from, by their dotted names."""
        return [
            base.path
            for ancestor in self.lineage(cls)
            for value in self._bases(ancestor)
            for base in value
            if isinstance(base, (External, Made))
        ]

    def behind(self, cls: Class, of: Class, name: str) -> Value | None:
        """What an object of one of the classes finds under that name when it is asked behind the other."""
        lines = [line for line in self.lines(of) if cls in line] or self.lines(cls)
        return self._joined([line[line.index(cls) + 1 :] for line in lines], name)

    def _joined(self, lines: Sequence[Sequence[Class]], name: str) -> Value | None:
        found = [value for line in lines if (value := self._first_of(line, name)) is not None]
        return v.join_all(found) if found else None

    def _first_of(self, classes: Sequence[Class], name: str) -> Value | None:
        """What the first of them holds that holds anything under that name."""
        for cls in classes:
            known = self._definitions.get(cls.node)
            if known is not None and name in known.names:
                return known.names[name]
        return None

    def of_class(self, cls: Class, name: str) -> Value | None:
        """What the class or a base of it that the program defines holds under that name."""
        return self._joined(self.lines(cls), name)

    def maker(self, cls: Class) -> Value | None:
        """Its `__new__`, where the program defines one."""
        found = self.of_class(cls, "__new__")
        return self.bound(found, v.of(cls)) if found is not None else None

    def inherited(self, cls: Class, name: str) -> Value | None:
        """What the bases of the class define, bound to the class."""
        found = self.behind(cls, cls, name)
        return self.bound(found, v.of(cls)) if found is not None else None

    def method(self, instance: Instance, name: str) -> Value | None:
        """The method of that name which the program defines, bound to the object."""
        found = self.of_class(instance.cls, name)
        bound = self.bound(found, v.of(instance)) if found is not None else None
        # `layer.call = function`; Python looks for dunder methods in the class only.
        own = self.run.heap.load(instance, name) if not name.startswith("__") else NOTHING
        if not name.startswith("__") and found is not None and self.of_class(instance.cls, _GETTER) is not None:
            own = v.join(own, _BY_GETTER)
        return bound if own is NOTHING else v.join(own, bound or NOTHING)

    def bound(self, found: Value, receiver: Value) -> Value:
        """What a class holds, as it is asked for by its object, or by the class."""
        known = decorated(found)
        if known is not None:
            kind, inner = known
            return inner if kind == "static" else self.bound(inner, receiver)
        got = [self._got(o, receiver) for o in found.objects if isinstance(o, Instance)]
        objects = frozenset(Bound(o, receiver) if isinstance(o, Function) else o for o in found.objects)
        if not any(value is not None for value in got):
            return Value(found.data, objects)
        others = frozenset(o for o in objects if not isinstance(o, Instance) or self._got(o, receiver) is None)
        return v.join_all([Value(found.data, others), *(value for value in got if value is not None)])

    def _got(self, held: Instance, receiver: Value) -> Value | None:
        """What a descriptor of the program's gives for the object that is asked; None for what is none."""
        getter = self.method(held, "__get__") if self.of_class(held.cls, "__get__") is not None else None
        if getter is None or not isinstance(receiver.only, Instance):
            return None
        frame = self.run.frames[self.run.tree.module_of(held.cls.node)]
        given = Arguments([receiver, v.of(receiver.only.cls)])
        return self.run.calls.call(getter, given, held.site.node, frame)

    def fields(self, cls: Class) -> list[str]:
        """The fields of a dataclass or NamedTuple, those of its bases first."""
        return [name for each in reversed(self.lineage(cls)) for name in declared_fields(each.node)]

    def is_record(self, cls: Class) -> bool:
        """Whether it is a dataclass or NamedTuple, of which `shard_batch` cuts the fields."""
        if self.is_named_tuple(cls):
            return True
        known = [self._definitions[each.node] for each in self.lineage(cls) if each.node in self._definitions]
        return any(d.only == _DATACLASS for definition in known for d in definition.decorators)

    def is_named_tuple(self, cls: Class) -> bool:
        return any(path in _NAMED_TUPLES for path in self.external_bases(cls))

    def cut(
        self,
        instance: Instance,
        share: Callable[[str, Value], Value],
        stays: Callable[[str, Value], bool],
    ) -> Instance:
        """The object with a worker's part in each of its fields, but for those that stay as they are; itself where it
        is no record of arrays."""
        heap, site = self.run.heap, instance.site
        fields = self.fields(instance.cls)
        held = {name: self._field(instance, name) for name in fields}
        cut = {name: value for name, value in held.items() if not stays(name, value)}
        is_cut = site.context[-1:] == (CUT,)
        if is_cut or not cut or not self.is_record(instance.cls) or not all(map(self._may_have_rows, cut.values())):
            return instance
        part = Instance(instance.cls, Site(site.node, (*site.context, CUT)))
        for name in (*fields, *(key for key in heap.fields(instance) if key not in held)):
            heap.store(part, name, share(name, held[name]) if name in held else heap.load(instance, name))
        return part

    def _field(self, instance: Instance, name: str) -> Value:
        """What the object has been made with, or the default that the class has for it."""
        given = self.run.heap.load(instance, name)
        return given if given is not NOTHING else self.of_class(instance.cls, name) or NOTHING

    def _may_have_rows(self, value: Value) -> bool:
        """Whether it may be an array, or hold some, and surely is no number, text or model, which are not cut."""
        data = value.data
        if data is not None and data.constant is not None and (data.constant is not NOT_CONSTANT or data.rank == 0):
            return False
        return all(
            isinstance(o, (Container, Tuple)) or is_namespace(o) or (isinstance(o, Instance) and self.is_record(o.cls))
            for o in value.objects
        )

    def set_by_methods(self, cls: Class) -> set[str]:
        """The attributes of its objects that methods set, or call for what these do, once the objects are made."""
        return {name for each in self.lineage(cls) for name in self._set_by_methods(each.node)}

    def _set_by_methods(self, node: cst.ClassDef) -> frozenset[str]:
        known = self._set_later.get(node)
        if known is None:
            known = self._set_later[node] = frozenset(self._sets(node))
        return known

    def _sets(self, node: cst.ClassDef) -> Iterator[str]:
        tree = self.run.tree
        if node not in tree.order:
            return  # of a package
        for attribute in tree.all_of(cst.Attribute):
            function = tree.function_of(attribute) if tree.contains(node, attribute) else None
            if function is None or function.name.value == "__init__" or not isinstance(attribute.value, cst.Name):
                continue
            params = function.params.params
            if not params or attribute.value.value != params[0].name.value:
                continue
            inner: cst.CSTNode = attribute
            owner = tree.parent[inner]
            while isinstance(owner, (cst.Subscript, cst.Attribute)) and owner.value is inner:
                owner, inner = tree.parent[owner], owner
            is_called = isinstance(owner, cst.Call) and inner is not attribute
            if is_called or inner in tree.targets:
                yield tree.name_of(attribute)

    def names(self, cls: Class) -> set[str]:
        """All that the class and its bases define, as far as the program does."""
        known = (self._definitions.get(each.node) for each in self.lineage(cls))
        return {name for definition in known if definition is not None for name in definition.names}

    def fill_fields(self, instance: Instance, args: Arguments) -> None:
        """A dataclass or NamedTuple, whose fields are what it is called with."""
        fields = self.fields(instance.cls)
        otherwise = self.run.libraries.kept_otherwise(instance)
        for name, value in (*zip(fields, args.positional), *args.keywords.items()):
            if name not in otherwise:
                self.run.heap.store(instance, name, value)
        if args.rest is not NOTHING:
            for name in fields:
                self.run.heap.store(instance, name, args.rest)

    def set_later(self, cls: Class, name: str, value: Value) -> None:
        """`Class.name = value`, behind the definition."""
        names = self._definitions[cls.node].names
        joined = v.join(self.of_class(cls, name) or NOTHING, value)
        if names.get(name) == joined:
            return
        names[name] = joined
        self.run.heap.change_elsewhere()
        if not value.objects:  # it may have been read before, as what the heap holds
            later = self._later.setdefault(cls.node, {})
            later[name] = v.join(later.get(name, NOTHING), value)
            self.run.heap.is_stale = True

    def getter(self, atom: Instance, name: str) -> Value | None:
        """What runs where the attribute is asked for that is a property."""
        known = decorated(self.of_class(atom.cls, name) or NOTHING)
        return self.bound(known[1], v.of(atom)) if known is not None and known[0] == "property" else None

    def setter(self, atom: Instance, name: str) -> Value | None:
        """What runs where the attribute is set that is a property."""
        found = self.of_class(atom.cls, name)
        held = found.only if found is not None else None
        if isinstance(held, Tuple) and len(held.items) == 3 and held.items[0].constant == "property":
            return self.bound(held.items[2], v.of(atom))
        return None


def decorated(found: Value) -> tuple[str, Value] | None:
    """What a property, static or class method is made of."""
    atom = found.only
    if isinstance(atom, Tuple) and len(atom.items) in (2, 3) and atom.items[0].constant in _DECORATED:
        return str(atom.items[0].constant), atom.items[1]
    return None


def with_setter(prop: Value, setter: Value) -> Value:
    """The property once it has what sets it, too."""
    getter = decorated(prop)
    return v.of(Tuple((v.constant("property"), getter[1] if getter is not None else NOTHING, setter)))
