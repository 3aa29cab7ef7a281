"""Makes new scripts of those of the fixtures, token by token and statement by statement."""

from __future__ import annotations

import io
import random
import tokenize
from collections.abc import Sequence
from pathlib import Path

from migrator.text.source import Source, UnreadableSource, is_about_training

_LONGEST = 20_000
FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
_PIECES = (
    *(
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "=",
        ".",
        "*",
        "**",
        "@",
        "->",
        ":=",
        ";",
        "\\\n",
        "\n",
        "\n\n",
        "\f",
        "\t",
    ),
    *(
        "    ",
        " ",
        "#",
        "# fmt: off",
        "'",
        '"',
        "'''",
        'f"{x!r:>{w}}"',
        "b'\\x00'",
        "r'\\'",
        "0x_f",
        "1e400",
        "...",
        "é",
    ),
    *("if", "else", "for", "in", "while", "with", "as", "def", "class", "return", "yield", "await", "async", "lambda"),
    *("not", "and", "or", "is", "None", "True", "try:", "except", "finally:", "global", "nonlocal", "del", "import"),
    *("from", "match", "case", "_", "self", "super()", "raise", "assert", "break", "continue", "pass", "print"),
)


def seeds() -> list[str]:
    """The scripts of the fixtures, before and after."""
    paths = [*FIXTURES.rglob("before.py"), *FIXTURES.rglob("after.py"), *FIXTURES.glob("scripts/*.py")]
    return sorted({path.read_text() for path in paths})


def corpus(folder: Path) -> list[str]:
    """The training code of a folder, but for what is so long that one input would cost as much as many others."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        data = path.read_bytes()
        if len(data) <= _LONGEST and is_about_training(data):
            try:
                found.append(Source.decode(data).text)
            except UnreadableSource:
                continue
    return found


def pieces_of(text: str) -> list[str]:
    """The tokens with the white space before them: joined they are the text."""
    pieces: list[str] = []
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    position = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            row, column = token.end
            end = starts[row - 1] + column if row <= len(starts) else len(text)
            if end > position:
                pieces.append(text[position:end])
                position = end
    except (tokenize.TokenError, SyntaxError):
        pass
    return [*pieces, text[position:]]


class Mutator:
    """Scripts from a seed: the same seed gives the same scripts."""

    def __init__(self, seed: int, sources: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._sources = sources
        self._pieces = [pieces_of(source) for source in sources]

    def script(self) -> bytes:
        kind = self._random.random()
        text = self._of_statements() if kind < 0.5 else self._of_tokens()
        if kind > 0.9:
            text = text.replace("\n", self._random.choice(["\r\n", "\r", "\n\n", "\n\f"]))
        elif kind > 0.8:
            text = text.replace("    ", self._random.choice(["\t", " ", "  ", "        "]))
        data = text.encode("utf-8", "replace")
        return b"\xef\xbb\xbf" + data if kind > 0.98 else data

    def _of_tokens(self) -> str:
        pieces = list(self._random.choice(self._pieces))
        for _ in range(self._random.choice([1, 1, 1, 2, 3, 8])):
            at = self._random.randrange(len(pieces))
            donor = self._random.choice(self._pieces)
            action = self._random.randrange(6)
            if action == 0:
                del pieces[at]
            elif action == 1:
                pieces.insert(at, self._random.choice(_PIECES))
            elif action == 2:
                pieces[at] = self._random.choice(donor)
            elif action == 3:
                other = self._random.randrange(len(pieces))
                pieces[at], pieces[other] = pieces[other], pieces[at]
            elif action == 4:
                start = self._random.randrange(len(donor))
                pieces[at:at] = donor[start : start + self._random.randrange(1, 12)]
            else:
                pieces[at:at] = [pieces[at]] * self._random.choice([1, 2, 50])
            pieces = pieces or [""]
        return "".join(pieces)

    def _of_statements(self) -> str:
        """Lines move, go, come twice, come from elsewhere, or go deeper: mostly valid, and seldom sensible."""
        lines = self._random.choice(self._sources).splitlines(keepends=True) or ["\n"]
        for _ in range(self._random.choice([1, 1, 2, 4])):
            at = self._random.randrange(len(lines))
            donor = self._random.choice(self._sources).splitlines(keepends=True) or ["\n"]
            action = self._random.randrange(6)
            if action == 0:
                del lines[at]
            elif action == 1:
                lines.insert(self._random.randrange(len(lines)), lines[at])
            elif action == 2:
                start = self._random.randrange(len(donor))
                lines[at:at] = donor[start : start + self._random.randrange(1, 6)]
            elif action == 3:
                lines[at] = self._wrapped(lines[at])
            elif action == 4:
                lines = [*lines, *donor]
            else:
                other = self._random.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            lines = lines or ["\n"]
        return "".join(lines)

    def _wrapped(self, line: str) -> str:
        body = line.strip()
        indent = line[: len(line) - len(line.lstrip())]
        header = self._random.choice(
            [
                "if x:",
                "for i in range(3):",
                "while True:",
                "with open(p) as f:",
                "def g():",
                "class C:",
                "try:",
                "async def h():",
            ]
        )
        return f"{indent}{header}\n{indent}    {body}\n" + (
            f"{indent}finally:\n{indent}    pass\n" if header == "try:" else ""
        )
