"""Where the lines end of what edits have made too long: as black and ruff format have it.

Only white space, trailing commas, parentheses around a whole value and semicolons between statements are changed, and
only in lines with edits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from migrator.edits import Edit
from migrator.layout.breaking import Breaks
from migrator.layout.lines import LONGEST_LINE, LogicalLine, logical_line
from migrator.layout.pieces import Moves, TextChange, composed, spliced
from migrator.layout.style import Style, paths_of_styles, style_in

__all__ = ["LONGEST_LINE", "Moves", "Style", "TextChange", "laid_out", "paths_of_styles", "spliced", "style_in"]


class _Layout:
    def __init__(
        self,
        old: str,
        changes: Sequence[TextChange],
        statement_before: Callable[[int], int],
        longest: int,
        step: Callable[[str], str],
        newline: str,
    ) -> None:
        self.text = spliced(old, changes)
        self._old = old
        self._moves = Moves(changes)
        self._changes = changes
        self._statement_before = statement_before
        self._longest = longest
        self._step = step
        self._newline = newline
        # Of both texts, for each offset at which one begins: the tokenizer is slow.
        self._known: dict[tuple[bool, int], LogicalLine | None] = {}

    def _line(self, at: int, *, is_old: bool = False) -> LogicalLine | None:
        if (is_old, at) not in self._known:
            self._known[is_old, at] = logical_line(self._old if is_old else self.text, at)
        return self._known[is_old, at]

    def changes(self) -> list[TextChange]:
        """What is to be changed of the text after the changes, in order."""
        found: dict[int, TextChange] = {}
        done: set[int] = set()
        for change, (start, end) in zip(self._changes, self._moves.new_spans):
            for line, old_at in self._lines(change, start, end):
                if line.start not in done:
                    done.add(line.start)
                    for a, b, new in self._line_changes(line, old_at):
                        found[a] = TextChange(a, b, new, self._edits(line))
        return [found[at] for at in sorted(found)]

    def _lines(self, change: TextChange, start: int, end: int) -> Iterator[tuple[LogicalLine, int | None]]:
        """The logical lines that the change touches, with where those begin that they were made of."""
        if change.new.endswith("\n") and _is_line_start(self.text, start):
            at, old_at = start, None
        else:
            old_at = self._statement_before(change.start)
            at = self._moves.forward(old_at)
            # Lines that are put before the statement begin where it did.
            at = self.text.rfind("\n", 0, at) + 1
        while at <= end and at < len(self.text):
            line = self._line(at)
            if line is None:
                return
            if line.end > start:
                yield line, old_at
            elif old_at is not None:
                before = self._line(old_at, is_old=True)
                old_at = before.end if before is not None else None
            at = line.end
            if line.end >= end:
                return

    def _edits(self, line: LogicalLine) -> tuple[Edit, ...]:
        spans = zip(self._changes, self._moves.new_spans)
        return tuple(
            dict.fromkeys(
                e for change, (start, end) in spans if start < line.end and line.start <= end for e in change.edits
            )
        )

    def _line_changes(self, line: LogicalLine, old_at: int | None) -> list[tuple[int, int, str]]:
        physical = self.text[line.start : line.end].rstrip()
        is_long = any(len(part) > self._longest for part in self._physical(line))
        if (not is_long and "\n" not in physical) or not line.may_be_broken:
            return []
        old = self._line(old_at, is_old=True) if old_at is not None else None
        step = self._step(line.indent)
        if line.is_simple and (old is None or self._is_styled(old, step)):
            breaks = Breaks(line, self._longest, step, self._newline)
            breaks.lay_out()
        elif is_long:
            breaks = Breaks(line, self._longest, step, self._newline, keeps=True)
            breaks.lay_out_long_lines(self._is_touched)
        else:
            return []
        return breaks.changes() if breaks.keeps_comments else []

    def _is_touched(self, start: int, end: int) -> bool:
        return any(a < end and start <= b for a, b in self._moves.new_spans)

    def _physical(self, line: LogicalLine) -> list[str]:
        start = line.start - len(line.indent)
        return [part.expandtabs(4).rstrip() for part in self.text[start : line.end].split("\n")]

    def _is_styled(self, line: LogicalLine, step: str) -> bool:
        """Whether it was laid out so before the changes; what stands on one line is open to any layout."""
        if not line.is_simple:
            return False
        if not any("\n" in gap for gap in line.gaps):
            return True
        breaks = Breaks(line, self._longest, step, self._newline)
        breaks.lay_out()
        return breaks.keeps_comments and not breaks.changes()


def laid_out(
    old: str,
    changes: Sequence[TextChange],
    statement_before: Callable[[int], int],
    *,
    longest: int,
    step: Callable[[str], str],
    newline: str,
) -> tuple[list[TextChange], Moves]:
    """The changes with the layout of the lines that they make, and where they move what the changes alone had made.

    `statement_before` gives the start of the line on which the statement begins that holds an offset of the old text;
    `step` one level of indentation more than a given one.
    """
    layout = _Layout(old, changes, statement_before, longest, step, newline)
    second = layout.changes()
    return (composed(changes, layout.text, second) if second else list(changes)), Moves(second)


def _is_line_start(text: str, offset: int) -> bool:
    return offset == 0 or text[offset - 1] == "\n"
