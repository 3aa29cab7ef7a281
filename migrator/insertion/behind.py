"""A statement that runs as soon as another one has."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.script import Facts


def behind(facts: Facts, edit: InsertAfter, name: str) -> Iterator[Edit]:
    """The edit; what a `return` or a `yield` gives gets the name first, since what is behind runs never, or late."""
    statement = facts.tree.statement_of(edit.node)
    last: cst.CSTNode | None = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    last = last.value if isinstance(last, cst.Expr) else last
    value = last.value if isinstance(last, (cst.Return, cst.Yield)) else None
    if not isinstance(value, cst.BaseExpression):
        yield edit
        return
    name = facts.fresh_variable(name, value)
    held = ("(", value, ")") if value.lpar else (value,)  # it may go over several lines
    yield InsertBefore(value, (f"{name} = ", *held))
    yield InsertBefore(value, edit.code)
    yield Replace(value, (name,))
