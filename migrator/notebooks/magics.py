"""The commands of IPython in a cell, as the calls that IPython makes of them, and back.

Each line keeps its number. What was a command has its own text behind the call, as in
`get_ipython().system('ls')  # magic: !ls`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from migrator.notebooks.cells import parted
from migrator.text.parsing import is_python, syntax_tree

MARK = "# magic: "
# Cell magics whose body is Python that runs in the notebook, once, as without them.
_AROUND_PYTHON = frozenset({"time", "capture", "prun", "wandb", "snakeviz", "scalene"})
# Line magics without which the rest of the script would do something else.
_ACTING = frozenset(
    {"cd", "env", "load", "macro", "popd", "pushd", "pylab", "recall", "rerun", "run", "set_env", "store"}
)
_RUNS_STATEMENT = re.compile(r"%(time|prun)[ \t]+(.*)$")
_COMMAND = re.compile(
    r"(?P<indent>[ \t]*)(?P<target>[\w.,\[\]'\" \t]*[^=!<>:\s][ \t]*=[ \t]*)?"
    r"(?:(?P<shell>!!?)(?P<command>.*)|%(?P<name>\w[\w.]*)(?P<line>.*)"
    r"|(?P<asked>\?{1,2}[\w.*]+|%{0,2}[\w.*]+\?{1,2})[ \t]*)$",
    re.S,
)
_MASKED = re.compile(rf"([ \t]*)(?:[^#\n]* = )?get_ipython\(\)\.\w+\(.*\)  {MARK}(.*)$")
_MORE = re.compile(rf"{MARK}(.*)$")


def masked(cell: str) -> str:
    """The cell as Python, with as many lines."""
    lines = cell.split("\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), 0)
    head, lines = lines[:first], lines[first:]
    if not lines[0].startswith("%%"):
        body = _python(lines)
        return "\n".join([*head, *(body if body is not None else _whole(lines, lines, "run_cell"))])
    name, _, line = lines[0][2:].partition(" ")
    body = _python(lines[1:]) if name in _AROUND_PYTHON else None
    if body is None:
        return "\n".join([*head, *_whole(lines, lines[1:], "run_cell_magic", name.strip(), line.strip())])
    return "\n".join([*head, f"{MARK}{lines[0]}", *body])


def unmasked(cell: str) -> str:
    """The cell as it is written in the notebook."""
    return "\n".join(_unmasked(line) for line in cell.split("\n"))


def cells(script: str) -> dict[int, str]:
    """The cells of a notebook's script as they are written in the notebook, by their numbers."""
    return {number: unmasked(cell) for number, cell in parted(script).items()}


def commented(cell: str) -> str | None:
    """The cell with its commands as comments; None where the rest needs what one of them does."""
    lines = []
    for line in cell.split("\n"):
        match = _MASKED.match(line)
        if match is not None:
            name, statement = re.split(r"\W", match[2][1:])[0], _RUNS_STATEMENT.match(match[2])
            is_used = not line[len(match[1]) :].startswith("get_ipython()")
            if is_used or (match[2].startswith("%") and name in _ACTING):
                return None
            told = statement[2] if statement is not None and is_python(statement[2]) else f"pass  # {match[2]}"
            line = match[1] + told
        lines.append(line)
    return "\n".join(lines)


def _unmasked(line: str) -> str:
    match = _MASKED.match(line)
    if match is not None:
        return match[1] + match[2]
    more = _MORE.match(line)
    return more[1] if more is not None else line


def _whole(lines: Sequence[str], body: Sequence[str], function: str, *given: str) -> list[str]:
    """A cell that is no Python, as one call that is given its text."""
    call = _written(function, *given, "\n".join(body))
    return [f"{call}  {MARK}{lines[0]}", *(f"{MARK}{line}" for line in lines[1:])]


def _written(function: str, *given: str) -> str:
    # No # stands before the mark.
    return f"get_ipython().{function}({', '.join(map(repr, given))})".replace("#", "\\x23")


def _python(lines: Sequence[str]) -> list[str] | None:
    """The lines with their commands as calls; None where they are no Python even so."""
    found = list(lines)
    while True:
        try:
            syntax_tree("\n".join(found))
        except SyntaxError as error:
            # Only a line that Python does not take can be a command.
            if not _mask_line(found, (error.lineno or 0) - 1):
                return None
        except (ValueError, RecursionError, MemoryError):
            return None
        else:
            return found


def _mask_line(lines: list[str], number: int) -> bool:
    """Puts the call in the place of the command on this line, and of those that continue it."""
    if not 0 <= number < len(lines) or MARK in lines[number]:
        return False
    last = number
    while last + 1 < len(lines) and lines[last].endswith("\\"):
        last += 1
    text = "\n".join(lines[number : last + 1]).replace("\\\n", " ")
    match = _COMMAND.match(text)
    if match is None:
        return False
    call = _call(match["shell"], match["command"], match["name"], match["line"], match["asked"], bool(match["target"]))
    target = f"{match['target'].rstrip()[:-1].strip()} = " if match["target"] else ""
    indent = match["indent"]
    first = f"{indent}{target}{call}  {MARK}{lines[number][len(indent) :]}"
    lines[number : last + 1] = [first, *(f"{MARK}{line}" for line in lines[number + 1 : last + 1])]
    return True


def _call(
    shell: str | None, command: str | None, name: str | None, line: str | None, asked: str | None, has_target: bool
) -> str:
    if shell:
        return _written("getoutput" if has_target or shell == "!!" else "system", (command or "").strip())
    if name:
        return _written("run_line_magic", name, (line or "").strip())
    return _written("run_line_magic", "pinfo", (asked or "").strip("?"))
