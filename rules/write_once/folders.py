"""Folders are made so that it does no harm when another worker was faster."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import AddArgument, Guard, Refusal
from migrator.facts.objects.values import External
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts

from .questions import existence_test


def folders(facts: Facts) -> Iterator[AddArgument | Guard | Refusal]:
    for call in facts.files.folders:
        if facts.files.is_chief_only(call) or argument(call, "exist_ok", 2) is not None:
            continue
        statement = facts.tree.statement_of(call)
        if _may_exist(facts, call) and existence_test(facts, call) is not None:
            yield AddArgument(call, ("exist_ok=True",))
        elif (
            isinstance(statement, cst.SimpleStatementLine)
            and len(statement.body) == 1
            and isinstance(statement.body[0], cst.Expr)
        ):
            outer = existence_test(facts, call) or statement
            yield Guard(outer, outer, facts.call("is_chief"))
        else:
            yield Refusal(
                call,
                "all workers would make this folder at a time, and all but one fail",
                "use os.makedirs(..., exist_ok=True)",
            )


def _may_exist(facts: Facts, call: cst.Call) -> bool:
    """Whether the call takes `exist_ok`."""
    is_method = isinstance(call.func, cst.Attribute) and facts.files.is_path(call)
    return is_method or any(
        isinstance(v, External) and v.path == "os.makedirs" for v in facts.resolver.values(call.func)
    )
