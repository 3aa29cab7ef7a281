"""How marks spread through the graph of dependence/, and how they are taken back without a walk over all of it.

Each value remembers from which others its marks came first. What no such path leads to from a value keeps its marks
when that value loses its own; the rest is walked anew.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
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
        # First come, first served: paths stay short, and little hangs on each value that is taken back. What comes
        # while a value waits goes on together.
        waiting: dict[int, Marks] = {}
        for number, mark in origins:
            waiting[number] = waiting.get(number, 0) | mark
        queue = deque(waiting)
        while queue:
            number = queue.popleft()
            known, mark = marks.get(number, 0), waiting.pop(number)
            if not mark & ~known:
                continue
            marks[number] = mark = known | mark
            self._reach(number, mark)
            chooses = number not in agreed
            for user, way in edges[number]:
                passed = self._passed[way][mark]
                if not passed & ~marks.get(user, 0) or user in closed or not self._lets_in(user):
                    continue
                if chooses or way not in DECIDING:
                    children[number].append(user)
                    if user not in waiting:
                        queue.append(user)
                    waiting[user] = waiting.get(user, 0) | passed

    def take_back(
        self, numbers: Iterable[int], origins: Mapping[int, Marks], closed: Collection[int], agreed: Collection[int]
    ) -> None:
        """Finds anew what marks these values have, and those that have theirs from them."""

        def given(number: int, lost: Collection[int]) -> tuple[Marks, list[int]]:
            """Its own marks and those that it takes from values that keep theirs, with these values."""
            mark, givers = origins.get(number, 0), []
            if number not in closed and self._lets_in(number):
                for source, way in self.dependence.sources[number]:
                    passed = 0 if source in lost else self._passed[way][self.marks.get(source, 0)]
                    if passed and (way not in DECIDING or source not in agreed):
                        mark |= passed
                        givers.append(source)
            return mark, givers

        changed = [number for number in numbers if number in self.marks]
        lost, hanging = self._hanging_on(changed)
        queue, asked = deque(changed), set[int]()
        while queue:
            number = queue.popleft()
            if number in asked or number not in lost:
                continue
            asked.add(number)
            mark, givers = given(number, lost)
            if self.marks.get(number, 0) & ~mark:
                queue += self._children.get(number, ())
                continue
            for source in givers:
                self._children[source].append(number)
            self._keep(number, lost, hanging)
        for number in lost:
            self.marks.pop(number, None)
            self._children.pop(number, None)
        again = []
        for number in lost:
            mark, givers = given(number, ())
            for source in givers:
                self._children[source].append(number)
            if mark:
                again.append((number, mark))
        self.add(again, closed, agreed)

    def _hanging_on(self, numbers: Iterable[int]) -> tuple[set[int], dict[int, int]]:
        """These and all that may have marks from them, and on how many of them each hangs."""
        queue = list(numbers)
        found, hanging = set(queue), Counter(queue)  # those hang on what has changed, too
        while queue:
            for child in self._children.get(queue.pop(), ()):
                hanging[child] += 1
                if child not in found:
                    found.add(child)
                    queue.append(child)
        return found, hanging

    def _keep(self, number: int, lost: set[int], hanging: dict[int, int]) -> None:
        """Takes the value from what is lost, and all that hangs on nothing else that is."""
        queue = [number]
        while queue:
            number = queue.pop()
            lost.discard(number)
            for child in self._children.get(number, ()):
                hanging[child] -= 1
                if not hanging[child] and child in lost:
                    queue.append(child)
