"""Folders are made so that it does no harm when another worker was faster."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import AddArgument, Guard, Refusal
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts

from .questions import existence_test


def folders(facts: Facts) -> Iterator[AddArgument | Guard | Refusal]:
    for call in facts.files.folders:
        if facts.files.is_chief_only(call) or argument(call, "exist_ok", 2) is not None:
            continue
        line, asking = facts.tree.parent[facts.tree.parent[call]], existence_test(facts, call)
        if asking is not None and _may_exist(facts, call):
            yield AddArgument(call, ("exist_ok=True",))
        elif not isinstance(facts.tree.parent[call], cst.Expr) or (
            asking is not None and facts.training.is_within(asking)
        ):
            yield Refusal(
                call,
                "all workers would make this folder at a time, and all but one fail",
                "use os.makedirs(..., exist_ok=True)",
            )
        elif isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
            yield Guard(line, line, facts.call("is_chief"))
        else:
            yield Guard(call, call, facts.call("is_chief"))  # parts the line


def _may_exist(facts: Facts, call: cst.Call) -> bool:
    """Whether the call takes `exist_ok`."""
    is_method = isinstance(call.func, cst.Attribute) and facts.files.openings.is_path(call)
    return is_method or "os.makedirs" in facts.resolver.public(call.func)
