"""What the workers know of each other's calls, and whether they can ever meet. Kept by rank 0; sends nothing itself."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """Where a worker is: the collective call that it is in, None between calls, and the line of its script.

    begun and finished count its calls, so two places with equal numbers are one and the same wait.
    """

    call: str | None = None
    begun: int = 0
    finished: int = 0
    line: str = ""

    def is_same_wait(self, other: Place) -> bool:
        return (self.call, self.begun, self.finished) == (other.call, other.begun, other.finished)

    def cannot_meet(self, other: Place) -> bool:
        """Whether two workers are in different calls after equally many.

        A worker that has finished more calls than another is ahead of it only because the other one is slow to
        finish: it has made its part of every call that anyone has finished.
        """
        waiting = self.call is not None and other.call is not None
        return waiting and self.finished == other.finished and self.call != other.call

    def __str__(self) -> str:
        where = f" at {self.line}" if self.line else ""
        return f"waits in {self.call}{where}" if self.call else f"is in no collective call, but{where or ' computing'}"


# The last call of a worker: it waits for the others before it leaves, and is in this call for good when it has left.
END_OF_SCRIPT = "the end of its script"


@dataclass
class Whereabouts:
    """The waits that the workers have reported, and one inquiry at a time whether they still wait there."""

    size: int
    waits: dict[int, Place] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)
    inquiry: int = 0
    answers: dict[int, Place] = field(default_factory=dict)

    def leave(self, rank: int, finished: int) -> None:
        """A worker has left, after so many calls: it waits at the end of its script for ever."""
        self.left.add(rank)
        self.waits[rank] = Place(END_OF_SCRIPT, finished=finished)

    def are_suspicious(self) -> bool:
        """Whether two workers wait in calls that cannot meet, as far as is known: one of them may have moved on."""
        return _some_cannot_meet(self.waits.values())

    def inquire(self) -> int:
        """Start an inquiry; returns its number, which the workers' answers carry."""
        self.inquiry += 1
        self.answers = {rank: self.waits[rank] for rank in self.left}
        return self.inquiry

    def answer(self, rank: int, inquiry: int, place: Place) -> None:
        if inquiry == self.inquiry:
            self.answers[rank] = place

    def are_complete(self) -> bool:
        return len(self.answers) == self.size

    def are_deadlocked(self) -> bool:
        """Whether two workers have answered that they still wait where they did before the inquiry began.

        Then both were there at one moment, each in a call that needs the other one: neither will ever go on.
        """
        return _some_cannot_meet(
            place for rank, place in self.answers.items() if rank in self.waits and place.is_same_wait(self.waits[rank])
        )

    def some_have_left(self) -> bool:
        return bool(self.left) or any(place.call == END_OF_SCRIPT for place in self.answers.values())

    def describe(self) -> str:
        """A line for each rank."""
        silence = "does not answer: it is stopped, cut off, or busy in one long call of a library"
        return "\n".join(f"  rank {rank} {self._of(rank) or silence}" for rank in range(self.size))

    def _of(self, rank: int) -> str:
        if rank in self.left or (rank in self.answers and self.answers[rank].call == END_OF_SCRIPT):
            return "has come to the end of its script"
        return str(self.answers[rank]) if rank in self.answers else ""


def _some_cannot_meet(places: Iterable[Place]) -> bool:
    return any(first.cannot_meet(second) for first, second in itertools.combinations(places, 2))
