"""What the user has said of values and conditions, by the expressions that are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import libcst as cst

from migrator.facts.program.syntax import argument, method_called
from migrator.facts.program.tree import Tree, semantic_children
from migrator.findings.words import LOSS, REPLICATED, ROWS, Word

MEAN, SUM, GATHER = "mean", "sum", "gather"
OF_EACH_SAMPLE, OF_ALL = "rows", "replicated"


class Stated:
    """`values`: what the user says where a value stands, by its expression; `words`: the comment that says so."""

    def __init__(self, tree: Tree, words: Sequence[Word], is_tape_call: Callable[[cst.Call], bool]) -> None:
        self.tree = tree
        self._is_tape_call = is_tape_call
        self.values: dict[cst.CSTNode, str] = {}
        self.words: dict[cst.CSTNode, Word] = {}
        for word in words:
            for node, value in self._said(word):
                self.values[node] = value
                self.words[node] = word

    @property
    def agreed(self) -> list[cst.BaseExpression]:
        """What is the same on all workers, by the user's word."""
        return [cast(cst.BaseExpression, node) for node, value in self.values.items() if value == OF_ALL]

    @property
    def computing(self) -> set[cst.CSTNode]:
        """What is nothing but a value of the samples, by the user's word."""
        return {node for node, value in self.values.items() if value in (MEAN, SUM, OF_EACH_SAMPLE)}

    def _said(self, word: Word) -> Iterator[tuple[cst.CSTNode, str]]:
        if word.statement is None:
            return
        if word.kind == LOSS:
            for node in self._losses(word.statement):
                yield node, word.value
        elif word.kind in (ROWS, REPLICATED):
            says = OF_EACH_SAMPLE if word.value == "0" else OF_ALL
            for node in _values(word.statement):
                yield node, says

    def _losses(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The losses that gradients are taken of there, or that a model is compiled with; else what is assigned."""
        found: list[cst.CSTNode] = []
        for call in _calls(statement):
            name = method_called(call)
            if name == "compile":
                found.append(call)
            elif self._is_tape_call(call) or name == "minimize":
                given = argument(call, "loss" if name == "minimize" else "target", 0)
                found += [given.value] if given is not None else []
        is_bare = isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Expr)
        return found or ([] if is_bare else list(_values(statement)))


def _values(statement: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What a line assigns, returns or computes; what a compound statement decides by."""
    if isinstance(statement, (cst.If, cst.While)):
        yield statement.test
    elif isinstance(statement, cst.For):
        yield statement.iter
    elif isinstance(statement, cst.Match):
        yield statement.subject
    elif isinstance(statement, cst.SimpleStatementLine):
        for small in statement.body:
            if isinstance(small, cst.Assert):
                yield small.test
            value = getattr(small, "value", None)
            if isinstance(value, cst.BaseExpression):
                yield value


def _calls(statement: cst.CSTNode) -> Iterator[cst.Call]:
    """The calls in a statement, without those in the block below it."""
    queue = [statement]
    while queue:
        node = queue.pop(0)
        if isinstance(node, cst.Call):
            yield node
        queue += [child for child in semantic_children(node) if not isinstance(child, cst.BaseSuite)]
