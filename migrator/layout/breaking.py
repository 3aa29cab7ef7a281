"""Decides where one logical line is broken: the layout of black, without its changes within a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum, auto

from migrator.layout.lines import LONGEST_LINE, TAB, LogicalLine

# Operators from the loosest to the tightest; each group may be broken before, all of one group at once.
_OPERATORS: tuple[frozenset[str], ...] = (
    frozenset(["if", "else"]),
    frozenset(["or"]),
    frozenset(["and"]),
    frozenset(["in", "is", "not", "<", ">", "==", ">=", "<=", "!="]),
    frozenset("|"),
    frozenset("^"),
    frozenset("&"),
    frozenset(["<<", ">>"]),
    frozenset("+-"),
    frozenset(["*", "/", "//", "%", "@"]),
    frozenset(["**"]),
)
_ASSIGNMENTS = frozenset(["=", "+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="])
# What a value follows that may be put in parentheses.
_BEFORE_VALUE = frozenset(["return", "if", "elif", "while"])
# What starts a statement in which lines may only end in brackets.
_WITHOUT_VALUE = frozenset(
    ["def", "class", "async", "with", "import", "from", "assert", "del", "raise", "@", "except", "case"]
)
_NO_OPERAND_BEFORE = frozenset(["", "(", "[", "{", ",", "=", ":"])


class _Place(Enum):
    """Where a value stands, and what so may be done to it."""

    STATEMENT = auto()  # lines may only end in its brackets
    VALUE = auto()  # it may be put in parentheses
    INSIDE = auto()  # in brackets, so that lines may end anywhere


class Breaks:
    """The white space of a logical line as it is laid out.

    `gaps[i]` comes before token i, `closings[i]` after it; `dropped` tokens are left out. `is_too_long`: a line is
    longer than it may be, because it cannot be broken.
    """

    def __init__(
        self,
        line: LogicalLine,
        longest: int = LONGEST_LINE,
        step: str = "    ",
        newline: str = "\n",
        *,
        keeps: bool = False,
    ) -> None:
        self.line = line
        self.longest = longest
        self._step = step
        self._newline = newline
        tokens = line.tokens
        self._flat = [self._flat_gap(i) for i in range(len(tokens))]
        self._column = [0]
        for i, token in enumerate(tokens):
            self._column.append(self._column[-1] + len(self._flat[i]) + len(token.text))
        # So many gaps up to here hold a comment or the comma that asks for one element a line.
        self._forced = [0]
        for i in range(len(tokens)):
            self._forced.append(self._forced[-1] + ("#" in line.gaps[i] or self._is_after_magic_comma(i)))
        self.gaps = list(line.gaps if keeps else self._flat)
        self.closings: dict[int, str] = {}
        self.dropped: set[int] = set()
        self.is_too_long = False

    # -- what there is -------------------------------------------------------------------------------------------

    def _flat_gap(self, i: int) -> str:
        gap = self.line.gaps[i]
        if i == 0 or "\n" not in gap:
            return gap
        before, after = self.line.tokens[i - 1], self.line.tokens[i]
        if before.is_opening or after.is_closing or after.text in (".", ",") or before.text == ".":
            return ""
        return " "

    def _is_after_magic_comma(self, i: int) -> bool:
        token = self.line.tokens[i]
        if i == 0 or not token.is_closing or self.line.tokens[i - 1].text != ",":
            return False
        opening = self.line.partner[i]
        is_single = len(self._elements(opening + 1, i)) == 1
        # The comma of a tuple of one, and that of a subscript, mean something else.
        is_needed = token.text != "}" and self._is_trailer(opening) == (token.text == "]")
        return not (is_single and is_needed)

    def _is_trailer(self, opening: int) -> bool:
        """Whether the bracket belongs to a call, a subscript or a definition, and is no literal."""
        if opening == 0:
            return False
        before = self.line.tokens[opening - 1]
        is_name = before.text.isidentifier() and not before.is_keyword
        return (is_name or before.is_closing or before.text[-1:] in "'\"") and not self.line.gaps[opening]

    def _width(self, start: int, end: int) -> int:
        """Of the tokens from `start` to before `end` on one line, without the gap before the first."""
        return self._column[end] - self._column[start] - len(self._flat[start]) if start < end else 0

    def _is_forced(self, start: int, end: int) -> bool:
        return start < end and self._forced[end] > self._forced[start + 1]

    def _fits(self, start: int, end: int, column: int, suffix: int) -> bool:
        return not self._is_forced(start, end) and column + self._width(start, end) + suffix <= self.longest

    def _elements(self, start: int, end: int) -> list[tuple[int, int]]:
        """What commas part, without a last one that parts nothing; a lambda's and a comprehension's count as one."""
        found, first, is_lambda = [], start, False
        for i in self.line.at_top(start, end):
            text = self.line.tokens[i].text
            if text == "lambda":
                is_lambda = True
            elif text == ":" and is_lambda:
                is_lambda = False
            elif text == "for":
                return [(start, end)]
            elif text == "," and not is_lambda:
                found.append((first, i))
                first = i + 1
        return [*found, (first, end)] if first < end else found

    def _operators(self, start: int, end: int) -> list[int]:
        """The loosest operators between the operands, those of one binding only."""
        by_kind: dict[int, list[int]] = {}
        before = ""
        for i in self.line.at_top(start, end):
            text = self.line.tokens[i].text
            if text in ("for", "yield", ":="):
                return []
            if text == "lambda":
                break
            is_binary = i > start and before not in _NO_OPERAND_BEFORE and not _is_operator(before)
            for kind, operators in enumerate(_OPERATORS):
                if text in operators and is_binary:
                    by_kind.setdefault(kind, []).append(i)
            if _is_string(before) and _is_string(text) and i > start:
                by_kind.setdefault(len(_OPERATORS), []).append(i)
            before = text
        return by_kind[min(by_kind)] if by_kind else []

    def _links(self, start: int, end: int) -> list[int]:
        """The dots of a chain of calls before which a line may end."""
        top = list(self.line.at_top(start, end))
        found = [i for i in top if self.line.tokens[i].text == "." and i > start and self.line.tokens[i - 1].is_closing]
        return found if len(found) > 1 else []

    def _brackets(self, start: int, end: int) -> list[int]:
        """The opening brackets that hold something."""
        return [
            i for i in self.line.at_top(start, end) if self.line.tokens[i].is_opening and self.line.partner[i] > i + 1
        ]

    # -- how it is written ---------------------------------------------------------------------------------------

    def lay_out(self) -> None:
        """The whole logical line."""
        indent, end_of_line = self.line.indent, len(self.line.tokens)
        column = len(indent.expandtabs(TAB))
        suffix = self.line.tail_width
        start, end = self._value()
        if self._fits(0, end_of_line, column, suffix):
            self._drop_parentheses(start, end)
        elif "def" in (self.line.tokens[0].text, self.line.tokens[min(1, end_of_line - 1)].text):
            brackets = self._brackets(0, end_of_line)
            if brackets:
                self._explode(brackets[0], indent)
            self.is_too_long |= not brackets
        elif start >= end or self._is_forced(0, start):
            self._greedy(0, end_of_line, column, indent, suffix)
        else:
            column += self._column[start] + len(self._flat[start])
            suffix += self._column[-1] - self._column[end]
            if self._is_parenthesized(start, end):
                self._unwrap(start, end, column, indent, suffix)
            else:
                self._write_value(start, end, column, indent, suffix, place=_Place.VALUE if start else _Place.STATEMENT)

    def lay_out_long_lines(self, is_touched: Callable[[int, int], bool]) -> None:
        """Only those lines that are too long and touched, in the layout that the others have; of several statements,
        each on a line of its own then."""
        tokens, gaps = self.line.tokens, self.line.gaps
        starts = [0, *(i for i in range(1, len(tokens)) if "\n" in gaps[i])]
        indents = [self.line.indent, *(gaps[i].rpartition("\n")[2] for i in starts[1:])]
        ends = [*starts[1:], len(tokens)]
        for number, (start, end) in enumerate(zip(starts, ends)):
            behind = self.line.tail_width if end == len(tokens) else len(gaps[end].partition("\n")[0].rstrip())
            column = len(indents[number].expandtabs(TAB))
            is_long = column + self._width(start, end) + behind > self.longest
            if is_long and is_touched(tokens[start].start, tokens[end - 1].end):
                below = indents[number + 1] if number + 1 < len(indents) else ""
                cuts = self._parted(start, end)
                for first, last in zip([start, *(cut + 1 for cut in cuts)], [*cuts, end]):
                    indent = indents[number] if first == start else self.line.indent
                    self._fill(first, last, indent, below, behind * (last == end))

    def _parted(self, start: int, end: int) -> list[int]:
        """The semicolons between statements, which are left out."""
        top = self.line.at_top(0, end)
        found = [i for i in top if i >= start and self.line.tokens[i].text == ";" and i + 1 < end]
        for i in found:
            self.dropped.add(i)
            self.gaps[i + 1] = self._line_end(self.line.indent)
        return found

    def _fill(self, start: int, end: int, indent: str, below: str, suffix: int) -> None:
        """One line that is too long: ends it after commas between what stands below each other, then in brackets."""
        pieces = [start]
        opened: list[int] = []
        starts: dict[int, str] = {}
        i = start
        while i < end:
            token = self.line.tokens[i]
            if token.is_opening:
                if self.line.partner[i] < end:
                    i = self.line.partner[i]
                else:
                    opened.append(i)
            elif token.text == "," and i + 1 < end and (below if opened else self._is_in_brackets(i)):
                pieces.append(i + 1)
                starts[i + 1] = below if opened else indent
            i += 1
        # Between the elements of a bracket that is open at neither end of the line, nothing is known of the layout.
        is_continued = bool(opened) or self._is_in_brackets(start)
        column = len(indent.expandtabs(TAB))
        current = indent
        for first, last in zip(pieces, [*pieces[1:], end]):
            width = self._width(first, last)
            room = suffix if last == end else 0
            if first > start:
                column += len(self._flat[first])
                if is_continued and column + width + room > self.longest:
                    current = starts[first]
                    self.gaps[first] = self._line_end(current)
                    column = len(current.expandtabs(TAB))
            if column + width + room > self.longest and not any(i in range(first, last) for i in opened):
                self._greedy(first, last, column, current, room)
            column += width

    def _is_in_brackets(self, i: int) -> bool:
        """Whether a line may end there."""
        return any(opening < i < closing for opening, closing in self.line.partner.items())

    @property
    def keeps_comments(self) -> bool:
        """Whether all comments are still there."""
        return all("#" in new for old, new in zip(self.line.gaps, self.gaps) if "#" in old)

    def _value(self) -> tuple[int, int]:
        """What may be put in parentheses: what is assigned, returned, asked or run through; empty where nothing is."""
        tokens = self.line.tokens
        first = tokens[0].text
        top = list(self.line.at_top(0, len(tokens)))
        end = len(tokens) - (tokens[-1].text == ":")
        if first in _WITHOUT_VALUE:
            return 0, 0
        if first == "for":
            return next((i + 1 for i in top if tokens[i].text == "in"), 0), end
        if first in _BEFORE_VALUE:
            return 1, end
        assigned = [i for i in top if tokens[i].text in _ASSIGNMENTS]
        if assigned:
            return assigned[-1] + 1, end
        return 0, end

    def _line_end(self, indent: str) -> str:
        return self._newline + indent

    def _write_value(self, start: int, end: int, column: int, indent: str, suffix: int, *, place: _Place) -> None:
        if self._fits(start, end, column, suffix):
            return
        elements = self._elements(start, end)
        if len(elements) > 1 or self.line.tokens[end - 1].text == ",":
            if place is not _Place.VALUE:
                self._greedy(start, end, column, indent, suffix)
            elif not self._is_pair_laid_out(start, end, column, indent, suffix):
                self._wrap(start, end, indent)
            return
        operators, links = self._operators(start, end), self._links(start, end)
        if not operators and not links:
            if place is not _Place.VALUE or not self._is_better_wrapped(start, end, column, indent, suffix):
                self._greedy(start, end, column, indent, suffix)
            else:
                self._wrap(start, end, indent)
            return
        if place is _Place.STATEMENT:
            self._greedy(start, end, column, indent, suffix)
            return
        if place is _Place.INSIDE:
            self._write_operands(start, end, operators or links, column, indent, suffix)
            return
        is_single = len(operators) == 1 and self._has_bracket_at_end(start, end)
        if not (is_single and self._is_laid_out_greedily(start, end, column, indent, suffix)):
            self._wrap(start, end, indent)

    def _is_pair_laid_out(self, start: int, end: int, column: int, indent: str, suffix: int) -> bool:
        """Tries to do without parentheses around a pair that is returned; False leaves all as it was."""
        is_pair = len(self._elements(start, end)) == 2 and self.line.tokens[0].text == "return"
        return is_pair and self._is_laid_out_greedily(start, end, column, indent, suffix)

    def _is_better_wrapped(self, start: int, end: int, column: int, indent: str, suffix: int) -> bool:
        """Whether a line is too long unless the value goes below what it is assigned to."""
        inner = len((indent + self._step).expandtabs(TAB))
        brackets = self._brackets(start, end)
        if not brackets:
            is_long = not self._fits(start, end, column, suffix - self.line.tail_width)
            return is_long and self._fits(start, end, inner, 0)
        first = self._width(start, brackets[0] + 1)
        return column + first > self.longest >= inner + first

    def _is_laid_out_greedily(self, start: int, end: int, column: int, indent: str, suffix: int) -> bool:
        """Tries to do without parentheses around the value; False leaves all as it was."""
        gaps, closings, was_too_long = list(self.gaps), dict(self.closings), self.is_too_long
        self.is_too_long = False
        self._greedy(start, end, column, indent, suffix)
        fits, self.is_too_long = not self.is_too_long, was_too_long
        if not fits:
            self.gaps, self.closings = gaps, closings
        return fits

    def _has_bracket_at_end(self, start: int, end: int) -> bool:
        """Whether it ends with a call or a literal that can be broken, or begins with a literal; no subscripts."""
        last = end - 1
        if self.line.tokens[start].is_opening and self.line.partner[start] > start + 1:
            return True
        if not self.line.tokens[last].is_closing:
            return False
        opening = self.line.partner[last]
        is_subscript = self.line.tokens[last].text == "]" and self._is_trailer(opening)
        return last > opening + 1 and not is_subscript

    def _wrap(self, start: int, end: int, indent: str) -> None:
        """In parentheses that are put around it."""
        inner = indent + self._step
        self.gaps[start] = self._flat[start] + "(" + self._line_end(inner)
        closing = self._line_end(indent) + ")"
        elements = self._elements(start, end)
        column = len(inner.expandtabs(TAB))
        if len(elements) > 1:
            for first, last in elements:
                if first > start:
                    self._end_line_before(first, inner)
                self._write_element(first, last, inner, 1)
            closing = closing if self.line.tokens[end - 1].text == "," else "," + closing
        else:
            self._write_value(start, end, column, inner, 0, place=_Place.INSIDE)
        self.closings[end - 1] = self.closings.get(end - 1, "") + closing

    def _is_parenthesized(self, start: int, end: int) -> bool:
        """Whether the value stands in parentheses that only hold it together, over several lines."""
        if start == 0 or end - start < 3 or self.line.tokens[start].text != "(" or self.line.partner[start] != end - 1:
            return False
        top = [*self.line.at_top(start + 1, end - 1), end - 1]
        is_plain = not {",", "for", "yield", ":=", "await"} & {self.line.tokens[i].text for i in top}
        # Those in inner brackets have these to stand in.
        has_comment = any("#" in self.line.gaps[i] for i in top if i == end - 1 or not self.line.tokens[i].is_closing)
        return is_plain and not has_comment and "\n" in self.line.gaps[start + 1]

    def _drop_parentheses(self, start: int, end: int) -> None:
        if self._is_parenthesized(start, end):
            self.dropped |= {start, end - 1}

    def _unwrap(self, start: int, end: int, column: int, indent: str, suffix: int) -> None:
        """Lays a value out that stands in parentheses which it may not need."""
        inner = (start + 1, end - 1)
        if self._fits(*inner, column, suffix):
            self._drop_parentheses(start, end)
        elif self._operators(*inner) or self._links(*inner) or not self._brackets(*inner):
            self._explode(start, indent)
        else:
            self._drop_parentheses(start, end)
            self._greedy(*inner, column, indent, suffix)

    def _write_operands(
        self, start: int, end: int, breaks: Sequence[int], column: int, indent: str, suffix: int
    ) -> None:
        """Each operand on a line of its own, with its operator before it."""
        starts = [start, *(i for i in breaks if not self._continues_operator(i))]
        for first, last in zip(starts, [*starts[1:], end]):
            operand = first
            if first > start:
                self._end_line_before(first, indent)
                column = len(indent.expandtabs(TAB))
                while _is_operator(self.line.tokens[operand].text) and operand + 1 < last:
                    operand += 1
                column += (
                    self._column[operand] + len(self._flat[operand]) - self._column[first] - len(self._flat[first])
                )
            self._write_value(operand, last, column, indent, suffix * (last == end), place=_Place.INSIDE)

    def _continues_operator(self, i: int) -> bool:
        """The second word of `not in` and `is not`."""
        return self.line.tokens[i - 1].text in ("not", "is") and self.line.tokens[i].text in ("in", "not")

    def _greedy(self, start: int, end: int, column: int, indent: str, suffix: int) -> None:
        """Breaks the brackets from the left that do not fit up to where the next may be broken."""
        brackets = self._brackets(start, end)
        # What is to be added to a column of the line in one piece.
        shift = column - self._column[start] - len(self._flat[start])
        for number, opening in enumerate(brackets):
            closing = self.line.partner[opening]
            is_last = number + 1 == len(brackets)
            reach = end if is_last else brackets[number + 1] + 1
            fits = shift + self._column[reach] + suffix * is_last <= self.longest
            if self._is_forced(opening, closing + 1) or not fits:
                self._explode(opening, indent)
                shift = len(indent.expandtabs(TAB)) + 1 - self._column[closing + 1]
        if shift + self._column[end] + suffix > self.longest:
            self.is_too_long = True

    def _explode(self, opening: int, indent: str) -> None:
        """What the bracket holds on lines of its own."""
        closing = self.line.partner[opening]
        inner = indent + self._step
        column = len(inner.expandtabs(TAB))
        tokens = self.line.tokens
        elements = self._elements(opening + 1, closing)
        has_comma = tokens[closing - 1].text == ","
        first, last = opening + 1, closing - has_comma
        self._end_line_before(first, inner)
        self._end_line_before(closing, indent)
        is_tuple = tokens[opening].text == "(" and not self._is_trailer(opening)
        is_comprehension = self._clauses(first, last) != []
        if len(elements) == 1 and (not has_comma or is_tuple):
            if is_comprehension and not self._fits(first, last, column, 0):
                self._write_clauses(first, last, column, inner)
            else:
                self._write_element(first, last, inner, 0)
            return
        may_be_one_line = self._is_trailer(opening) and not has_comma and not self._is_forced(opening, closing + 1)
        if may_be_one_line and self._fits(first, last, column, 0):
            return
        for start, end in elements:
            if start > first:
                self._end_line_before(start, inner)
            self._write_element(start, end, inner, 1)
            if tokens[end].text == "," and not self.gaps[end].strip():
                self.gaps[end] = ""  # whatever stood in front of it in one line
        if not has_comma:
            self.closings[closing - 1] = self.closings.get(closing - 1, "") + ","

    def _end_line_before(self, i: int, indent: str) -> None:
        gap = self.line.gaps[i]
        if "#" not in gap:
            self.gaps[i] = self._line_end(indent)
            return
        behind, *own = [part.strip() for part in gap.replace("\r\n", "\n").split("\n")][:-1]
        lead = gap[: len(gap) - len(gap.lstrip(" \t"))]
        self.gaps[i] = "".join(
            [lead * bool(behind) + behind, *(self._newline + (indent + part if part else "") for part in own)]
        ) + self._line_end(indent)

    def _clauses(self, start: int, end: int) -> list[int]:
        """Where the clauses of a comprehension begin."""
        found: list[int] = []
        after_in = False
        for i in self.line.at_top(start, end):
            text = self.line.tokens[i].text
            if text == "for":
                found.append(i - (self.line.tokens[i - 1].text == "async"))
                after_in = False
            elif text == "in" and found:
                after_in = True
            elif text == "if" and after_in:
                found.append(i)
            elif text == "else" and found and self.line.tokens[found[-1]].text == "if":
                found.pop()  # belongs to a condition within the clause
        return found

    def _write_clauses(self, start: int, end: int, column: int, indent: str) -> None:
        starts = [start, *self._clauses(start, end)]
        for number, (first, last) in enumerate(zip(starts, [*starts[1:], end])):
            if number:
                self._end_line_before(first, indent)
                is_condition = self.line.tokens[first].text == "if"
                value = first + 1 if is_condition else first
                at = column + self._width(first, value) + len(self._flat[value]) * is_condition
                self._write_value(value, last, at, indent, 0, place=_Place.INSIDE)
            else:
                self._write_element(first, last, indent, 0)

    def _write_element(self, start: int, end: int, indent: str, suffix: int) -> None:
        """An argument, an item or a pair, at the start of a line."""
        column = len(indent.expandtabs(TAB))
        value = start
        for i in self.line.at_top(start, end):
            text = self.line.tokens[i].text
            if text == "lambda":
                break
            if text in ("=", ":"):
                value = i + 1
                break
        if value == start and self.line.tokens[start].text in ("*", "**"):
            value = start + 1
        if value > start:
            column += self._width(start, value) + len(self._flat[value])
        self._write_value(value, end, column, indent, suffix, place=_Place.INSIDE)

    # -- what comes of it ----------------------------------------------------------------------------------------

    def changes(self) -> list[tuple[int, int, str]]:
        """What stands in the place of which offsets."""
        found: list[tuple[int, int, str]] = []
        tokens = self.line.tokens
        for i in range(len(tokens) + 1):
            start = tokens[i - 1].start if i and i - 1 in self.dropped else tokens[i - 1].end if i else tokens[0].start
            end = tokens[i].start if i < len(tokens) else tokens[-1].end
            old = self.line.gaps[i] if 0 < i < len(tokens) else ""
            new = (self.closings.get(i - 1, "") if i else "") + (self.gaps[i] if i < len(tokens) else "")
            if new != old or start < end - len(old):
                found.append((start, end, new))
        return found


def _is_string(text: str) -> bool:
    return text[-1:] in ("'", '"')


def _is_operator(text: str) -> bool:
    return any(text in operators for operators in _OPERATORS)
