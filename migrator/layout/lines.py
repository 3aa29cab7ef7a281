"""The tokens of one logical line, and the white space before each."""

from __future__ import annotations

import keyword
import re
import tokenize
from collections.abc import Iterator

from migrator.records import dataclass

# Unless the settings have another.
LONGEST_LINE = 100
# Columns that a tab takes.
TAB = 4

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_STRING_STARTS = {getattr(tokenize, f"{kind}STRING_START", None) for kind in "FT"} - {None}
_STRING_ENDS = {getattr(tokenize, f"{kind}STRING_END", None) for kind in "FT"} - {None}
_PASSED_OVER = (tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.COMMENT)
_COMPOUND = frozenset(
    ["if", "elif", "else", "for", "while", "with", "try", "except", "finally", "def", "class", "async", "match", "case"]
)
_LEFT_ALONE = re.compile(r"fmt:\s*(skip|off)|yapf:\s*disable")
# Comments for tools may stand out, as they do for black.
_PRAGMA = re.compile(r"\s*#\s*(type|noqa|pyright|pylint|flake8|ruff|isort|nosec|mypy|migrate):", re.IGNORECASE)
_VALUES = frozenset(["None", "True", "False"])


@dataclass(frozen=True)
class Token:
    """A token, or a whole string with fields. Offsets are into the text that holds the line."""

    text: str
    start: int
    end: int

    @property
    def is_opening(self) -> bool:
        return self.text in _OPENING

    @property
    def is_closing(self) -> bool:
        return self.text in _CLOSING

    @property
    def is_keyword(self) -> bool:
        return keyword.iskeyword(self.text) and self.text not in _VALUES


class LogicalLine:
    """One logical line: what ends it is not among its tokens.

    `gaps[i]` stands before token i; `indent` before the first; `tail` is the comment behind the last, if any; `end` is
    the offset of the line after. `partner` leads from each bracket to the one that closes or opens it.
    """

    def __init__(self, text: str, tokens: list[Token], indent: str, tail: str, end: int) -> None:
        self.tokens = tokens
        self.indent = indent
        self.tail = tail
        self.start, self.end = tokens[0].start, end
        self.gaps = ["", *(text[a.end : b.start] for a, b in zip(tokens, tokens[1:]))]
        self.partner: dict[int, int] = {}
        opened: list[int] = []
        for i, token in enumerate(tokens):
            if token.is_opening:
                opened.append(i)
            elif token.is_closing and opened:
                self.partner[i] = opened.pop()
                self.partner[self.partner[i]] = i

    @property
    def tail_width(self) -> int:
        """What the comment behind the last token counts for."""
        return 0 if _PRAGMA.match(self.tail) or self.tail.lstrip("# ").lower().startswith("noqa") else len(self.tail)

    def at_top(self, start: int, end: int) -> Iterator[int]:
        """The indices of the tokens from `start` to before `end` that are in no bracket of these; brackets by both."""
        i = start
        while i < end:
            yield i
            i = self.partner[i] if self.tokens[i].is_opening else i + 1
            if i < end and self.tokens[i].is_closing:
                yield i
                i += 1

    @property
    def is_simple(self) -> bool:
        """Whether it is a single statement, or the header of one, without what this package does not lay out."""
        return self.may_be_broken and not any("\\" in gap for gap in self.gaps) and ";" not in self._top

    @property
    def may_be_broken(self) -> bool:
        """Whether lines of it may end elsewhere, also where a backslash ends one, or semicolons part statements."""
        if len(self.partner) != sum(token.is_opening or token.is_closing for token in self.tokens):
            return False
        if _LEFT_ALONE.search(self.tail) or any("\n" in token.text for token in self.tokens):
            return False
        top = self._top
        return not (top[0] in _COMPOUND and ":" in top[:-1] and "lambda" not in top)

    @property
    def _top(self) -> list[str]:
        return [self.tokens[i].text for i in self.at_top(0, len(self.tokens))]


def logical_line(text: str, offset: int) -> LogicalLine | None:
    """The logical line of which the first physical line begins at the offset; None where there is none to be read."""
    starts: list[int] = []

    def readline() -> str:
        start = starts[-1] + len(lines[-1]) if starts else offset
        end = text.find("\n", start) + 1 or len(text)
        starts.append(start)
        lines.append(text[start:end])
        return lines[-1]

    lines: list[str] = []
    tokens: list[Token] = []
    string_start: list[int] = []
    try:
        for token in tokenize.generate_tokens(readline):
            start, end = (
                starts[row - 1] + column if row <= len(starts) else len(text)
                for row, column in (token.start, token.end)
            )
            if token.type == tokenize.NEWLINE:
                tail = text[tokens[-1].end : start]
                line_end = starts[-1] + len(lines[-1])
                # For Python, a form feed begins the line anew.
                indent = lines[0][: tokens[0].start - starts[0]].rpartition("\f")[2]
                return LogicalLine(text, tokens, indent, tail.rstrip(), line_end)
            if token.type in _STRING_STARTS:
                string_start.append(start)
            elif token.type in _STRING_ENDS:
                first = string_start.pop()
                if not string_start:
                    tokens.append(Token(text[first:end], first, end))
            elif not string_start and token.type not in _PASSED_OVER and token.type != tokenize.ENDMARKER:
                if token.type == tokenize.ERRORTOKEN:
                    return None
                tokens.append(Token(token.string, start, end))
            elif token.type == tokenize.ENDMARKER or (token.type == tokenize.NL and not tokens):
                return None
    except (tokenize.TokenError, SyntaxError):
        return None
    return None
