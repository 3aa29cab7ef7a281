"""What the user says in comments, where only the user knows: `# migrate: loss=mean`, `# migrate: ignore[rule] reason`.

A comment speaks of the statement on whose lines it stands; one on a line of its own, of the statement that follows. Of
a compound statement that is the header.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

import libcst as cst

from migrator.facts.program.tree import Statement, Tree
from migrator.records import dataclass
from migrator.text.spans import Spans

LOSS, ROWS, REPLICATED, IGNORE, FILE_IGNORE = "loss", "rows", "replicated", "ignore", "file-ignore"
# Not of a comment, but of the settings, which say it of the whole file.
PER_FILE = "per-file-ignores"
_VALUES = {LOSS: ("mean", "sum", "gather"), ROWS: ("0", "none")}
_MARK = "migrate:"
_COMMENT = re.compile(r"#[ \t]*(migrate:)[ \t]*([^#\r\n]*)", re.IGNORECASE)
_WORD = re.compile(
    r"(?P<ignore>(?:file-)?ignore)\[(?P<rules>[^\]]*)\](?P<reason>.*)"
    r"|(?P<name>[a-z]+)(?:[ \t]*=[ \t]*(?P<value>\w+))?"
    r"[ \t]*$"
)
_KNOWN = "loss=mean|sum|gather, rows=0|none, replicated, ignore[rule] reason, file-ignore[rule] reason"


class UnknownWord(Exception):
    """A comment to this tool that it does not understand; `offset` is where it stands in the text of the module."""

    def __init__(self, message: str, module: cst.Module, offset: int) -> None:
        super().__init__(message)
        self.module = module
        self.offset = offset


@dataclass(frozen=True, eq=False)
class Word:
    """One comment. `statement` is what it speaks of; None for a whole file, and where no statement follows."""

    module: cst.Module
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


def words_of(tree: Tree, spans: Spans) -> list[Word]:
    """The comments of a file that are for this tool. Raises UnknownWord."""
    if _MARK not in spans.text.lower():
        return []
    found = []
    statements = _Statements(tree, spans)
    for match in _COMMENT.finditer(spans.text):
        offset = match.start()
        if statements.is_text(offset):
            continue
        try:
            word = _parsed(match.group(2).strip(), spans.module)
        except ValueError as error:
            if match.group(1) != _MARK:
                continue  # a sentence: "# Migrate: to Keras 3"
            raise UnknownWord(str(error), spans.module, offset) from None
        found.append(
            replace(word, offset=offset, statement=statements.at(offset) if word.kind != FILE_IGNORE else None)
        )
    return found


def check_rules(words: Collection[Word], known: Collection[str]) -> None:
    """Raises UnknownWord for a comment that names a rule which is not there."""
    for word in words:
        for name in word.rules:
            if name not in known:
                message = f"'# migrate: {word.text}': there is no rule '{name}' (--list-rules names them)"
                raise UnknownWord(message, word.module, word.offset)


def _parsed(text: str, module: cst.Module) -> Word:
    """Raises ValueError, with what is wrong."""
    match = _WORD.match(text)
    if match is not None and match["ignore"]:
        rules = tuple(name.strip() for name in match["rules"].split(",") if name.strip())
        if rules:
            return Word(module, match["ignore"], rules=rules, reason=match["reason"].strip())
    elif match is not None:
        name, value = match["name"], match["value"] or ""
        if (name == REPLICATED and not value) or value in _VALUES.get(name, ()):
            return Word(module, name, value)
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
        if following is None or any(_is_code(line.strip()) for line in spans.text[offset : following[0]].splitlines()):
            return None
        return following[2]


def _header(spans: Spans, statement: cst.CSTNode) -> tuple[int, int]:
    """Where a statement begins and ends, of a compound one its header."""
    start, end = spans.span(statement)
    body = getattr(statement, "body", None)
    if isinstance(body, cst.IndentedBlock):
        # Comments may stand between the header and the first statement of the block.
        lines = spans.text[start : spans.span(body.body[0] if body.body else body)[0]].splitlines(keepends=True)
        while len(lines) > 1 and not _is_code(lines[-1].strip()):
            lines.pop()
        end = start + len("".join(lines).rstrip())
    return start, end


def _is_code(line: str) -> bool:
    return bool(line) and not line.startswith(("#", "@"))
