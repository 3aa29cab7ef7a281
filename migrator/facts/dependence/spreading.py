"""How marks spread through the graph of dependence/, and how they are taken back without a walk over all of it.

Each value remembers from which others its marks came first. What no such path leads to from a value keeps its marks
when that value loses its own; the rest is walked anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from migrator.facts.dependence import DECIDING, Dependence, Key

Marks = int  # any number of them, joined by "|"


class Spread:
    """The marks of all values, by their numbers. `passed[way][marks]`: what enters another value in that way.
    `lets_in` says whether a value takes any, `reach` is called of each value before its marks go on, and with them."""

    def __init__(
        self,
        dependence: Dependence,
        passed: Sequence[Sequence[Marks]],
        lets_in: Callable[[int], bool],
        reach: Callable[[int, Marks], None],
    ) -> None:
        self.dependence = dependence
        self.marks: dict[int, Marks] = {}
        self._passed = passed
        self._lets_in = lets_in
        self._reach = reach
        self._children: dict[int, list[int]] = defaultdict(list)

    def of(self, key: Key) -> Marks:
        return self.marks.get(self.dependence.number(key), 0)

    def copy(self) -> Spread:
        """One that can be changed while this stays; their memories of paths may name the same lists, to which only
        ever more is added."""
        other = Spread(self.dependence, self._passed, self._lets_in, self._reach)
        other.marks = dict(self.marks)
        other._children = self._children.copy()
        return other

    def add(self, origins: Iterable[tuple[int, Marks]], closed: Collection[int], agreed: Collection[int]) -> None:
        """Gives values marks of their own, and others what these pass on; the `closed` take none from others, the
        `agreed` choose nothing."""
        marks, edges, children = self.marks, self.dependence.edges, self._children
        queue = list(origins)
        while queue:
            number, mark = queue.pop()
            known = marks.get(number, 0)
            if not mark & ~known:
                continue
            marks[number] = mark = known | mark
            self._reach(number, mark)
            for user, way in edges[number]:
                passed = self._passed[way][mark]
                if not passed & ~marks.get(user, 0) or user in closed or not self._lets_in(user):
                    continue
                if way not in DECIDING or number not in agreed:
                    queue.append((user, passed))
                    children[number].append(user)

    def take_back(
        self, numbers: Iterable[int], origins: Mapping[int, Marks], closed: Collection[int], agreed: Collection[int]
    ) -> None:
        """Finds anew what marks these values have, and those that have theirs from them."""
        lost: set[int] = set()
        queue = [number for number in numbers if number in self.marks]
        while queue:
            number = queue.pop()
            if number not in lost:
                lost.add(number)
                queue += self._children.pop(number, ())
        for number in lost:
            self.marks.pop(number, None)
        again = []
        for number in lost:
            mark = origins.get(number, 0)
            if number not in closed and self._lets_in(number):
                for source, way in self.dependence.sources[number]:
                    passed = self._passed[way][self.marks.get(source, 0)]
                    if passed and (way not in DECIDING or source not in agreed):
                        mark |= passed
                        self._children[source].append(number)
            if mark:
                again.append((number, mark))
        self.add(again, closed, agreed)
