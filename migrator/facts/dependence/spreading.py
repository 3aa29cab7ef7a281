"""How marks spread through the graph of dependence/, and how they are taken back without a walk over all of it.

Each value remembers when it got each of its marks: later than the values from which it took them. So marks that are
taken back are followed in the order in which they came, and end wherever a value has its own from another one as early.
Where they do not end soon, what is left of them is spread anew: that takes as long as is left, and looks at no source.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from migrator.facts.dependence import DECIDING, Dependence, Key

Marks = int  # any number of them, joined by "|"


class Spread:
    """The marks of all values, by their numbers. `passed[way][marks]`: what enters another value in that way, of each
    mark whatever stands beside it. `lets_in` says whether a value takes any, `reach` is called of each value before its
    marks go on, and with them."""

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
        self._time = 0
        # The times at which values got marks, with these.
        self._came: dict[int, tuple[tuple[int, Marks], ...]] = {}

    def of(self, key: Key) -> Marks:
        return self.marks.get(self.dependence.number(key), 0)

    def copy(self) -> Spread:
        """One that can be changed while this stays."""
        other = Spread(self.dependence, self._passed, self._lets_in, self._reach)
        other.marks = self.marks.copy()
        other._time, other._came = self._time, self._came.copy()
        return other

    def add(self, origins: Iterable[tuple[int, Marks]], closed: Collection[int], agreed: Collection[int]) -> None:
        """Gives values marks of their own, and others what these pass on; the `closed` take none from others, the
        `agreed` choose nothing."""
        marks, edges = self.marks, self.dependence.edges
        # First come, first served: paths stay short, and little follows from each value that is taken back. What comes
        # while a value waits goes on together.
        waiting: dict[int, Marks] = {}
        for number, mark in origins:
            waiting[number] = waiting.get(number, 0) | mark
        queue = deque(waiting)
        while queue:
            number = queue.popleft()
            known, mark = marks.get(number, 0), waiting.pop(number)
            new = mark & ~known
            if not new:
                continue
            self._time += 1
            self._came[number] = (*self._came.get(number, ()), (self._time, new))
            marks[number] = mark = known | mark
            self._reach(number, mark)
            chooses = number not in agreed
            for user, way in edges[number]:
                passed = self._passed[way][mark]
                if not passed & ~marks.get(user, 0) or user in closed or not self._lets_in(user):
                    continue
                if chooses or way not in DECIDING:
                    if user not in waiting:
                        queue.append(user)
                    waiting[user] = waiting.get(user, 0) | passed

    def take_back(
        self, numbers: Iterable[int], origins: Mapping[int, Marks], closed: Collection[int], agreed: Collection[int]
    ) -> None:
        """Finds anew what marks these values have, and those that have theirs from them."""
        marks, came = self.marks, self._came
        edges, sources = self.dependence.edges, self.dependence.sources
        passed_in, lets_in = self._passed, self._lets_in

        def given(number: int, wanted: Marks, time: int) -> Marks:
            """Which of these marks are its own, or come from values that have theirs from before that time."""
            mark = origins.get(number, 0)
            if number not in closed and lets_in(number):
                for source, way in sources[number]:
                    if not wanted & ~mark:
                        break
                    times = came.get(source)
                    # Most have none, or none of this time; what chooses nothing is looked up last.
                    if times is None or times[0][0] >= time:
                        continue
                    before = marks[source] if times[-1][0] < time else sum(m for at, m in times if at < time)
                    new = passed_in[way][before] & wanted & ~mark
                    if new and (way not in DECIDING or source not in agreed):
                        mark |= new
            return mark & wanted

        changed = {number for number in numbers if number in self.marks}
        # By the times, which no two share.
        asked = {time: (number, mark) for number in changed for time, mark in came[number]}
        queue = list(asked)
        heapify(queue)
        left = len(marks)  # of the sources that may be looked at in vain, before all is spread anew
        while queue and left >= 0:
            time = heappop(queue)
            number, mark = asked[time]
            gone = mark & ~given(number, mark, time)
            if not gone:
                continue
            left -= len(sources[number])
            changed.add(number)
            self._lose(number, gone)
            for user, way in edges[number]:
                passed = passed_in[way][gone]
                for at, mark in came.get(user, ()) if passed else ():
                    if at > time and mark & passed and at not in asked:
                        asked[at] = user, mark
                        heappush(queue, at)
        if left < 0:
            self.marks, self._came = {}, {}
            self.add(origins.items(), closed, agreed)
            return
        now = self._time + 1
        self.add([(number, given(number, -1, now)) for number in changed], closed, agreed)

    def _lose(self, number: int, gone: Marks) -> None:
        kept = self.marks[number] & ~gone
        if kept:
            self.marks[number] = kept
            self._came[number] = tuple((at, mark & ~gone) for at, mark in self._came[number] if mark & ~gone)
        else:
            del self.marks[number], self._came[number]
