"""The questions around a write whether the file is there, which the write itself answers otherwise."""

from __future__ import annotations

import libcst as cst

from migrator.edits import Guard
from migrator.facts.objects.kinds import origin
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts

from .statements import TELLING, calls_model_early, names_read_after


def around_question(facts: Facts, guard: Guard) -> Guard:
    """The guard around the question as well whether a file is there, which the write itself answers otherwise: workers
    that ask later would not come to the barrier."""
    question = question_around(facts, guard, True)
    if question is None or not _only_writes(facts, question) or names_read_after(facts, question):
        return guard
    if facts.drawing.draws([question]) or calls_model_early(facts, question):
        return guard
    return Guard(question, question, guard.condition)


def question_around(facts: Facts, guard: Guard, or_try: bool) -> Statement | None:
    """The outermost statement around, without training in it, that asks which files there are, or catches what the
    chief alone raises."""
    found: Statement | None = None
    for owner in facts.tree.ancestors(facts.tree.statement_of(guard.first)):
        if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
            break
        if not isinstance(owner, cst.BaseCompoundStatement):
            continue
        if facts.training.is_within(owner):
            break
        asked = (
            owner.test if isinstance(owner, (cst.If, cst.While)) else owner.iter if isinstance(owner, cst.For) else None
        )
        is_first = found is not None and isinstance(owner, cst.If) and owner.orelse is found
        if is_first or (or_try and isinstance(owner, cst.Try)) or (asked is not None and facts.files.asks(asked)):
            found = owner
    return found


def existence_test(facts: Facts, call: cst.CSTNode) -> cst.If | None:
    """The `if not os.path.exists(folder):` around the call."""
    for owner in facts.tree.ancestors(call):
        if isinstance(owner, cst.If):
            return owner if facts.files.asking_in(owner.test) else None
        if isinstance(owner, cst.FunctionDef):
            return None
    return None


def _only_writes(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether the statements in the node do nothing but write files, tell of it, and make names."""
    if isinstance(node, cst.SimpleStatementLine):
        return all(_is_for_writing(facts, small) for small in node.body)
    if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementSuite)):
        lines = [node] if isinstance(node, cst.SimpleStatementSuite) else node.body
        return all(
            all(_is_for_writing(facts, small) for small in line.body)
            if isinstance(line, cst.SimpleStatementSuite)
            else _only_writes(facts, line)
            for line in lines
        )
    if isinstance(node, (cst.If, cst.For, cst.While, cst.Try)):
        inner = [node.body, node.orelse, *(node.handlers if isinstance(node, cst.Try) else ())]
        return all(_only_writes(facts, part) for part in inner if part is not None)
    return isinstance(node, (cst.Else, cst.ExceptHandler)) and _only_writes(facts, node.body)


def _is_for_writing(facts: Facts, small: cst.CSTNode) -> bool:
    if isinstance(small, (cst.Pass, cst.Continue)):
        return True
    if isinstance(small, cst.Assign):
        return all(isinstance(target.target, cst.Name) for target in small.targets)
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    call = small.value
    writes = call in facts.files.folders or any(write.node is call for write in facts.files.writes)
    return writes or any(origin(v).startswith(TELLING) for v in facts.resolver.values(call.func))
