"""Finds nodes of a small script by their text, for tests that make edits or ask facts about them."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import libcst as cst

from migrator.edits import Edit
from migrator.edits.apply import apply
from migrator.facts.program import modules
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts
from migrator.text.parsing import parse


class Script:
    """The facts of one script, with its nodes by their text."""

    def __init__(self, text: str) -> None:
        self.facts = Facts([modules.Script(Path("script.py"), parse(text), text)])

    @classmethod
    def of(cls, indented: str) -> Script:
        """From an indented literal that starts with a line break."""
        return cls(dedent(indented).lstrip("\n"))

    def nodes(self, source: str) -> list[cst.BaseExpression]:
        """The expressions with exactly this text, in source order; names of keywords and attributes are none."""
        return [
            node
            for node in self.facts.tree.order
            if isinstance(node, cst.BaseExpression)
            and not isinstance(node, cst.ImportStar)
            and not self._is_label(node)
            and self.facts.source(node) == source
        ]

    def _is_label(self, node: cst.CSTNode) -> bool:
        owner = self.facts.tree.parent[node]
        return (isinstance(owner, cst.Arg) and owner.keyword is node) or (
            isinstance(owner, cst.Attribute) and owner.attr is node
        )

    def node(self, source: str) -> cst.BaseExpression:
        """The last expression with this text."""
        found = self.nodes(source)
        assert found, f"no expression {source!r}"
        return found[-1]

    def call(self, source: str) -> cst.Call:
        node = self.node(source)
        assert isinstance(node, cst.Call)
        return node

    def function(self, name: str) -> cst.FunctionDef:
        return next(f for f in self.facts.tree.functions if f.name.value == name)

    def statement(self, source: str) -> Statement:
        """The innermost statement that holds the last expression with this text."""
        return self.facts.tree.statement_of(self.node(source))

    def after(self, *edits: Edit) -> str:
        """The script's text after the edits."""
        return apply(self.facts.tree, self.facts.spans(self.facts.tree.modules[0]), edits)
