"""Turns edits into new text. Every byte outside the edits is copied from the source.

Edits become patches over offsets of the original text; patches nest and meet without knowing of each other,
since each is an insertion or a replacement at its own offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from migrator.facts.tree import Statement, Tree, semantic_children
from migrator.layout import LONGEST_LINE, breaks
from migrator.spans import Spans

# What comes first where several patches insert at one offset: the end of what stands before, then whole lines,
# then what belongs to the line itself.
_CLOSING, _ARGUMENT, _LINE_AFTER, _LINE_BEFORE, _GUARD, _INDENT, _OPENING, _REPLACEMENT = range(8)


@dataclass(frozen=True)
class _Patch:
    start: int
    end: int
    rank: tuple[int, int]
    code: Code
    # The edits that it comes of.
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True)
class TextChange:
    """What stands in the new text in the place of the old one from `start` to before `end`, and of which edits."""

    start: int
    end: int
    new: str
    edits: tuple[Edit, ...]


_FORM_FEEDS = re.compile(r"[ \t]*\f(?:[ \t\f]*\f)?")
_COMMENT = re.compile(r"[ \t]*(,?)[ \t]*#")


def _length(code: Code) -> int:
    return sum(len(piece) for piece in code if isinstance(piece, str))


class OverlappingEdits(Exception):
    """Two edits replace the same text: a defect of the rules, never of the script."""


def apply(tree: Tree, spans: Spans, edits: Sequence[Edit], longest: int = LONGEST_LINE) -> str:
    """The text of the file to which the spans belong, after the edits, which are all of this file.

    Arguments that would make a line longer than `longest` go to the next one.
    """
    return _Printer(tree, spans, edits, longest).text()


def changes(tree: Tree, spans: Spans, edits: Sequence[Edit], longest: int = LONGEST_LINE) -> list[TextChange]:
    """What the edits do to the text: pieces that do not overlap, in the order in which they are to be made."""
    return list(_Printer(tree, spans, edits, longest).changes())


def places(
    tree: Tree, spans: Spans, edits: Sequence[Edit], sites: Sequence[tuple[int, int]], longest: int = LONGEST_LINE
) -> dict[tuple[int, int], tuple[int, int]]:
    """Where in the text after the edits these pieces of the old one begin and end.

    Without those that the edits leave out.
    """
    printer = _Printer(tree, spans, edits, longest)
    for number, (start, end) in enumerate(sites):
        # No script has null bytes. Lines that are inserted before the site's come first, and what is put around it
        # belongs to it.
        width = end - start
        printer.patches.append(_Patch(start, start, (_OPENING, -width - 1), (f"\0{2 * number}\0",)))
        printer.patches.append(_Patch(end, end, (_CLOSING, width), (f"\0{2 * number + 1}\0",)))
    printer.patches.sort(key=lambda p: (p.start, p.rank, p.end))
    offsets: dict[int, int] = {}
    length = 0
    for i, piece in enumerate(printer.text().split("\0")):
        if i % 2:
            offsets.setdefault(int(piece), length)
        else:
            length += len(piece)
    return {
        site: (offsets[2 * n], max(offsets[2 * n], offsets.get(2 * n + 1, 0)))
        for n, site in enumerate(sites)
        if 2 * n in offsets
    }


# Expressions whose own parentheses only hold them together; those of a tuple, a generator or a walrus may be needed.
_HELD_BY_ANY_PARENTHESES = (
    cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation, cst.Comparison, cst.IfExp, cst.Call, cst.Name,
    cst.Attribute, cst.Subscript,
)  # fmt: skip


class _Printer:
    def __init__(self, tree: Tree, spans: Spans, edits: Sequence[Edit], longest: int) -> None:
        self.longest = longest
        self.tree = tree
        self.spans = spans
        self.newline = spans.module.default_newline
        self.guards = [edit for edit in edits if isinstance(edit, Guard)]
        # Arguments that one wrap takes together stay on one line.
        self.joined = [
            (spans.span(e.node)[0], spans.span(e.last)[1]) for e in edits if isinstance(e, Wrap) and e.last is not None
        ]
        self._wrapped = [edit.node for edit in edits if isinstance(edit, (Wrap, Replace))]
        added = [edit for edit in edits if isinstance(edit, AddArgument)]
        patches = [
            replace(p, edits=(edit,))
            for i, edit in enumerate(edits)
            if edit not in added
            for p in self._patches(edit, i)
        ]
        # Last: how the arguments of a call are laid out depends on what the other edits make of them.
        by_call: dict[cst.Call, list[AddArgument]] = {}
        causes: dict[cst.Call, list[Edit]] = {}
        written: dict[Edit, Edit] = {}
        for edit in edits:
            for call in self._calls_changed_by(edit):
                by_call.setdefault(call, [])
                causes.setdefault(call, []).append(edit)
        for edit in added:
            fitted = AddArgument(edit.call, self._fitted(edit.code, edit.call))
            by_call.setdefault(edit.call, []).append(fitted)
            causes.setdefault(edit.call, []).append(edit)
            written[fitted] = edit
        for call, additions in by_call.items():
            patches += [
                replace(p, edits=tuple(written[e] for e in p.edits) or tuple(causes[call]))
                for p in list(self._argument_patches(call, additions, patches))
            ]
        self.patches = sorted(patches, key=lambda p: (p.start, p.rank, p.end))
        replaced = [(p.start, p.end) for p in patches if p.rank[0] == _REPLACEMENT]
        for start, end in replaced:
            if replaced.count((start, end)) > 1:
                raise OverlappingEdits(spans.text[start:end])

    def text(self) -> str:
        return self._render(0, len(self.spans.text))

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
            yield _Patch(start, inner_start, (_OPENING, -width), (before,))
            yield _Patch(inner_end, end, (_CLOSING, width), (after,))
        elif isinstance(edit, Replace):
            start, end = self.spans.outer_span(edit.node)
            yield _Patch(start, end, (_REPLACEMENT, number), self._fitted(edit.code, edit.node))
        elif isinstance(edit, Guard):
            yield from self._guard_patches(edit)
        elif isinstance(edit, InsertFirst):
            yield self._first_patch(edit, number)
        elif isinstance(edit, (InsertBefore, InsertAfter)):
            yield self._statement_patch(edit, number)

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
            return _Patch(at, at, (_LINE_BEFORE, number), (indent, *code, self.newline))
        start, end = self.spans.span(statement)
        at = self.spans.line_end(max(end - 1, start))
        return _Patch(at, at, (_LINE_AFTER, number), self._line_after(indent, code, at))

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

    def _calls_changed_by(self, edit: Edit) -> Iterator[cst.Call]:
        """The call of which the edit lengthens an argument."""
        if isinstance(edit, (Wrap, Replace)):
            arg = self.tree.parent.get(edit.node)
            call = self.tree.parent.get(arg) if isinstance(arg, cst.Arg) else None
            if isinstance(call, cst.Call):
                yield call

    def _argument_patches(self, call: cst.Call, added: list[AddArgument], others: list[_Patch]) -> Iterator[_Patch]:
        if not call.args:
            at = self.spans.text.index("(", self.spans.outer_span(call.func)[1]) + 1
            for number, edit in enumerate(added):
                yield _Patch(at, at, (_ARGUMENT, number), edit.code if number == 0 else (", ", *edit.code), (edit,))
            return
        if added:
            yield from self._parenthesized_generator(call.args[-1])
        below = _COMMENT.match(self.spans.text, self.spans.span(call.args[-1])[1]) if self._is_alone(call) else None
        if below is not None:
            yield from self._arguments_below(call, added, has_comma=bool(below.group(1)))
        else:
            yield from self._arguments_inline(call, added, others)

    def _parenthesized_generator(self, arg: cst.Arg) -> Iterator[_Patch]:
        """`f(x for x in y)` takes no second argument as it is."""
        if isinstance(arg.value, cst.GeneratorExp) and not arg.value.lpar:
            start, end = self.spans.span(arg)
            yield _Patch(start, start, (_OPENING, 0), ("(",))
            yield _Patch(end, end, (_CLOSING, 0), (")",))

    def _arguments_below(self, call: cst.Call, added: list[AddArgument], *, has_comma: bool) -> Iterator[_Patch]:
        """New lines after the last argument's own, whose comment belongs to it."""
        start, end = self.spans.span(call.args[-1])
        indent = self.spans.text[self.spans.line_start(start) : start]
        if added and not has_comma:
            yield _Patch(end, end, (_ARGUMENT, 0), (",",))
        at = self.spans.line_end(end)
        for number, edit in enumerate(added):
            yield _Patch(at, at, (_LINE_AFTER, number), (indent, *edit.code, ",", self.newline), (edit,))

    def _arguments_inline(self, call: cst.Call, added: list[AddArgument], others: list[_Patch]) -> Iterator[_Patch]:
        spans = [self.spans.span(arg) for arg in call.args]
        at = spans[-1][1]
        pad, broken = self._layout(call, spans, added, others)
        for i in sorted(b for b in broken if b < len(spans)):
            gap = self.spans.text.index(",", spans[i - 1][1]) + 1
            yield _Patch(gap, spans[i][0], (_OPENING, -1 << 30), (pad,))
        for number, edit in enumerate(added):
            separator = f",{pad}" if self._is_alone(call) or len(spans) + number in broken else ", "
            yield _Patch(at, at, (_ARGUMENT, number), (separator, *edit.code), (edit,))

    def _layout(
        self, call: cst.Call, spans: list[tuple[int, int]], added: list[AddArgument], others: list[_Patch]
    ) -> tuple[str, set[int]]:
        """The line end and indent before an argument on a new line, and the indices of those that begin one."""
        first, last = spans[0][0], spans[-1][1]
        line = self.spans.line_start(first)
        string = self._string_around(call)
        if string is not None and len(string.quote) == 1:
            return "", set()  # before Python 3.12 no line may end there
        if self._is_alone(call):
            start = spans[-1][0]
            return self.newline + self.spans.text[self.spans.line_start(start) : start], set()
        before = self.spans.text[line:first]
        indent = before[: len(before) - len(before.lstrip())]
        shift = self._growth(line, first - 1, others)
        pad = self.newline + indent + " " * (len(before) - len(indent) + shift)
        end = self.spans.span(call)[1]
        tail = len(self.spans.text[last : self.spans.line_end(max(end - 1, last))].rstrip())
        if self.spans.line_start(end) != line:
            return pad, self._breaks_before_added(spans, added, others, tail)
        widths = [e - s + self._growth(s, e, others) for s, e in spans] + [_length(edit.code) for edit in added]
        joined = {i for i, (s, _) in enumerate(spans) if any(a < s < b for a, b in self.joined)}
        return pad, breaks(len(before.expandtabs(4)) + shift, widths, tail, joined, self.longest)

    def _breaks_before_added(
        self, spans: list[tuple[int, int]], added: list[AddArgument], others: list[_Patch], tail: int
    ) -> set[int]:
        """Of a call that has several lines already, only the last grows: a new one before what does not fit."""
        last = spans[-1][1]
        line = self.spans.line_start(last)
        column = len(self.spans.text[line:last].expandtabs(4)) + self._growth(line, last, others)
        for number, edit in enumerate(added):
            column += 2 + _length(edit.code)
            if column + tail > self.longest:
                return {len(spans) + number}
        return set()

    @staticmethod
    def _growth(start: int, end: int, others: list[_Patch]) -> int:
        """How much longer the other edits make the text; whole lines that they insert do not count."""
        within = [p for p in others if start <= p.start and p.end <= end and p.rank[0] > _INDENT]
        closing = [p for p in others if start < p.start <= end and p.rank[0] == _CLOSING]
        return sum(_length(p.code) - (p.end - p.start) for p in (*within, *closing))

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
        unit = self.spans.deeper(outer)[len(outer) :]
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
                outer = self.spans.indent(self._start(self.tree.statement_of(guard.first)))
                at = len(outer) * indent.startswith(outer)
                indent = self.spans.deeper(indent[:at]) + indent[at:]
        return indent

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
