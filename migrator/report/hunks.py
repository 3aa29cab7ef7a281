"""The lines that some changes of a text touch, as they were and as they become."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from migrator.findings.results import Change
from migrator.text.lines import line_starts


def hunks(text: str, changes: Sequence[Change]) -> Iterator[tuple[list[str], list[str]]]:
    """For each run of neighbouring lines that the changes touch: these lines before, and after."""
    starts = line_starts(text)
    windows: list[tuple[int, int, list[Change]]] = []
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        start = max(at for at in starts if at <= change.start)
        is_whole = change.end in starts and (change.new.endswith(("\n", "\r")) or not change.new)
        end = change.end if is_whole else min((at for at in starts if at > change.end), default=len(text))
        if windows and start < windows[-1][1]:
            first, last, several = windows[-1]
            windows[-1] = (first, max(last, end), [*several, change])
        else:
            windows.append((start, end, [change]))
    for start, end, several in windows:
        new, position = [], start
        for change in several:
            new += [text[position : change.start], change.new]
            position = change.end
        new.append(text[position:end])
        yield text[start:end].splitlines(), "".join(new).splitlines()
