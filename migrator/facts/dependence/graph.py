"""The graph itself: which values there are, which enter which others, and how."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Union

import libcst as cst

from migrator.facts.program.tree import Binding


class Way(IntEnum):
    """How a value enters another."""

    WHOLE = 0  # it is the other, or may be
    USED = 1  # the other is computed from it, or taken out of it
    INTO = 2  # the other contains it
    SIZE = 3  # of it only the size matters
    PRESENCE = 4  # only whether it is there: `x is None`
    CHOICE = 5  # it decides what the other is
    LENGTH = 6  # of it only the size matters, which may be a number that it is made from: `np.zeros(count)`
    IDENTITY = 7  # of several that it may be, which one it is decides what the other is


# By which it is decided what the other is: nothing, once all workers decide alike.
DECIDING = (Way.CHOICE, Way.IDENTITY)

# Expressions, bindings, and by a tuple what has no place of its own in the text: ("attribute", "loss").
Key = Union[cst.CSTNode, Binding, tuple[object, ...]]


_MAKING = frozenset({Way.WHOLE, Way.USED})


class Graph:
    def __init__(self) -> None:
        # Walks go from number to number: nodes and bindings are slow keys.
        self._numbers: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.edges: list[list[tuple[int, Way]]] = []  # to the users of a key
        self.sources: list[list[tuple[int, Way]]] = []  # the other way round

    def number(self, key: Key) -> int:
        """The number of the key, a new one where it has none; it stays."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.edges.append([])
            self.sources.append([])
        return found

    def users(self, key: Key) -> list[Key]:
        number = self._numbers.get(key)
        return [] if number is None else [self.keys[user] for user, _ in self.edges[number]]

    def inputs(self, key: Key) -> list[tuple[Key, Way]]:
        number = self._numbers.get(key)
        return [] if number is None else [(self.keys[source], way) for source, way in self.sources[number]]

    def used_by(self, key: Key) -> list[tuple[Key, Way]]:
        number = self._numbers.get(key)
        return [] if number is None else [(self.keys[user], way) for user, way in self.edges[number]]

    def link(self, source: Key | None, target: Key, way: Way = Way.WHOLE) -> None:
        if source is None or source is target:
            return
        start, end = self._numbers.get(source), self._numbers.get(target)
        if start is None:
            start = self.number(source)
        if end is None:
            end = self.number(target)
        self.edges[start].append((end, way))
        self.sources[end].append((start, way))

    def put_into(self, sources: Iterable[Key], target: Key, by: Way = Way.INTO) -> None:
        """From here on, the target contains these, of which it was said to be computed; or they enter it otherwise."""
        end = self.number(target)
        for start in map(self.number, sources):
            for edges, other in ((self.edges[start], end), (self.sources[end], start)):
                edges[:] = [(n, by if n == other and way in _MAKING else way) for n, way in edges]
