"""Routes find what a spread of the marks finds, and what is taken back of one leaves what another would find: also
while more and more is settled."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from typing import cast

import pytest

from migrator.facts.decisions.marks import EVERY, PASSED, TAKEN, Mark
from migrator.facts.decisions.routes import End, Routes
from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.dependence.graph import Graph
from migrator.facts.dependence.spreading import Marks, Spread

_KEYS: list[Key] = [(f"value {n}",) for n in range(14)]


class _Program:
    """A graph of any edges, with what is local to begin with."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.graph = cast(Dependence, Graph())
        for key in _KEYS:
            self.graph.number(key)
        for _ in range(30):
            source, target = self.chance.sample(_KEYS, 2)
            self.graph.link(source, target, self.chance.choice(list(Way)))
        self.origins = {key: 1 << self.chance.randrange(7) for key in self.chance.sample(_KEYS, 3)}
        self.routes = Routes(self.graph, lambda number: True)

    def spread(self, origins: dict[Key, Marks], settled: Collection[Key], agreed: Collection[Key]) -> Spread:
        spread = Spread(self.graph, PASSED, lambda number: True, lambda number, marks: None)
        number = self.graph.number
        closed = {number(key) for key in settled if key not in origins}
        spread.add([(number(k), m) for k, m in origins.items()], closed, set(map(number, agreed)))
        return spread

    def take_back(self, spread: Spread, origins: dict[Key, Marks], settled: set[Key], agreed: set[Key]) -> None:
        number = self.graph.number
        changed = {
            *settled,
            *(self.origins.keys() - origins),
            *(user for key in agreed for user in self.graph.users(key)),
        }
        closed = {number(key) for key in settled if key not in origins}
        own = {number(key): mark for key, mark in origins.items()}
        spread.take_back(map(number, changed), own, closed, set(map(number, agreed)))

    def settling(self) -> Iterator[tuple[set[Key], set[Key]]]:
        """Ever more that is settled or agreed on, and as it was before."""
        settled: set[Key] = set()
        agreed: set[Key] = set()
        for key in self.chance.sample(_KEYS, 8):
            yield settled, agreed
            yield settled | {self.chance.choice(_KEYS)}, agreed
            (settled if self.chance.random() < 0.7 else agreed).add(key)


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_without_the_value_itself(seed: int) -> None:
    program = _Program(seed)
    for settled, agreed in program.settling():
        known = program.spread(program.origins, settled, agreed).marks
        for number, key in enumerate(_KEYS):
            if key in program.origins or key in settled:
                continue
            ends: list[End] = []
            alone = program.spread(program.origins, {*settled, key}, agreed)
            due = 0
            for source, way in program.graph.sources[number]:
                if way is not Way.CHOICE or _KEYS[source] not in agreed:
                    ends.append((source, TAKEN[Mark.CHOSEN][way]))
                    due |= PASSED[way][alone.of(_KEYS[source])]
            found = program.routes.lead("made", program.origins, ends, settled, agreed, known, number)
            assert found == bool(due & Mark.CHOSEN)


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_round(seed: int) -> None:
    program = _Program(seed)
    for settled, agreed in program.settling():
        for number, key in enumerate(_KEYS):
            reached = program.spread({key: Mark.VALUE}, settled, agreed)
            wanted = EVERY & ~Mark.CHOSEN
            ends = [(source, wanted) for source, _ in program.graph.sources[number]]
            comes = any(reached.of(_KEYS[source]) & wanted for source, _ in program.graph.sources[number])
            assert program.routes.lead(key, {key: Mark.VALUE}, ends, settled, agreed) == comes


def test_each_mark_is_passed_on_whatever_stands_beside_it() -> None:
    for passed in PASSED:
        for one in range(EVERY + 1):
            for other in range(EVERY + 1):
                assert passed[one | other] == passed[one] | passed[other]


@pytest.mark.parametrize("seed", range(200))
def test_what_is_taken_back_leaves_what_a_new_spread_finds(seed: int) -> None:
    program = _Program(seed)
    kept = program.spread(program.origins, (), ())
    for turn, (settled, agreed) in enumerate(program.settling()):
        spread = kept.copy() if turn % 2 else kept  # every other one only tries
        program.take_back(spread, program.origins, settled, agreed)
        assert spread.marks == program.spread(program.origins, settled, agreed).marks
    origins = dict(program.origins)
    for key in program.origins:
        del origins[key]
        program.take_back(kept, origins, settled, agreed)
        assert kept.marks == program.spread(origins, settled, agreed).marks
