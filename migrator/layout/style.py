"""How a file is written: its longest line and its quotes, as its formatter is told, or as the file shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from migrator.layout.breaking import Breaks
from migrator.layout.lines import LONGEST_LINE, TAB, LogicalLine, logical_line
from migrator.records import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# What black and ruff take where nobody says, and PEP 8.
_OF_FORMATTERS, _OF_PEP_8 = 88, (79, 80)
_WIDE = 120
_FILES = (".ruff.toml", "ruff.toml", "pyproject.toml")
_FEWEST_LINES, _FEWEST_LONG = 20, 3
_STRING = re.compile(r"""(?<!['"\w\\])(['"])(?!\1)[^'"\\\n]*\1(?!['"])""")


@dataclass(frozen=True)
class Style:
    """What a file's lines and strings look like. `line_length` None and `quote` empty: as the file itself shows."""

    line_length: int | None = None
    quote: str = ""

    def of(self, text: str) -> Style:
        """With what the text shows in the place of what is open."""
        return Style(self.line_length or _own_length(text), self.quote or _own_quote(text))


# -- what formatters are told ------------------------------------------------------------------------------------------


def paths_of_styles(folder: Path) -> Iterator[Path]:
    """The files that may tell how those in the folder are formatted, the nearest first."""
    for here in (folder, *folder.parents):
        for name in _FILES:
            yield here / name


def style_in(folder: Path) -> Style:
    """What ruff or black is told in the nearest file that speaks of one; nothing where none does."""
    for file in paths_of_styles(folder):
        found = _told(file) if file.is_file() else None
        if found is not None:
            return found
    return Style()


@lru_cache(maxsize=1000)
def _told(file: Path) -> Style | None:
    loaded = _load(file)
    if file.name != "pyproject.toml":
        return _of_ruff(file, loaded)
    tools = loaded.get("tool", {})
    if "ruff" in tools:
        return _of_ruff(file, tools["ruff"])
    if "black" in tools:
        black = tools["black"]
        keeps = black.get("skip-string-normalization", black.get("skip_string_normalization", False))
        width = black.get("line-length", black.get("line_length"))
        return Style(_width(width) or _OF_FORMATTERS, "" if keeps else '"')
    return None


def _of_ruff(file: Path, table: Mapping[str, Any]) -> Style:
    """Ruff's settings, with those of the file that they extend."""
    base = Style()
    extended = table.get("extend")
    if isinstance(extended, str):
        other = (file.parent / extended).resolve()
        if other != file and other.is_file():
            loaded = _load(other)
            ruff = loaded.get("tool", {}).get("ruff", {}) if other.name == "pyproject.toml" else loaded
            base = _of_ruff(other, {key: value for key, value in ruff.items() if key != "extend"})
    quotes = {"double": '"', "single": "'", "preserve": ""}
    formats = table.get("format", {})
    quote = quotes.get(str(formats.get("quote-style")), base.quote or '"') if isinstance(formats, Mapping) else '"'
    return Style(_width(table.get("line-length")) or base.line_length or _OF_FORMATTERS, quote)


def _width(value: Any) -> int | None:
    return value if isinstance(value, int) and 20 <= value <= 320 else None


def _load(file: Path) -> Mapping[str, Any]:
    """Empty where it cannot be read: that is for its own tool to say."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


# -- what the file shows -----------------------------------------------------------------------------------------------


def _own_length(text: str) -> int:
    """The limit that the file's lines come close to and keep; LONGEST_LINE where they show none."""
    lines = [len(line.expandtabs(TAB)) for line in text.splitlines() if line.strip() and line.lstrip()[0] != "#"]
    longest = max(lines, default=0)
    if longest > LONGEST_LINE:
        keeps = longest <= _WIDE and sum(length > LONGEST_LINE for length in lines) >= _FEWEST_LONG
        return _WIDE if keeps else LONGEST_LINE
    for limit in (*_OF_PEP_8, _OF_FORMATTERS):
        if longest <= limit:
            is_kept = len(lines) >= _FEWEST_LINES and sum(limit - 10 < length for length in lines) >= _FEWEST_LONG
            if is_kept and (limit == _OF_FORMATTERS or not _is_of_a_formatter(text, limit)):
                return limit
    return LONGEST_LINE


def _is_of_a_formatter(text: str, limit: int) -> bool:
    """Whether its statements of several lines are those that a formatter makes with its own limit, but not this one."""
    shown = False
    for line in _logical_lines(text):
        if line.is_simple and any("\n" in gap for gap in line.gaps):
            if _changes(line, _OF_FORMATTERS):
                return False
            shown = shown or _changes(line, limit)
    return shown


def _changes(line: LogicalLine, limit: int) -> bool:
    breaks = Breaks(line, limit)
    breaks.lay_out()
    return bool(breaks.changes())


def _logical_lines(text: str) -> Iterator[LogicalLine]:
    offset = 0
    while offset < len(text):
        line = logical_line(text, offset)
        if line is not None:
            yield line
        offset = line.end if line is not None else text.find("\n", offset) + 1 or len(text)


def _own_quote(text: str) -> str:
    """The quote of most of its strings."""
    quotes = [match[1] for match in _STRING.finditer(text)]
    return "'" if quotes.count("'") > quotes.count('"') else '"'
