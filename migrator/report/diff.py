"""The change to a file as a unified diff, coloured where the terminal shows it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

from migrator.notebooks.cells import is_notebook

_COLOURS = (("+++", None), ("---", None), ("@@", "cyan"), ("+", "green"), ("-", "red"))

# In files of more lines, those that it often has are matched only beside others: that takes the square of their number.
_LONGEST = 4000


def of_file(name: str, old: str, new: str) -> Iterator[str]:
    """The lines of the diff; of a notebook, a diff for each cell that changes."""
    if not is_notebook(name):
        yield from unified(name, old, new)
        return
    from migrator.notebooks.magics import cells  # which brings the parser

    before, after = cells(old), cells(new)
    for number, cell in before.items():
        yield from unified(f"{name}:cell {number}", f"{cell}\n", f"{after.get(number, '')}\n")


def unified(path: str, old: str, new: str) -> Iterator[str]:
    """The lines of the diff without their ends; `patch` accepts them joined by newlines."""
    before, after = _split(old), _split(new)
    # Not difflib.unified_diff: what a file of 200 lines often has, as blank lines, is junk there that matches nothing.
    is_long = len(after) > _LONGEST
    groups = difflib.SequenceMatcher(None, before, after, autojunk=is_long).get_grouped_opcodes()
    for number, group in enumerate(groups):
        if number == 0:
            yield _colour(f"--- a/{path.lstrip('/')}")
            yield _colour(f"+++ b/{path.lstrip('/')}")
        (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
        yield _colour(f"@@ -{_range(i1, i2)} +{_range(j1, j2)} @@")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in before[a:b])
                continue
            yield from (_line("-", line) for line in before[a:b])
            yield from (_line("+", line) for line in after[c:d])


def _range(start: int, stop: int) -> str:
    """The lines of a hunk as unified diffs have them: the first with their number, which is left out if it is 1."""
    length = stop - start
    first = start + 1 if length else start  # of no lines, the one before
    return f"{first}" if length == 1 else f"{first},{length}"


def _line(sign: str, line: str) -> str:
    return _colour(sign + (line[:-1] if line.endswith("\n") else f"{line}\n\\ No newline at end of file"))


def _split(text: str) -> list[str]:
    # Not str.splitlines: form feeds and the like end no line for Python or for patch.
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _colour(line: str) -> str:
    for start, colour in _COLOURS:
        if line.startswith(start):
            return click.style(line, bold=True) if colour is None else click.style(line, fg=colour)
    return line
