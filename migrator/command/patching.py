"""Applies a unified diff that a person has edited: the counts in its headers may be wrong, its lines must fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_HEADER = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_NO_LINE_END = "\\"


class UnfitDiff(Exception):
    """The diff does not fit the texts; the message says where."""


def patched(texts: Mapping[str, str], diff: str) -> dict[str, str]:
    """The texts, by their names, after the diff; those that it does not name are as they were. Raises UnfitDiff.

    Lines that begin with `#` are comments. A line end of CRLF is taken for one of LF, which editors make of it: new
    lines end as those of the text do.
    """
    found = dict(texts)
    for name, lines in _sections(diff):
        if name not in texts:
            raise UnfitDiff(f"it names {name}, which is not of this training")
        found[name] = _patched(name, texts[name], lines)
    return found


def _sections(diff: str) -> Iterator[tuple[str, list[str]]]:
    """The name of each file, and its lines without the file's header."""
    lines = [line.rstrip("\r") for line in diff.split("\n") if not line.startswith("#")]
    while lines and not lines[-1]:
        lines.pop()  # what follows the last line end; of an empty line of the text, nothing is lost
    starts = [
        i for i, line in enumerate(lines) if line.startswith("--- a/") and "".join(lines[i + 1 : i + 2])[:6] == "+++ b/"
    ]
    if any(line.strip() for line in lines[: starts[0] if starts else len(lines)]):
        raise UnfitDiff("it has lines before the name of the first file")
    for start, end in zip(starts, [*starts[1:], len(lines)]):
        yield lines[start + 1][len("+++ b/") :], lines[start + 2 : end]


def _patched(name: str, text: str, lines: Sequence[str]) -> str:
    old = _split(text)
    line_end = "\r\n" if old and old[0].endswith("\r\n") else "\n"
    new: list[str] = []
    position = 0
    for place, count, hunk in _hunks(name, lines):
        start = place if count == 0 else place - 1
        if start < position:
            raise UnfitDiff(f"{name}: its hunks are not in the order of the lines")
        new += old[position:start]
        position = start
        last = ""
        for line in hunk:
            if line.startswith(_NO_LINE_END):
                if last.startswith("+"):
                    new[-1] = new[-1].rstrip("\r\n")
            elif line.startswith("+"):
                new.append(line[1:] + line_end)
            else:
                # Editors take the space away from a line that has nothing else.
                if position >= len(old) or old[position].rstrip("\r\n") != line[1:]:
                    raise UnfitDiff(f"{name}: line {position + 1} of the file is not {line[1:]!r}")
                if not line.startswith("-"):
                    new.append(old[position])
                position += 1
            last = line
    return "".join(new + old[position:])


def _hunks(name: str, lines: Sequence[str]) -> Iterator[tuple[int, int, list[str]]]:
    """The first line of each hunk and how many lines of the old text it had, with its lines."""
    hunk: list[str] | None = None
    place = count = 0
    for line in lines:
        header = _HEADER.match(line)
        if header is not None:
            if hunk is not None:
                yield place, count, hunk
            place, count, hunk = int(header[1]), int(header[2] or 1), []
        elif hunk is None or (line and line[0] not in " +-\\"):
            raise UnfitDiff(f"{name}: lines begin with a space, + or -, this one does not: {line!r}")
        else:
            hunk.append(line)
    if hunk is not None:
        yield place, count, hunk


def _split(text: str) -> list[str]:
    # As the diff is made: form feeds and the like end no line.
    return [line for line in re.split(r"(?<=\n)", text) if line]
