"""What statements do besides writing: they train, build models, make names that are read later, or only tell."""

from __future__ import annotations

from typing import cast

import libcst as cst

from migrator.facts.objects.kinds import origin
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts

TELLING = ("builtins.print", "tensorflow.print", "logging.", "absl.logging.", "tqdm.")


def calls_model_early(facts: Facts, statement: Statement) -> bool:
    """Whether the chief alone would call a model before training has built it on all workers."""
    sites = facts.training.sites
    if facts.tree.function_of(statement) is not None or any(
        facts.tree.order[s] < facts.tree.order[statement] for s in sites if facts.tree.function_of(s) is None
    ):
        return False
    loops = [c.reader for c in facts.sharding.read]
    if any(facts.tree.order[loop] < facts.tree.order[statement] for loop in loops):
        return False
    return any(
        facts.tree.contains(statement, call)
        and any(facts.kinds.has_weights(v) for v in facts.resolver.values(call.func))
        for call in facts.tree.calls
    )


def names_read_after(facts: Facts, *statements: Statement) -> str:
    """A name that the statements, which stand in a row, make, and that is read elsewhere."""
    scope = facts.tree.scope_of(statements[0])

    def lies_within(node: cst.CSTNode) -> bool:
        return any(facts.tree.contains(statement, node) for statement in statements)

    for name, bindings in scope.bindings.items():
        inside = {b for b in bindings if b.kind != "with" and lies_within(b.node)}
        targets = {b.target for b in bindings}
        if inside and any(
            facts.tree.is_read(use)
            and use not in targets
            and not lies_within(use)
            and inside & set(facts.resolver.reaching(use))
            for use in facts.tree.names[name]
        ):
            return name
    return ""


def only_prints(facts: Facts, statement: Statement) -> bool:
    """Whether it prints, or asks a name whether to: `if path: print(path)`."""
    if isinstance(statement, cst.If):
        asked = statement.test.expression if isinstance(statement.test, cst.UnaryOperation) else statement.test
        block = statement.body.body if isinstance(statement.body, cst.IndentedBlock) else ()
        is_plain = isinstance(asked, cst.Name) and statement.orelse is None
        return is_plain and bool(block) and all(only_prints(facts, cast(Statement, part)) for part in block)
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    small = statement.body[0]
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    return any(origin(v).startswith(TELLING) for v in facts.resolver.values(small.value.func))
