"""What leaves a function, or a turn of a loop, while it writes: the others must go there as well, and nobody comes to a
barrier behind a `return`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import InsertAfter, Refusal, Replace
from migrator.facts.objects.values import External, Result
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import semantic_children
from migrator.facts.script import Facts

# What they return is None on all workers.
_GIVING_NONE = re.compile(r"^numpy\.save\w*$|^(?:json|pickle)\.dump$|\.savefig$|^keras\..*\bsave_model$")


def may_leave(facts: Facts, statements: Sequence[cst.CSTNode], is_waited_for: bool) -> bool:
    """Whether the chief alone may run the statements, which stand in a row: it leaves none of them, or at their end
    with a `return` of what nobody needs. That comes behind the barrier, or is the last that the function does."""
    leaving = [node for each in statements for node in _leaving(each, False)]
    if not leaving:
        return True
    small, last = leaving[0], statements[-1]
    if len(leaving) > 1 or not isinstance(small, cst.Return) or not _is_last(facts, small, last):
        return False
    if is_waited_for:
        return _is_nothing(facts, small)
    return _ends_function(facts, last) and (_is_nothing(facts, small) or is_given_to_nobody(facts, small))


def barrier_behind(facts: Facts, first: cst.CSTNode, last: cst.CSTNode) -> Iterator[InsertAfter | Replace | Refusal]:
    """All wait behind the statements, which stand in a row."""
    statement = facts.tree.statement_of(last)
    beside = facts.tree.statements_beside(statement)
    row = beside[beside.index(facts.tree.statement_of(first)) : beside.index(statement) + 1]
    barrier = facts.call("barrier")
    leaving = [node for each in row for node in _leaving(each, False)]
    if not leaving:
        yield InsertAfter(last, (barrier,))
    elif not may_leave(facts, row, True):
        reason = "where this is left, the others would wait for the chief in vain"
        yield Refusal(leaving[0], reason, "leave behind the write, and not in the midst of it", breaks_training=True)
    else:
        value = cst.ensure_type(leaving[0], cst.Return).value
        yield Replace(leaving[0], ("pass" if value is None else value,))
        yield InsertAfter(last, (barrier if _ends_function(facts, statement) else f"{barrier}\nreturn",))


def is_given_to_nobody(facts: Facts, small: cst.Return) -> bool:
    """Whether no call uses what the function returns."""
    queue, passed = [facts.tree.function_of(small)], set[cst.CSTNode]()
    while queue:
        function = queue.pop()
        if not isinstance(function, cst.FunctionDef) or not facts.keywords.is_only_called(function):
            return False
        passed.add(function)
        for call in facts.resolver.callers(function):
            parent = facts.tree.parent[call]
            if isinstance(parent, cst.Return):
                outer = facts.tree.function_of(parent)
                queue += [outer] if outer not in passed else []
            elif not isinstance(parent, cst.Expr):
                return False
    return True


def _leaving(node: cst.CSTNode, is_in_loop: bool) -> Iterator[cst.CSTNode]:
    """What goes from inside the node to somewhere else than behind it; an error ends the run of all."""
    if isinstance(node, cst.Return) or (isinstance(node, (cst.Continue, cst.Break)) and not is_in_loop):
        yield node
    elif not isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
        for child in semantic_children(node):
            yield from _leaving(child, is_in_loop or isinstance(node, (cst.For, cst.While)))


def _is_last(facts: Facts, small: cst.Return, statement: cst.CSTNode) -> bool:
    """Whether nothing is left to do in the statement when it comes to this, on whatever way."""
    node: cst.CSTNode = small
    for owner in facts.tree.ancestors(small):
        if node is statement:
            return True
        if isinstance(owner, (cst.SimpleStatementLine, cst.IndentedBlock)):
            if owner.body[-1] is not node:
                return False
        elif not isinstance(owner, cst.With):
            return False
        node = owner
    return False


def _is_nothing(facts: Facts, small: cst.Return) -> bool:
    """Whether it returns None."""
    value = small.value
    if value is None or (isinstance(value, cst.Name) and value.value == "None"):
        return True
    if not isinstance(value, cst.Call):
        return False
    values = facts.resolver.values(value.func)
    if values and all(isinstance(v, External) and _GIVING_NONE.search(v.path) for v in values):
        return True
    owners = facts.resolver.values(value.func.value) if isinstance(value.func, cst.Attribute) else ()
    is_opening = facts.files.openings.is_opening
    is_file = bool(owners) and all(isinstance(v, Result) and is_opening(v.call) for v in owners)
    return is_file and method_called(value) == "close"


def _ends_function(facts: Facts, statement: cst.CSTNode) -> bool:
    """Whether nothing more would run in the function without this `return`."""
    for owner in facts.tree.ancestors(statement):
        if isinstance(owner, cst.FunctionDef):
            return True
        if isinstance(owner, (cst.For, cst.While, cst.Try)):
            return False
        if isinstance(owner, cst.IndentedBlock):
            if owner.body[-1] is not statement:
                return False
        elif isinstance(owner, cst.BaseStatement):
            statement = owner
    return False
