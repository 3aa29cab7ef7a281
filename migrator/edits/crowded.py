"""Statements that share a line (`a; b`, `if a: b`), and lines of their own for those that an edit has to part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Union

import libcst as cst

from migrator.edits import Edit, Guard, InsertAfter, InsertBefore, InsertFirst
from migrator.facts.program.modules import Script
from migrator.facts.program.tree import Tree
from migrator.text.spans import Spans

Shared = Union[cst.SimpleStatementLine, cst.SimpleStatementSuite]


def crowded(tree: Tree, edits: Sequence[Edit]) -> Iterator[Shared]:
    """The lines with several statements, and the blocks on the line of their header, that new statements part."""
    for edit in edits:
        if isinstance(edit, Guard):
            places = [edit.first, edit.last]
        elif isinstance(edit, (InsertBefore, InsertAfter)):
            places = [edit.node]
        else:
            places = [edit.function.body] if isinstance(edit, InsertFirst) else []
        for place in places:
            yield from _around(tree, place)
            if not isinstance(edit, InsertBefore):
                yield from _within(place)


def _around(tree: Tree, node: cst.CSTNode) -> Iterator[Shared]:
    for owner in (node, *tree.ancestors(node)):
        if isinstance(owner, cst.SimpleStatementSuite) or (
            isinstance(owner, cst.SimpleStatementLine) and len(owner.body) > 1
        ):
            yield owner
        if isinstance(owner, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return


def _within(node: cst.CSTNode) -> Iterator[Shared]:
    """The blocks of a compound statement on the lines of its headers: what it makes may be used up there already."""
    if isinstance(node, (cst.BaseCompoundStatement, cst.Else, cst.Finally, cst.ExceptHandler, cst.MatchCase)):
        for child in node.children:
            if isinstance(child, cst.SimpleStatementSuite):
                yield child
            else:
                yield from _within(child)


def parted(script: Script, places: Collection[int]) -> Script:
    """The script with a line for each of the statements in those lines and blocks, which begin at these offsets."""
    module, spans = script.module, Spans(script.module, script.text)
    tree = Tree((module,))
    shared: list[Shared] = [*tree.all_of(cst.SimpleStatementLine), *tree.all_of(cst.SimpleStatementSuite)]
    gaps = sorted(
        gap
        for node in shared
        if spans.span(node.body[0])[0] in places
        for gap in _gaps(node, spans, _indent(tree, spans, node))
    )
    pieces, position, shift, moved = [], 0, 0, []
    for start, end, line_end in gaps:
        pieces += [script.text[position:start], line_end]
        position = end
        shift += len(line_end) - (end - start)
        moved.append((end + shift, shift))
    text = "".join((*pieces, script.text[position:]))
    return replace(
        script, module=cst.parse_module(text), text=text, written=script.text, moved=tuple(moved), parting=tuple(gaps)
    )


def _gaps(node: Shared, spans: Spans, indent: str) -> Iterator[tuple[int, int, str]]:
    """Start and end of the text before each statement that is to begin a line, and the line end in its place."""
    starts, ends = zip(*(spans.span(statement) for statement in node.body))
    if isinstance(node, cst.SimpleStatementSuite):
        indent = spans.deeper(indent)
        header = spans.text[: starts[0]].rstrip(" \t\\\r\n")
        yield len(header), starts[0], spans.module.default_newline + indent
    for end, start in zip(ends, starts[1:]):
        yield end, start, spans.module.default_newline + indent


def _indent(tree: Tree, spans: Spans, node: Shared) -> str:
    owner = tree.parent[node] if isinstance(node, cst.SimpleStatementSuite) else node
    return spans.indent(spans.span(owner)[0])
