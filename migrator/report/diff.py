"""The change to a file as a unified diff, coloured where the terminal shows it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import click

from migrator.notebooks.cells import is_notebook

_COLOURS = (("+++", None), ("---", None), ("@@", "cyan"), ("+", "green"), ("-", "red"))


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
    lines = difflib.unified_diff(
        _split(old), _split(new), f"a/{path.lstrip('/')}", f"b/{path.lstrip('/')}", lineterm="\n"
    )
    for line in lines:
        yield _colour(line[:-1] if line.endswith("\n") else f"{line}\n\\ No newline at end of file")


def _split(text: str) -> list[str]:
    # Not str.splitlines: form feeds and the like end no line for Python or for patch.
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _colour(line: str) -> str:
    for start, colour in _COLOURS:
        if line.startswith(start):
            return click.style(line, bold=True) if colour is None else click.style(line, fg=colour)
    return line
