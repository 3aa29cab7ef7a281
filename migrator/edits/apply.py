"""Turns edits into new text. Every byte outside the edits is copied from the source.

Edits become patches over offsets of the original text; patches nest and meet without knowing of each other,
since each is an insertion or a replacement at its own offsets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar, cast

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
from migrator.facts.program.tree import Statement, Tree, semantic_children
from migrator.layout import LONGEST_LINE, Style, TextChange, laid_out, spliced
from migrator.records import dataclass
from migrator.text.spans import Spans

# What comes first where several patches insert at one offset: the end of what stands before, then whole lines,
# then what belongs to the line itself.
_CLOSING, _ARGUMENT, _LINE_AFTER, _LINE_BEFORE, _GUARD, _INDENT, _OPENING, _REPLACEMENT = range(8)


@dataclass(frozen=True)
class _Patch:
    start: int
    end: int
    rank: tuple[int, ...]
    code: Code
    # The edits that it comes of.
    edits: tuple[Edit, ...] = ()


_FORM_FEEDS = re.compile(r"[ \t]*\f(?:[ \t\f]*\f)?")
_COMMENT = re.compile(r"[ \t]*(,?)[ \t]*#")


# A string that has neither quotes nor escapes in it.
_STRING = re.compile(r'(?<![\w\'"\\])"([^\'"\\\n{}]*)"')
_EditT = TypeVar("_EditT", bound=Edit)


def _with_quotes(edit: _EditT, quote: str) -> _EditT:
    """The edit with the quotes of the file, where it has single ones."""
    if quote != "'":
        return edit

    def quoted(text: str) -> str:
        return text if "'" in text else _STRING.sub(r"'\1'", text)

    if isinstance(edit, Wrap):
        return cast(_EditT, replace(edit, before=quoted(edit.before), after=quoted(edit.after)))
    if isinstance(edit, Guard):
        return cast(_EditT, replace(edit, condition=quoted(edit.condition)))
    code = tuple(quoted(piece) if isinstance(piece, str) else piece for piece in edit.code)
    return cast(_EditT, replace(edit, code=code))


class OverlappingEdits(Exception):
    """Two edits replace the same text: a defect of the rules, never of the script."""


class Edited:
    """A file after the edits, which are all of this file.

    `changes`: what they do to the text, in pieces that do not overlap, in the order in which they are to be made. Lines
    that they make too long are broken, and strings have the quotes of the style.
    """

    def __init__(self, tree: Tree, spans: Spans, edits: Sequence[Edit], style: Style) -> None:
        self._printer = _Printer(tree, spans, edits, style.quote)
        self.changes, self._moves = laid_out(
            spans.text,
            list(self._printer.changes()),
            self._printer.statement_before,
            longest=style.line_length or LONGEST_LINE,
            step=lambda indent: spans.deeper(indent)[len(indent) :],
            newline=spans.module.default_newline,
        )
        self.text = spliced(spans.text, self.changes)

    def places(self, sites: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
        """Where in the new text these pieces of the old one begin and end, without those that are left out."""
        found = self._printer.places(sites)
        return {site: (self._moves.forward(start), self._moves.forward(end)) for site, (start, end) in found.items()}


def apply(tree: Tree, spans: Spans, edits: Sequence[Edit], style: Style | None = None) -> str:
    """The text of the file to which the spans belong, after the edits."""
    return Edited(tree, spans, edits, style or Style(LONGEST_LINE, '"')).text


# Expressions whose own parentheses only hold them together; those of a tuple, a generator or a walrus may be needed.
_HELD_BY_ANY_PARENTHESES = (
    cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Call, cst.Name,
    cst.Attribute, cst.Subscript,
)  # fmt: skip


class _Printer:
    def __init__(self, tree: Tree, spans: Spans, edits: Sequence[Edit], quote: str) -> None:
        self.tree = tree
        self.spans = spans
        self.newline = spans.module.default_newline
        self.guards = [edit for edit in edits if isinstance(edit, Guard)]
        self._wrapped = [edit.node for edit in edits if isinstance(edit, (Wrap, Replace))]
        added = [edit for edit in edits if isinstance(edit, AddArgument)]
        patches = [
            replace(p, edits=(edit,))
            for i, edit in enumerate(edits)
            if edit not in added
            for p in self._patches(_with_quotes(edit, quote), i)
        ]
        by_call: dict[cst.Call, list[tuple[AddArgument, Code]]] = {}
        for edit in added:
            by_call.setdefault(edit.call, []).append((edit, self._fitted(_with_quotes(edit, quote).code, edit.call)))
        for call, additions in by_call.items():
            patches += self._argument_patches(call, additions)
        self.patches = sorted(patches, key=lambda p: (p.start, p.rank, p.end))
        replaced = [(p.start, p.end) for p in patches if p.rank[0] == _REPLACEMENT]
        for start, end in replaced:
            if replaced.count((start, end)) > 1:
                raise OverlappingEdits(spans.text[start:end])

    def places(self, sites: Sequence[tuple[int, int]]) -> dict[tuple[int, int], tuple[int, int]]:
        """As those of the file, without the layout."""
        before = self.patches
        marks = []
        for number, (start, end) in enumerate(sites):
            # No script has null bytes. Lines that are inserted before the site's come first, and what is put around it
            # belongs to it.
            width = end - start
            marks.append(_Patch(start, start, (_OPENING, -width - 1), (f"\0{2 * number}\0",)))
            marks.append(_Patch(end, end, (_CLOSING, width, 1), (f"\0{2 * number + 1}\0",)))
        self.patches = sorted([*before, *marks], key=lambda p: (p.start, p.rank, p.end))
        offsets: dict[int, int] = {}
        length = 0
        for i, piece in enumerate(self._render(0, len(self.spans.text)).split("\0")):
            if i % 2:
                offsets.setdefault(int(piece), length)
            else:
                length += len(piece)
        self.patches = before
        return {
            site: (offsets[2 * n], max(offsets[2 * n], offsets.get(2 * n + 1, 0)))
            for n, site in enumerate(sites)
            if 2 * n in offsets
        }

    @cached_property
    def _statement_starts(self) -> list[int]:
        statements = (cst.SimpleStatementLine, cst.BaseCompoundStatement)
        nodes = cast("list[Statement]", self.spans.nodes(statements))
        return sorted({self.spans.line_start(self._start(statement)) for statement in nodes})

    def statement_before(self, offset: int) -> int:
        """The start of the line on which the statement begins that holds the offset."""
        number = bisect_right(self._statement_starts, offset)
        return self._statement_starts[number - 1] if number else 0

    def changes(self) -> Iterator[TextChange]:
        for patch in self._outermost(0, len(self.spans.text)):
            new = "".join(self._print(piece, patch) for piece in patch.code)
            edits = dict.fromkeys(edit for p in (patch, *self._moved_by(patch)) for edit in p.edits)
            yield TextChange(patch.start, patch.end, new, tuple(edits))

    def _moved_by(self, outer: _Patch) -> Iterator[_Patch]:
        """The patches of the text that the patch prints in another place."""
        around = {(outer.start, outer.start), (outer.end, outer.end), (outer.start, outer.end)}
        for patch in self.patches if outer.start < outer.end else ():
            if outer.start <= patch.start and patch.end <= outer.end and (patch.start, patch.end) not in around:
                yield patch

    def _render(self, start: int, end: int, inside: _Patch | None = None) -> str:
        parts, position = [], start
        for patch in self._outermost(start, end, inside):
            parts.append(self.spans.text[position : patch.start])
            parts.extend(self._print(piece, patch) for piece in patch.code)
            position = patch.end
        parts.append(self.spans.text[position:end])
        return "".join(parts)

    def _outermost(self, start: int, end: int, inside: _Patch | None = None) -> Iterator[_Patch]:
        position = start
        for patch in self.patches:
            if patch.start < start or patch.end > end or patch is inside:
                continue
            if inside is not None and (patch.start, patch.end) in ((start, start), (end, end), (start, end)):
                continue  # stands around the moved text, or in its old place: not in it
            if patch.start < position:
                if patch.end <= position:
                    continue  # inside a replaced text, which prints it where it is moved to
                raise OverlappingEdits(self.spans.text[patch.start : patch.end])
            yield patch
            position = patch.end

    def _print(self, piece: str | cst.CSTNode, patch: _Patch) -> str:
        return piece if isinstance(piece, str) else self._render(*self.spans.span(piece), inside=patch)

    # -- patches -------------------------------------------------------------------------------------------------

    def _patches(self, edit: Edit, number: int) -> Iterator[_Patch]:
        if isinstance(edit, Wrap):
            start, first_end = self.spans.outer_span(edit.node)
            end = self.spans.outer_span(edit.last)[1] if edit.last is not None else first_end
            width = end - start
            code = self._indented((edit.before, edit.after), self.tree.statement_of(edit.node))
            before, after = self._fitted(code, edit.node)
            inner_start, inner_end = self._without_parentheses(edit, start, end)
            # Of two around one node, the first is the outer one.
            yield _Patch(start, inner_start, (_OPENING, -width, number), (before,))
            yield _Patch(inner_end, end, (_CLOSING, width, -number), (after,))
            yield from self._spaced_power(edit, number)
        elif isinstance(edit, Replace):
            start, end = self.spans.outer_span(edit.node)
            yield _Patch(start, end + len(edit.comment), (_REPLACEMENT, number), self._fitted(edit.code, edit.node))
        elif isinstance(edit, Guard):
            yield from self._guard_patches(edit)
        elif isinstance(edit, InsertFirst):
            yield self._first_patch(edit, number)
        elif isinstance(edit, (InsertBefore, InsertAfter)):
            yield self._statement_patch(edit, number)

    def _spaced_power(self, edit: Wrap, number: int) -> Iterator[_Patch]:
        """The spaces that formatters put around the `**` of a call: `x**2`, but `f(x) ** 2`."""
        power = self.tree.parent.get(edit.node)
        if not isinstance(power, cst.BinaryOperation) or not isinstance(power.operator, cst.Power):
            return
        start, end = self.spans.outer_span(power.left)[1], self.spans.outer_span(power.right)[0]
        is_first = edit.node is power.left or power.left not in self._wrapped
        if is_first and isinstance(edit.node, cst.Name) and self.spans.text[start:end] == "**":
            yield _Patch(start, end, (_REPLACEMENT, number), (" ** ",))

    def _without_parentheses(self, edit: Wrap, start: int, end: int) -> tuple[int, int]:
        """What the wrap stands around: of `(a + b)` the sum alone, which the wrap's own parentheses hold together."""
        node = edit.node
        is_apart = self._wrapped.count(node) == 1 and edit.last is None and edit.before.endswith("(")
        if not is_apart or not isinstance(node, _HELD_BY_ANY_PARENTHESES) or len(node.lpar) != 1:
            return start, end
        inner_start, inner_end = self.spans.span(node)
        is_plain = self.spans.text[start:inner_start] == "(" and self.spans.text[inner_end:end] == ")"
        return (inner_start, inner_end) if is_plain else (start, end)

    def _statement_patch(self, edit: InsertBefore | InsertAfter, number: int) -> _Patch:
        before = isinstance(edit, InsertBefore)
        statement = self.tree.statement_of(edit.node)
        indent = self._indent(statement)
        code = self._indented(edit.code, statement)
        if before:
            at = self.spans.line_start(self._start(statement))
            if isinstance(edit, InsertBefore) and edit.above_comments:
                at = self._above_comments(at, statement)
            elif isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
                above = self._above_blank_lines(at, statement)
                if not self._follows_definition(statement):
                    at = above
                else:  # it stands between two definitions, and is parted from both
                    blank = sum(line.comment is None for line in statement.leading_lines)
                    code = (*code, *((self.newline,) * blank))
            return _Patch(at, at, (_LINE_BEFORE, number), (indent, *code, self.newline))
        start, end = self.spans.span(statement)
        at = self.spans.line_end(max(end - 1, start))
        while self.spans.text[end:at].strip() == "\\":  # the line goes on, with nothing
            end, at = at, self.spans.line_end(at)
        # What follows the last statement of a block comes before what follows the statement with the block.
        depth = sum(1 for _ in self.tree.ancestors(statement))
        return _Patch(at, at, (_LINE_AFTER, -depth, number), self._line_after(indent, code, at))

    def _above_blank_lines(self, at: int, definition: cst.FunctionDef | cst.ClassDef) -> int:
        """Where the lines begin that part the definition from what stands in front of it; the line itself where there
        are none, or nothing stands there."""
        if all(line.comment is not None for line in definition.leading_lines):
            return at
        above = at
        for _ in definition.leading_lines:
            above = self.spans.line_start(above - 1)
        return above or at

    def _follows_definition(self, definition: Statement) -> bool:
        """Whether what stands in front of it is a function or class."""
        body = getattr(self.tree.parent.get(definition), "body", ())
        place = next((i for i, each in enumerate(body) if each is definition), 0) if isinstance(body, Sequence) else 0
        return place > 0 and isinstance(body[place - 1], (cst.FunctionDef, cst.ClassDef))

    def _above_comments(self, at: int, statement: Statement) -> int:
        """Where the comments directly above the line begin; the line itself where they are the head of the file."""
        above = at
        for line in reversed(statement.leading_lines):
            if line.comment is None:
                break
            above = self.spans.line_start(above - 1)
        return above or at

    def _indented(self, code: Code, statement: Statement) -> Code:
        """The code with the statement's indent after each line end."""
        line_end = self.newline + self._indent(statement)
        return tuple(piece.replace("\n", line_end) if isinstance(piece, str) else piece for piece in code)

    def _fitted(self, code: Code, node: cst.CSTNode) -> Code:
        """The code as it may stand in the node's place: no quote of an f-string around it, and no line end there."""
        string = self._string_around(node)
        if string is None or len(string.quote) == 3:
            return code
        other = "'" if string.quote == '"' else '"'
        return tuple(
            re.sub(r"\s*\n\s*", " ", piece).replace(string.quote, other) if isinstance(piece, str) else piece
            for piece in code
        )

    def _string_around(self, node: cst.CSTNode) -> cst.FormattedString | None:
        return next((owner for owner in self.tree.ancestors(node) if isinstance(owner, cst.FormattedString)), None)

    def _line_after(self, indent: str, code: Code, at: int) -> Code:
        if at == len(self.spans.text) and not self.spans.text.endswith(("\n", "\r")):
            return (self.newline, indent, *code)  # the file's last line has no end
        return (indent, *code, self.newline)

    def _first_patch(self, edit: InsertFirst, number: int) -> _Patch:
        first = cast(cst.IndentedBlock, edit.function.body).body[0]
        if edit.function.get_docstring() is not None:
            return self._statement_patch(InsertAfter(first, edit.code), number)
        return self._statement_patch(InsertBefore(first, edit.code), number)

    # -- arguments -----------------------------------------------------------------------------------------------

    def _argument_patches(self, call: cst.Call, added: list[tuple[AddArgument, Code]]) -> Iterator[_Patch]:
        if not call.args:
            at = self.spans.text.index("(", self.spans.outer_span(call.func)[1]) + 1
            for number, (edit, code) in enumerate(added):
                yield _Patch(at, at, (_ARGUMENT, number), code if number == 0 else (", ", *code), (edit,))
            return
        yield from self._parenthesized_generator(call.args[-1])
        start, end = self.spans.span(call.args[-1])
        indent = self.spans.text[self.spans.line_start(start) : start]
        below = _COMMENT.match(self.spans.text, end) if self._is_alone(call) else None
        if below is not None:
            # New lines after the last argument's own, whose comment belongs to it.
            if not below.group(1):
                yield _Patch(end, end, (_ARGUMENT, 0), (",",), (added[0][0],))
            at = self.spans.line_end(end)
            for number, (edit, code) in enumerate(added):
                yield _Patch(at, at, (_LINE_AFTER, 0, number), (indent, *code, ",", self.newline), (edit,))
            return
        separator = f",{self.newline}{indent}" if self._is_alone(call) else ", "
        for number, (edit, code) in enumerate(added):
            yield _Patch(end, end, (_ARGUMENT, number), (separator, *code), (edit,))

    def _parenthesized_generator(self, arg: cst.Arg) -> Iterator[_Patch]:
        """`f(x for x in y)` takes no second argument as it is."""
        if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar:
            start, end = self.spans.span(arg)
            yield _Patch(start, start, (_OPENING, 0), ("(",))
            yield _Patch(end, end, (_CLOSING, 0), (")",))

    def _is_alone(self, call: cst.Call) -> bool:
        """Whether the last argument stands on a line of its own."""
        start = self.spans.span(call.args[-1])[0]
        line = self.spans.line_start(start)
        before = self.spans.span(call.args[-2])[0] if len(call.args) > 1 else self.spans.outer_span(call.func)[1]
        return self.spans.text[line:start].strip() == "" and self.spans.line_start(before) != line

    def _guard_patches(self, edit: Guard) -> Iterator[_Patch]:
        first, last = self.tree.statement_of(edit.first), self.tree.statement_of(edit.last)
        indent = self._indent(first)
        start = self.spans.line_start(self._start(first))
        end = self.spans.span(last)[1]
        yield _Patch(start, start, (_GUARD, 0), (f"{indent}if {edit.condition}:{self.newline}",))
        outer = self.spans.indent(self._start(first))
        unit = self._unit(first)
        strings = self._multiline_strings(first, last)
        for at in self.spans.line_starts_between(start, end):
            blank = not self.spans.text[at : self.spans.line_end(at)].strip()
            if not blank and not any(s < at <= e for s, e in strings):
                # Behind what the block's lines begin with: before it, tabs and spaces could mix.
                form_feeds = _FORM_FEEDS.match(self.spans.text, at)
                if form_feeds is not None:
                    yield _Patch(at, form_feeds.end(), (_INDENT, 0), ())  # libcst cannot read it deeper down
                    at = form_feeds.end()
                at += len(outer) * self.spans.text.startswith(outer, at)
                yield _Patch(at, at, (_INDENT, 0), (unit,))

    def _multiline_strings(self, first: Statement, last: Statement) -> list[tuple[int, int]]:
        block = list(getattr(self.tree.block_of(first), "body", ()))
        nodes: list[cst.CSTNode] = block[block.index(first) : block.index(last) + 1]
        found = []
        while nodes:
            node = nodes.pop()
            if isinstance(node, (cst.SimpleString, cst.FormattedString)):
                start, stop = self.spans.span(node)
                if self.spans.line_start(start) != self.spans.line_start(stop):
                    found.append((start, stop))
            nodes.extend(semantic_children(node))
        return found

    # -- layout --------------------------------------------------------------------------------------------------

    def _indent(self, statement: Statement) -> str:
        indent = self.spans.indent(self._start(statement))
        for guard in self.guards:
            if self._is_inside(statement, guard):
                first = self.tree.statement_of(guard.first)
                outer = self.spans.indent(self._start(first))
                at = len(outer) * indent.startswith(outer)
                indent = indent[:at] + self._unit(first) + indent[at:]
        return indent

    def _unit(self, statement: Statement) -> str:
        """One step of indentation more, as long as that of the statement's own block: a file may have several."""
        indent = self.spans.indent(self._start(statement))
        owner = self.tree.parent.get(self.tree.block_of(statement))
        outer = self.spans.indent(self._start(owner)) if isinstance(owner, cst.BaseCompoundStatement) else indent
        return indent.removeprefix(outer) if outer != indent else self.spans.deeper(indent)[len(indent) :]

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
