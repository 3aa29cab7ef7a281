"""Calls in the text of a script, by their offsets: a mutation changes these pieces and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """A call from offset `start` to before `end`; `statement` is the innermost one that holds it."""

    text: str
    node: ast.Call
    statement: ast.stmt
    start: int
    end: int

    @property
    def arguments(self) -> list[str]:
        return [self.source(argument) for argument in self.node.args]

    def keyword(self, name: str) -> str | None:
        return next((self.source(one.value) for one in self.node.keywords if one.arg == name), None)

    def source(self, node: ast.AST) -> str:
        found = ast.get_source_segment(self.text, node)
        assert found is not None
        return found

    @property
    def line(self) -> str:
        """The statement's text with its indentation and line end."""
        start, end = self.lines
        return self.text[start:end]

    @property
    def lines(self) -> tuple[int, int]:
        """Where the lines of the statement begin and end."""
        begins = _begins(self.text)
        last = self.statement.end_lineno
        assert last is not None
        return begins[self.statement.lineno - 1], begins[last]

    @property
    def indent(self) -> str:
        return " " * self.statement.col_offset if self.line.startswith(" ") else ""

    @property
    def is_all(self) -> bool:
        """Whether the statement is this call and nothing else."""
        return isinstance(self.statement, ast.Expr) and self.statement.value is self.node

    @property
    def target(self) -> str | None:
        """What the statement assigns the result to, where it does nothing else."""
        if isinstance(self.statement, ast.Assign) and self.statement.value is self.node:
            return self.source(self.statement.targets[0])
        return None


def calls(text: str, name: str) -> list[Call]:
    """The calls of the function that is spelled so, outer ones first, from the last to the first: a piece can be
    replaced without moving those that follow in the list. Scripts are ASCII, so that offsets are columns."""
    assert text.isascii()
    begins = _begins(text)

    def walk(node: ast.AST, statement: ast.stmt | None) -> Iterator[Call]:
        for child in ast.iter_child_nodes(node):
            within = child if isinstance(child, ast.stmt) else statement
            if isinstance(child, ast.Call) and ast.unparse(child.func) == name:
                assert within is not None
                assert child.end_lineno is not None
                assert child.end_col_offset is not None
                start = begins[child.lineno - 1] + child.col_offset
                end = begins[child.end_lineno - 1] + child.end_col_offset
                yield Call(text, child, within, start, end)
            yield from walk(child, within)

    return sorted(walk(ast.parse(text), None), key=lambda call: call.start, reverse=True)


def replaced(text: str, start: int, end: int, new: str) -> str:
    return text[:start] + new + text[end:]


def _begins(text: str) -> list[int]:
    begins = [0]
    for line in text.splitlines(keepends=True):
        begins.append(begins[-1] + len(line))
    return begins
