"""By which route marks come to a value: sought backwards, and remembered as long as nothing on the route is settled.

The same values are asked about again and again while one number after the other is settled, and what is settled is
seldom on the route that was found first.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Optional

from migrator.facts.decisions.marks import PASSED, TAKEN
from migrator.facts.dependence import DECIDING, Dependence, Key, Way
from migrator.facts.dependence.spreading import Marks
from migrator.records import dataclass

End = tuple[int, Marks]
# What a value enters, in which way, and so on to the end.
_Steps = tuple[int, Way, Optional["_Steps"]]


@dataclass(frozen=True, eq=False)
class _Route:
    """From an origin to a value: the marks of the one, and those that the other has by them; all values after the
    origin; those of which a choice enters the next one."""

    origin: Key
    given: Marks
    brought: Marks
    through: frozenset[Key]
    choosers: frozenset[Key]

    def is_open(self, origins: Mapping[Key, Marks], settled: Collection[Key], agreed: Collection[Key]) -> bool:
        return (
            origins.get(self.origin, 0) & self.given == self.given
            and self.through.isdisjoint(settled)
            and self.choosers.isdisjoint(agreed)
        )


class Routes:
    def __init__(self, dependence: Dependence, lets_in: Callable[[int], bool]) -> None:
        """`lets_in`: whether the value of that number takes any marks."""
        self.dependence = dependence
        self._lets_in = lets_in
        self._known: dict[object, dict[int, _Route]] = defaultdict(dict)

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

        `question`: for which routes are remembered. `settled`: what takes no marks unless it is an origin; `agreed`:
        what chooses nothing; `known`: the marks of all values, where it is these that come; `without`: a value that
        passes nothing on."""
        keys, sources = self.dependence.keys, self.dependence.sources
        routes, barred = self._known[question], None if without is None else keys[without]
        seen: dict[int, Marks] = {} if without is None else {without: -1}
        # The shortest route first, on which the least can be settled.
        queue: deque[tuple[int, Marks, _Steps | None]] = deque((*end, None) for end in ends)
        while queue:
            number, wanted, steps = queue.popleft()
            key = keys[number]
            given = origins.get(key, 0)
            if given & wanted:
                self._remember(
                    routes, _Route(key, given & wanted, given & wanted, frozenset(), frozenset()), number, steps
                )
                return True
            route = routes.get(number)
            if (
                route is not None
                and route.brought & wanted
                and barred not in route.through
                and route.is_open(origins, settled, agreed)
            ):
                self._remember(routes, route, number, steps)
                return True
            if not self._lets_in(number) or (not given and key in settled):
                continue
            taken = TAKEN[wanted]
            for source, way in sources[number]:
                marks = taken[way] & ~seen.get(source, 0)
                if known is not None:
                    marks &= known.get(source, 0)
                if marks and (way not in DECIDING or keys[source] not in agreed):
                    seen[source] = seen.get(source, 0) | marks
                    queue.append((source, marks, (number, way, steps)))
        return False

    def forget(self) -> None:
        """Once the graph leads another way."""
        self._known.clear()

    def _remember(self, routes: dict[int, _Route], route: _Route, number: int, steps: _Steps | None) -> None:
        """The route, and what goes on from where it ends."""
        keys = self.dependence.keys
        while steps is not None:
            entered, way, steps = steps
            choosers = route.choosers | {keys[number]} if way in DECIDING else route.choosers
            route = _Route(
                route.origin, route.given, PASSED[way][route.brought], route.through | {keys[entered]}, choosers
            )
            routes[entered] = route
            number = entered
