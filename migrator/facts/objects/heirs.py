"""Of which classes `self` may be: those in whose lines of bases a class stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.objects.values import Class, Function, Parameter, Result, Unknown, Value, Values
from migrator.facts.program.linearisation import linearised
from migrator.facts.program.tree import Tree


class Heirs:
    """`values` evaluates an expression; `is_known` says whether what that gives is settled."""

    def __init__(
        self, tree: Tree, values: Callable[[cst.CSTNode], Values], is_known: Callable[[cst.CSTNode], bool]
    ) -> None:
        self.tree = tree
        self._values = values
        self._is_known = is_known
        self._known_lines: dict[cst.ClassDef, list[Class]] = {}

    def forget(self) -> None:
        """What was told of bases that are parameters, before the calls were known that give them."""
        self.__dict__.pop("_of", None)
        self._known_lines.clear()

    @cached_property
    def hang_on_calls(self) -> bool:
        """Whether calls give classes their bases, so that those of methods are known after them only."""
        return any(node.bases and self.tree.function_of(node) is not None for node in self.tree.classes)

    def bases(self, cls: Class) -> Iterator[Value]:
        for arg in cls.node.bases:
            yield from self._values(arg.value)

    def line(self, cls: Class) -> list[Class]:
        """The class and its bases as far as the script defines them, in the order in which they are asked."""
        line = self._known_lines.get(cls.node)
        if line is None:
            line = linearised(cls, lambda each: [base for base in self.bases(each) if isinstance(base, Class)])
            if all(self._is_known(arg.value) for each in line for arg in each.node.bases):
                self._known_lines[cls.node] = line
        return line

    def lines(self, cls: Class) -> list[list[Class]]:
        """The line of the class, then those of the classes that derive from it; of a class with a base that is not seen
        (`def cooled(cls): class Cooled(cls)`), whatever it may derive from."""
        return list(map(list, dict.fromkeys(map(tuple, [self.line(cls), *self._of.get(cls, ())]))))

    def subclasses(self, cls: Class) -> list[Class]:
        """The classes that are written out and derive from it."""
        return [Class(node) for node in self.tree.classes if cls in self.line(Class(node))[1:]]

    @cached_property
    def _of(self) -> dict[Class, list[list[Class]]]:
        found: dict[Class, list[list[Class]]] = defaultdict(list)
        for line in self._lines():
            for base in line:
                found[base].append(line)
        return found

    def _lines(self) -> Iterator[list[Class]]:
        for node in self.tree.classes:
            cls, *bases = self.line(Class(node))
            yield [cls, *bases]
            for handed in self._handed if self._has_unseen_base(cls) else ():
                before = [each for each in self.line(handed) if each != cls]
                yield [cls, *before, *(base for base in bases if base not in before)]

    def _has_unseen_base(self, cls: Class) -> bool:
        values = [(arg, self._values(arg.value)) for arg in cls.node.bases if arg.keyword is None]
        return any(arg.star or not found or any(map(_is_unseen, found)) for arg, found in values)

    @cached_property
    def _handed(self) -> list[Class]:
        """The classes that decorators or functions may get, and derive others from."""
        return [Class(node) for node in self.tree.classes if node.decorators or self._is_handed_on(node)]

    def _is_handed_on(self, node: cst.ClassDef) -> bool:
        return any(self._is_argument(name) for name in self.tree.names[node.name.value] if name is not node.name)

    def _is_argument(self, name: cst.Name) -> bool:
        parent = self.tree.parent.get(name)
        if isinstance(parent, (cst.Element, cst.DictElement, cst.Assign, cst.Return)):
            return True
        return isinstance(parent, cst.Arg) and isinstance(self.tree.parent.get(parent), cst.Call)


def _is_unseen(value: Value) -> bool:
    if isinstance(value, Result):
        return isinstance(value.function, (Function, Parameter))
    return isinstance(value, (Parameter, Unknown))
