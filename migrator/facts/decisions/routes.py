"""By which route marks come to a value: sought backwards, and remembered as long as nothing on the route is settled.

The same values are asked about again and again while one number after the other is settled, and what is settled is
seldom on the route that was found first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Optional

from migrator.facts.decisions.marks import TAKEN
from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.dependence.spreading import Marks
from migrator.records import dataclass

End = tuple[int, Marks]
# What a value enters, whether by what it chooses there, and so on to the end.
_Steps = tuple[int, bool, Optional["_Steps"]]


@dataclass(frozen=True, eq=False)
class _Route:
    origin: Key
    marks: Marks  # of the origin
    through: frozenset[Key]
    choosers: frozenset[Key]
    end: End


class Routes:
    def __init__(self, dependence: Dependence, lets_in: Callable[[int], bool]) -> None:
        """`lets_in`: whether the value of that number takes any marks."""
        self.dependence = dependence
        self._lets_in = lets_in
        self._known: dict[object, _Route] = {}

    def lead(
        self,
        question: object,
        origins: Mapping[Key, Marks],
        ends: Sequence[End],
        settled: Collection[Key],
        agreed: Collection[Key],
        known: Mapping[int, Marks] | None = None,
        without: int | None = None,
    ) -> bool:
        """Whether what the origins hand on comes to one of the ends as one of its marks.

        `question`: by what this is remembered. `settled`: what takes no marks unless it is an origin; `agreed`: what
        chooses nothing; `known`: the marks of all values, where it is these that come; `without`: a value that passes
        nothing on."""
        route = self._known.get(question)
        if route is None or not (
            route.end in ends
            and origins.get(route.origin, 0) & route.marks
            and route.through.isdisjoint(settled)
            and route.choosers.isdisjoint(agreed)
        ):
            route = self._sought(origins, ends, settled, agreed, known, without)
            if route is not None:
                self._known[question] = route
        return route is not None

    def forget(self) -> None:
        """Once the graph leads another way."""
        self._known.clear()

    def _sought(
        self,
        origins: Mapping[Key, Marks],
        ends: Sequence[End],
        settled: Collection[Key],
        agreed: Collection[Key],
        known: Mapping[int, Marks] | None,
        without: int | None,
    ) -> _Route | None:
        keys, sources = self.dependence.keys, self.dependence.sources
        seen: dict[int, Marks] = {} if without is None else {without: -1}
        # The shortest route first, on which the least can be settled.
        queue: deque[tuple[int, Marks, _Steps | None, End]] = deque((*end, None, end) for end in ends)
        while queue:
            number, wanted, steps, end = queue.popleft()
            key = keys[number]
            given = origins.get(key, 0)
            if given & wanted:
                return self._route(key, given & wanted, number, steps, end)
            if not self._lets_in(number) or (not given and key in settled):
                continue
            taken = [passed[wanted] for passed in TAKEN]
            for source, way in sources[number]:
                marks = taken[way] & ~seen.get(source, 0)
                if known is not None:
                    marks &= known.get(source, 0)
                if marks and (way is not Way.CHOICE or keys[source] not in agreed):
                    seen[source] = seen.get(source, 0) | marks
                    queue.append((source, marks, (number, way is Way.CHOICE, steps), end))
        return None

    def _route(self, origin: Key, marks: Marks, number: int, steps: _Steps | None, end: End) -> _Route:
        keys = self.dependence.keys
        through, choosers = set(), set()
        while steps is not None:
            entered, chooses, steps = steps
            through.add(keys[entered])
            if chooses:
                choosers.add(keys[number])
            number = entered
        return _Route(origin, marks, frozenset(through), frozenset(choosers), end)
