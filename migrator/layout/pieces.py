"""Changes to a text as values, and two rounds of them as one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from migrator.edits import Edit
from migrator.records import dataclass


@dataclass(frozen=True)
class TextChange:
    """What stands in the new text in the place of the old one from `start` to before `end`, and of which edits."""

    start: int
    end: int
    new: str
    edits: tuple[Edit, ...] = ()


def spliced(text: str, changes: Iterable[TextChange]) -> str:
    """The text after the changes, which are in order and do not overlap."""
    parts, position = [], 0
    for change in changes:
        parts += [text[position : change.start], change.new]
        position = change.end
    return "".join([*parts, text[position:]])


class Moves:
    """Where what stands in a text is after the changes."""

    def __init__(self, changes: Sequence[TextChange]) -> None:
        self._changes = changes
        self._shifts = [0, *accumulate(len(c.new) - (c.end - c.start) for c in changes)]
        self._ends = [c.end for c in changes]
        self.new_spans = [(c.start + shift, c.start + shift + len(c.new)) for c, shift in zip(changes, self._shifts)]
        self._new_starts = [start for start, _ in self.new_spans]

    def forward(self, offset: int) -> int:
        """Of what begins at the old offset; within what is replaced, the end of what replaces it."""
        number = bisect_right(self._ends, offset)
        if number < len(self._changes) and self._changes[number].start < offset:
            return self.new_spans[number][1]
        return offset + self._shifts[number]

    def back(self, offset: int) -> int:
        """Of what stands at the new offset, in no new text."""
        number = bisect_right(self._new_starts, offset)
        if number and offset < self.new_spans[number - 1][1]:
            return self._changes[number - 1].start
        return offset - self._shifts[number]


def composed(first: Sequence[TextChange], text: str, second: Sequence[TextChange]) -> list[TextChange]:
    """The changes that make at once what `second` makes of `text`, which `first` has made. Those that meet are one."""
    moves = Moves(first)
    events = sorted(
        [(*span, change.edits, True) for span, change in zip(moves.new_spans, first)]
        + [(c.start, c.end, c.edits, False) for c in second],
        key=lambda event: event[:2],
    )
    clusters: list[tuple[int, int, list[Edit]]] = []
    for start, end, edits, _ in events:
        if clusters and start <= clusters[-1][1]:
            clusters[-1] = (clusters[-1][0], max(end, clusters[-1][1]), [*clusters[-1][2], *edits])
        else:
            clusters.append((start, end, list(edits)))
    old_starts = {span[0]: change.start for span, change in reversed(list(zip(moves.new_spans, first)))}
    old_ends = {span[1]: change.end for span, change in zip(moves.new_spans, first)}
    found = []
    for start, end, causes in clusters:
        within = [
            TextChange(c.start - start, c.end - start, c.new) for c in second if start <= c.start and c.end <= end
        ]
        new = spliced(text[start:end], within)
        old_start = old_starts[start] if start in old_starts else moves.back(start)
        old_end = old_ends[end] if end in old_ends else moves.back(end)
        found.append(TextChange(old_start, old_end, new, tuple(dict.fromkeys(causes))))
    return found
