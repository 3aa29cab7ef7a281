"""Turns edits into new text. Every byte outside the edits is copied from the source.

Edits become patches over offsets of the original text; patches nest and meet without knowing of each other,
since each is an insertion or a replacement at its own offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import libcst as cst

from migrator.edits import (
    AddArgument,
    Code,
    Edit,
    Guard,
    InsertAfter,
    InsertBefore,
    InsertFirst,
    Replace,
    Wrap,
)
from migrator.facts.tree import Statement, Tree
from migrator.spans import Spans

# What comes first where several patches insert at one offset: the end of what stands before, then whole lines,
# then what belongs to the line itself.
_CLOSING, _LINE_AFTER, _LINE_BEFORE, _GUARD, _INDENT, _OPENING, _REPLACEMENT = range(7)


@dataclass(frozen=True)
class _Patch:
    start: int
    end: int
    rank: tuple[int, int]
    code: Code


_LONG_LINE = 100
_COMMENT = re.compile(r"[ \t]*(,?)[ \t]*#")


def _length(code: Code) -> int:
    return sum(len(piece) for piece in code if isinstance(piece, str))


class OverlappingEdits(Exception):
    """Two edits replace the same text: a defect of the rules, never of the script."""


def apply(tree: Tree, spans: Spans, edits: Sequence[Edit]) -> str:
    """The text of the script after the edits."""
    return _Printer(tree, spans, edits).text()


class _Printer:
    def __init__(self, tree: Tree, spans: Spans, edits: Sequence[Edit]) -> None:
        self.tree = tree
        self.spans = spans
        self.newline = tree.module.default_newline
        self.guards = [edit for edit in edits if isinstance(edit, Guard)]
        added = [edit for edit in edits if isinstance(edit, AddArgument)]
        patches = [p for i, edit in enumerate(edits) if edit not in added for p in self._patches(edit, i)]
        for number, edit in enumerate(added):  # last: whether they fit on their line depends on the others
            patches.extend(self._argument_patches(edit, number, patches))
        self.patches = sorted(patches, key=lambda p: (p.start, p.rank, p.end))
        replaced = [(p.start, p.end) for p in patches if p.rank[0] == _REPLACEMENT]
        for start, end in replaced:
            if replaced.count((start, end)) > 1:
                raise OverlappingEdits(spans.text[start:end])

    def text(self) -> str:
        return self._render(0, len(self.spans.text))

    def _render(self, start: int, end: int, inside: _Patch | None = None) -> str:
        parts, position = [], start
        for patch in self.patches:
            if patch.start < start or patch.end > end or patch is inside:
                continue
            if inside is not None and (patch.start, patch.end) in ((start, start), (end, end), (start, end)):
                continue  # stands around the moved text, or in its old place: not in it
            if patch.start < position:
                if patch.end <= position:
                    continue  # inside a replaced text, which prints it where it is moved to
                raise OverlappingEdits(self.spans.text[patch.start : patch.end])
            parts.append(self.spans.text[position : patch.start])
            parts.extend(self._print(piece, patch) for piece in patch.code)
            position = patch.end
        parts.append(self.spans.text[position:end])
        return "".join(parts)

    def _print(self, piece: str | cst.CSTNode, patch: _Patch) -> str:
        return piece if isinstance(piece, str) else self._render(*self.spans.span(piece), inside=patch)

    # -- patches -------------------------------------------------------------------------------------------------

    def _patches(self, edit: Edit, number: int) -> Iterator[_Patch]:
        if isinstance(edit, Wrap):
            start, first_end = self.spans.outer_span(edit.node)
            end = self.spans.outer_span(edit.last)[1] if edit.last is not None else first_end
            width = end - start
            yield _Patch(start, start, (_OPENING, -width), (edit.before,))
            yield _Patch(end, end, (_CLOSING, width), (edit.after,))
        elif isinstance(edit, Replace):
            start, end = self.spans.outer_span(edit.node)
            yield _Patch(start, end, (_REPLACEMENT, number), edit.code)
        elif isinstance(edit, Guard):
            yield from self._guard_patches(edit)
        elif isinstance(edit, InsertFirst):
            yield self._first_patch(edit, number)
        elif isinstance(edit, (InsertBefore, InsertAfter)):
            yield self._statement_patch(edit, number)

    def _statement_patch(self, edit: InsertBefore | InsertAfter, number: int) -> _Patch:
        before = isinstance(edit, InsertBefore)
        statement = self.tree.statement_of(edit.node)
        small = self._crowded(statement, edit.node)
        if small is not None:
            start, end = self.spans.span(small)
            if before:
                return _Patch(start, start, (_OPENING, -1 << 30), (*edit.code, "; "))
            return _Patch(end, end, (_CLOSING, 1 << 30), ("; ", *edit.code))
        indent = self._indent(statement)
        code = tuple(p.replace("\n", self.newline + indent) if isinstance(p, str) else p for p in edit.code)
        if before:
            at = self.spans.line_start(self._start(statement))
            return _Patch(at, at, (_LINE_BEFORE, number), (indent, *code, self.newline))
        start, end = self.spans.span(statement)
        at = self.spans.line_end(max(end - 1, start))
        return _Patch(at, at, (_LINE_AFTER, number), self._line_after(indent, code, at))

    def _line_after(self, indent: str, code: Code, at: int) -> Code:
        if at == len(self.spans.text) and not self.spans.text.endswith(("\n", "\r")):
            return (self.newline, indent, *code)  # the file's last line has no end
        return (indent, *code, self.newline)

    def _first_patch(self, edit: InsertFirst, number: int) -> _Patch:
        body = edit.function.body
        if isinstance(body, cst.SimpleStatementSuite):
            start = self.spans.span(body.body[0])[0]
            return _Patch(start, start, (_OPENING, -1 << 30), (*edit.code, "; "))
        first = cast(cst.IndentedBlock, body).body[0]
        if edit.function.get_docstring() is not None:
            return self._statement_patch(InsertAfter(first, edit.code), number)
        return self._statement_patch(InsertBefore(first, edit.code), number)

    def _argument_patches(self, edit: AddArgument, number: int, others: Sequence[_Patch]) -> Iterator[_Patch]:
        call = edit.call
        rank = (_CLOSING, (1 << 30) + number)
        if not call.args:
            at = self.spans.text.index("(", self.spans.outer_span(call.func)[1]) + 1
            first = not any(p.start == at and p.rank[0] == _CLOSING for p in others)
            yield _Patch(at, at, rank, edit.code if first else (", ", *edit.code))
            return
        start, at = self.spans.span(call.args[-1])
        if isinstance(call.args[-1].value, cst.GeneratorExp) and not call.args[-1].value.lpar:
            yield _Patch(start, start, (_OPENING, 0), ("(",))  # `f(x for x in y)` takes no second argument as it is
            yield _Patch(at, at, (_CLOSING, 0), (")",))
        trailing = _COMMENT.match(self.spans.text, at)
        if trailing is not None and self._is_alone(call):
            # The comment belongs to the argument before it: the new one goes below.
            if not trailing.group(1):
                yield _Patch(at, at, rank, (",",))
            line = self.spans.line_start(start)
            below = self.spans.line_end(at)
            yield _Patch(
                below, below, (_LINE_AFTER, number), (self.spans.text[line:start], *edit.code, ",", self.newline)
            )
            return
        separator = self._separator(call, at, edit.code, others)
        yield _Patch(at, at, rank, (separator, *edit.code))

    def _is_alone(self, call: cst.Call) -> bool:
        """Whether the last argument stands on a line of its own."""
        start = self.spans.span(call.args[-1])[0]
        line = self.spans.line_start(start)
        before = self.spans.span(call.args[-2])[0] if len(call.args) > 1 else start
        return self.spans.text[line:start].strip() == "" and self.spans.line_start(before) != line

    def _separator(self, call: cst.Call, at: int, code: Code, others: Sequence[_Patch]) -> str:
        """Before a new last argument: a new line where the arguments stand one to a line, or the line would be long."""
        text = self.spans.text
        starts = [self.spans.span(arg)[0] for arg in call.args]
        last_line = self.spans.line_start(starts[-1])
        if self._is_alone(call):
            return f",{self.newline}{text[last_line : starts[-1]]}"
        first_line = self.spans.line_start(starts[0])
        line = self.spans.line_start(at)
        length = self.spans.line_end(at) - line + _length(code)
        length += sum(
            _length(p.code) - (p.end - p.start) for p in others if line <= p.start <= at and p.rank[0] > _INDENT
        )
        length += sum(_length(p.code) for p in others if line < p.start <= at and p.rank[0] == _CLOSING)
        broken = any(p.start == at and self.newline in str(p.code[0]) for p in others)
        if length > _LONG_LINE and not broken and "\t" not in text[first_line : starts[0]]:
            return f",{self.newline}{' ' * (starts[0] - first_line)}"
        return ", "

    def _guard_patches(self, edit: Guard) -> Iterator[_Patch]:
        first, last = self.tree.statement_of(edit.first), self.tree.statement_of(edit.last)
        indent = self._indent(first)
        start = self.spans.line_start(self._start(first))
        end = self.spans.span(last)[1]
        yield _Patch(start, start, (_GUARD, 0), (f"{indent}if {edit.condition}:{self.newline}",))
        unit = self.tree.module.default_indent
        strings = self._multiline_strings(first, last)
        for at in self.spans.line_starts_between(start, end):
            blank = not self.spans.text[at : self.spans.line_end(at)].strip()
            if not blank and not any(s < at <= e for s, e in strings):
                yield _Patch(at, at, (_INDENT, 0), (unit,))

    def _multiline_strings(self, first: Statement, last: Statement) -> list[tuple[int, int]]:
        begin, end = self._start(first), self.spans.span(last)[1]
        found = []
        for node in self.tree.order:
            if isinstance(node, (cst.SimpleString, cst.FormattedString)):
                start, stop = self.spans.span(node)
                if begin <= start and stop <= end and self.spans.line_start(start) != self.spans.line_start(stop):
                    found.append((start, stop))
        return found

    # -- layout --------------------------------------------------------------------------------------------------

    def _crowded(self, statement: Statement, node: cst.CSTNode) -> cst.CSTNode | None:
        """The small statement that holds the node, where others stand on its line; else None."""
        line: cst.CSTNode | None = None
        for owner in (node, *self.tree.ancestors(node)):
            if isinstance(owner, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
                line = owner
                break
            if owner is statement:
                break
        if line is None or (isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1):
            return None
        return next((s for s in line.body if self.tree.contains(s, node)), None)  # type: ignore[attr-defined]

    def _indent(self, statement: Statement) -> str:
        start = self._start(statement)
        indent = self.spans.text[self.spans.line_start(start) : start].replace("\f", "")
        indent = indent[: len(indent) - len(indent.lstrip())]
        inside = sum(self._is_inside(statement, guard) for guard in self.guards)
        return indent + self.tree.module.default_indent * inside

    def _start(self, statement: Statement) -> int:
        """Where the statement begins, its decorators included."""
        decorators = getattr(statement, "decorators", ())
        return self.spans.span(decorators[0] if decorators else statement)[0]

    def _is_inside(self, statement: Statement, guard: Guard) -> bool:
        """Whether the statement is part of a guarded one (the guarded ones themselves are not)."""
        block = self.tree.block_of(self.tree.statement_of(guard.first))
        outer = self.tree.lift(statement, block)
        if outer is None or outer is statement:
            return False
        begin, end = (
            self.tree.order[self.tree.statement_of(guard.first)],
            self.tree.order[self.tree.statement_of(guard.last)],
        )
        return begin <= self.tree.order[outer] <= end
