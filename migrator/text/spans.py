"""Where each node stands in the text, found by printing the tree once.

libcst nodes do not know their place; its position providers print the module to learn it and cost several times
as much, since they track lines and columns for every token.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from typing import Any

import libcst as cst

from migrator.text.lines import line_and_column, line_starts


class _Recorder:
    """Takes the place of libcst's CodegenState: the tokens, and for each node the first and the one past the last."""

    def __init__(self, module: cst.Module) -> None:
        self.default_indent = module.default_indent
        self.default_newline = module.default_newline
        self.indent_tokens: list[str] = []
        self.tokens: list[str] = []
        # By the ids of nodes, which are slow keys, with the node.
        self.ranges: dict[int, tuple[int, int, cst.CSTNode]] = {}

    def increase_indent(self, value: str) -> None:
        self.indent_tokens.append(value)

    def decrease_indent(self) -> None:
        self.indent_tokens.pop()

    def add_indent_tokens(self) -> None:
        self.tokens.extend(self.indent_tokens)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        pass

    def after_codegen(self, node: cst.CSTNode) -> None:
        pass

    def pop_trailing_newline(self) -> None:
        if self.tokens:
            self.tokens.pop()

    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _Place:
        return _Place(self, node, start_node, end_node)


class _Place:
    """Notes where a node begins and ends. A plain class: contextlib's generators would double the time of the print."""

    __slots__ = ("end_node", "node", "recorder", "start", "start_node")

    def __init__(
        self, recorder: _Recorder, node: cst.CSTNode, start_node: cst.CSTNode | None, end_node: cst.CSTNode | None
    ) -> None:
        self.recorder = recorder
        self.node = node
        self.start_node = start_node
        self.end_node = end_node

    def __enter__(self) -> None:
        self.start = len(self.recorder.tokens)

    def __exit__(self, *_: object) -> None:
        ranges = self.recorder.ranges
        start, end = self.start, len(self.recorder.tokens)
        # Some nodes (the star of an import) are named as ends without having a place of their own recorded.
        if self.start_node is not None and id(self.start_node) in ranges:
            start = ranges[id(self.start_node)][0]
        if self.end_node is not None and id(self.end_node) in ranges:
            end = ranges[id(self.end_node)][1]
        ranges[id(self.node)] = (start, end, self.node)


class _PlainPlace:
    """The same of an expression that stands in no parentheses, as most do."""

    __slots__ = ("node", "recorder", "start")

    def __init__(self, recorder: _Recorder, node: cst.CSTNode) -> None:
        self.recorder = recorder
        self.node = node

    def __enter__(self) -> None:
        self.start = len(self.recorder.tokens)

    def __exit__(self, *_: object) -> None:
        recorder, node = self.recorder, self.node
        recorder.ranges[id(node)] = (self.start, len(recorder.tokens), node)


def _quicken() -> None:
    """Makes plain ones of the places that libcst notes through a generator of contextlib's. What it prints to others
    than a recorder stays its own affair."""
    owner: Any = next((cls for cls in cst.Name.__mro__ if "_parenthesize" in vars(cls)), None)
    if owner is None:
        return
    parenthesize = owner._parenthesize

    def parenthesized(node: Any, state: Any) -> Any:
        if type(state) is _Recorder and not node.lpar and not node.rpar:
            return _PlainPlace(state, node)
        return parenthesize(node, state)

    owner._parenthesize = parenthesized


_quicken()


class UnprintableSource(Exception):
    """libcst prints another text than it parsed, so that offsets into it mean nothing."""

    def __init__(self, module: cst.Module, place: tuple[int, int]) -> None:
        """`place` is the line and column from which on the two differ."""
        super().__init__()
        self.module = module
        self.place = place


# What libcst drops in some places: form feeds that begin a line, blank lines and spaces at the end of a file, a last
# line end that is a bare carriage return, backslashes that continue an empty line.
_DROPPED = frozenset("\f\r\n\t \\")


def _lost_characters(module: cst.Module, printed: str, text: str) -> list[int]:
    """Offsets in the printed text where a character of the source is missing."""
    lost: list[int] = []
    position = 0
    for offset, character in enumerate(text):
        if position < len(printed) and printed[position] == character:
            position += 1
        elif character in _DROPPED:
            lost.append(position)
        else:
            raise UnprintableSource(module, line_and_column(line_starts(text), offset))
    if position != len(printed):
        raise UnprintableSource(module, line_and_column(line_starts(text), len(text)))
    return lost


class Spans:
    """Offsets, lines and source text of the nodes of one module.

    Lines are counted from 1, columns from 1 too, as compilers and editors print them.
    """

    def __init__(self, module: cst.Module, text: str) -> None:
        """`text` is what the module was parsed from. Raises UnprintableSource where libcst prints something else."""
        recorder = _Recorder(module)
        module._codegen(recorder)  # type: ignore[arg-type]
        printed = "".join(recorder.tokens)
        self.text = text
        self._ranges = recorder.ranges
        self._offsets = [0, *accumulate(map(len, recorder.tokens))]
        self._lost = _lost_characters(module, printed, text) if printed != text else []
        self.module = module
        self._line_starts = line_starts(text)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Offsets of the node's first character and of the one past its last, without surrounding parentheses."""
        first, last, _ = self._ranges[id(node)]
        start, end = self._offsets[first], self._offsets[last]
        if self._lost:
            start += bisect_right(self._lost, start)
            end += bisect_left(self._lost, end)
        return start, end

    def nodes(self, kinds: tuple[type[cst.CSTNode], ...]) -> list[cst.CSTNode]:
        """The nodes of these kinds that have a place."""
        found = [node for _, _, node in self._ranges.values()]
        wanted = {kind for kind in set(map(type, found)) if issubclass(kind, kinds)}  # once: libcst's classes are slow
        return [node for node in found if type(node) in wanted]

    def outer_span(self, node: cst.CSTNode) -> tuple[int, int]:
        """The span with the node's own parentheses."""
        start, end = self.span(node)
        start -= sum(len(self.module.code_for_node(p)) for p in getattr(node, "lpar", ()))
        end += sum(len(self.module.code_for_node(p)) for p in getattr(node, "rpar", ()))
        return start, end

    def source(self, node: cst.CSTNode) -> str:
        start, end = self.span(node)
        return self.text[start:end]

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Line and column of the node's first character."""
        return self.place(self.span(node)[0])

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at the offset."""
        return line_and_column(self._line_starts, offset)

    def line_start(self, offset: int) -> int:
        return self._line_starts[bisect_right(self._line_starts, offset) - 1]

    def indent(self, offset: int) -> str:
        """The white space that the line of a statement begins with; for Python, a form feed begins the line anew."""
        before = self.text[self.line_start(offset) : offset].rpartition("\f")[2]
        return before[: len(before) - len(before.lstrip())]

    def deeper(self, indent: str) -> str:
        """One step of indentation more: tabs where the line has tabs, since Python refuses a mixture."""
        return indent + ("\t" if indent.endswith("\t") else self.module.default_indent.rpartition("\f")[2])

    def line_end(self, offset: int) -> int:
        """The start of the line after the one that holds the offset; the end of the text for the last line."""
        line = bisect_right(self._line_starts, offset)
        return self._line_starts[line] if line < len(self._line_starts) else len(self.text)

    def line_starts_between(self, start: int, end: int) -> list[int]:
        first, last = bisect_right(self._line_starts, start - 1), bisect_right(self._line_starts, end - 1)
        return self._line_starts[first:last]
