"""A statement that runs as soon as another one has."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, InsertAfter, InsertBefore, Replace
from migrator.facts.script import Facts


def behind(facts: Facts, edit: InsertAfter, name: str) -> Iterator[Edit]:
    """The edit; what a `return` gives gets the name first, since nothing behind that one runs."""
    statement = facts.tree.statement_of(edit.node)
    last = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(last, cst.Return) or last.value is None:
        yield edit
        return
    value = last.value
    name = facts.fresh_variable(name, value)
    held = ("(", value, ")") if value.lpar else (value,)  # it may go over several lines
    yield InsertBefore(value, (f"{name} = ", *held))
    yield InsertBefore(value, edit.code)
    yield Replace(value, (name,))
