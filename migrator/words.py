"""What the user says in comments, where only the user knows: `# migrate: loss=mean`, `# migrate: ignore[rule] reason`.

A comment speaks of the statement on whose lines it stands; one on a line of its own, of the statement that follows. Of
a compound statement that is the header.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from migrator.facts.tree import Statement, Tree
from migrator.results import Failure
from migrator.spans import Spans, line_and_column, line_starts

LOSS, ROWS, REPLICATED, IGNORE, FILE_IGNORE = "loss", "rows", "replicated", "ignore", "file-ignore"
_VALUES = {LOSS: ("mean", "sum", "gather"), ROWS: ("0", "none")}
_MARK = "migrate:"
_COMMENT = re.compile(r"#[ \t]*migrate:[ \t]*([^#\r\n]*)")
_WORD = re.compile(
    r"(?P<ignore>(?:file-)?ignore)\[(?P<rules>[^\]]*)\](?P<reason>.*)"
    r"|(?P<name>[a-z]+)(?:[ \t]*=[ \t]*(?P<value>\w+))?"
    r"[ \t]*$"
)
_KNOWN = "loss=mean|sum|gather, rows=0|none, replicated, ignore[rule] reason, file-ignore[rule] reason"


class UnknownWord(Failure):
    """A comment to this tool that it does not understand."""


@dataclass(frozen=True, eq=False)
class Word:
    """One comment. `statement` is what it speaks of; None for a whole file, and where no statement follows."""

    kind: str
    value: str = ""
    rules: tuple[str, ...] = ()
    reason: str = ""
    offset: int = 0
    statement: Statement | None = None

    @property
    def text(self) -> str:
        """As it is written, but for spaces."""
        if self.rules:
            return f"{self.kind}[{', '.join(self.rules)}]"
        return f"{self.kind}={self.value}" if self.value else self.kind


def words_of(tree: Tree, spans: Spans, known_rules: Collection[str]) -> list[Word]:
    """The comments of a file that are for this tool. Raises UnknownWord."""
    if _MARK not in spans.text:
        return []
    found = []
    statements = _Statements(tree, spans)
    for match in _COMMENT.finditer(spans.text):
        offset = match.start()
        if statements.is_text(offset):
            continue
        try:
            word = _parsed(match.group(1).strip(), known_rules)
        except ValueError as error:
            raise UnknownWord(str(error), *line_and_column(line_starts(spans.text), offset)) from None
        statement = statements.at(offset) if word.kind != FILE_IGNORE else None
        found.append(Word(word.kind, word.value, word.rules, word.reason, offset, statement))
    return found


def _parsed(text: str, known_rules: Collection[str]) -> Word:
    """Raises ValueError, with what is wrong."""
    match = _WORD.match(text)
    if match is None:
        raise ValueError(f"'# migrate: {text}' is not understood: the words are {_KNOWN}")
    if match["ignore"]:
        rules = tuple(name.strip() for name in match["rules"].split(",") if name.strip())
        unknown = [name for name in rules if name not in known_rules]
        if unknown or not rules:
            what = f"there is no rule '{unknown[0]}'" if unknown else "no rule is named"
            raise ValueError(f"'# migrate: {text}': {what} (--list-rules names them)")
        return Word(match["ignore"], rules=rules, reason=match["reason"].strip())
    name, value = match["name"], match["value"] or ""
    if name == REPLICATED and not value:
        return Word(name)
    if name in _VALUES and value in _VALUES[name]:
        return Word(name, value)
    raise ValueError(f"'# migrate: {text}' is not understood: the words are {_KNOWN}")


class _Statements:
    """The statements of a file by their places, and where a `#` begins no comment."""

    def __init__(self, tree: Tree, spans: Spans) -> None:
        self._spans = spans
        module = spans.module
        inside = [node for node in tree.order if tree.module_of(node) is module]
        strings = (cst.SimpleString, cst.FormattedString)
        self._texts = [spans.span(node) for node in inside if isinstance(node, strings)]
        self._places = [
            (*_header(spans, node), node)
            for node in inside
            if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        ]

    def is_text(self, offset: int) -> bool:
        return any(start < offset < end for start, end in self._texts)

    def at(self, offset: int) -> Statement | None:
        """The statement that a comment there speaks of."""
        spans = self._spans
        around = [
            (start, statement)
            for start, end, statement in self._places
            if spans.line_start(start) <= offset < spans.line_end(max(start, end - 1))
        ]
        if around:
            return max(around, key=lambda place: place[0])[1]
        following = min((p for p in self._places if p[0] > offset), key=lambda p: p[0], default=None)
        if following is None or any(_is_code(line) for line in _lines(spans.text[offset : following[0]])):
            return None
        return following[2]


def _header(spans: Spans, statement: cst.CSTNode) -> tuple[int, int]:
    start, end = spans.span(statement)
    body = getattr(statement, "body", None)
    if isinstance(body, cst.IndentedBlock):
        # The block's own span begins behind the line end of the header.
        end = start + len(spans.text[start : spans.span(body)[0]].rstrip())
    return start, end


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines())


def _is_code(line: str) -> bool:
    return bool(line) and not line.startswith(("#", "@"))
