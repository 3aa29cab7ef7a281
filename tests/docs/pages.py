"""What the pages for users tell to type: the commands of their blocks and of their texts."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]

# A shell's blocks; those of a console have what is printed, too, below each line that begins with a prompt.
SHELL, CONSOLE = "bash", "console"
_FENCED = re.compile(r"^(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`((?:migrate|lockstep) [^`\n]*)`(?!`)")
_INCLUDED = re.compile(r'^--8<-- "([^"]+)"$')


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    language: str
    text: str

    @property
    def included(self) -> Path | None:
        """The file that is shown in place of the block."""
        found = _INCLUDED.match(self.text.strip())
        return PROJECT / found.group(1) if found else None

    def commands(self) -> Iterator[Command]:
        """What is to be typed, in order."""
        command: Command | None = None
        for line in self.text.splitlines():
            if self.language == SHELL and line.strip():
                yield Command(shlex.split(line, comments=True), line.strip())
            elif line.startswith("$ "):
                if command is not None:
                    yield command
                command = Command(shlex.split(line[2:], comments=True), line[2:])
            elif self.language == CONSOLE:
                assert command is not None, f"{line!r}: the first line of a console is a command"
                command.printed.append(line)
        if command is not None:
            yield command


@dataclass(frozen=True)
class Command:
    """A line to type, its words, and what it prints where the page tells."""

    words: list[str]
    line: str
    printed: list[str] = field(default_factory=list)


def blocks(page: Path) -> Iterator[Block]:
    for found in _FENCED.finditer(page.read_text(encoding="utf-8")):
        indent = found["indent"]
        lines = [line.removeprefix(indent) for line in found["text"].splitlines()]
        yield Block(page, found["language"].strip(), "\n".join(lines))


def inline_commands(page: Path) -> list[str]:
    """What the text of a page calls a command."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    return _INLINE.findall(text)
