"""The names of files that are imported and not among those of the run, in refusals of what may stand there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.objects.values import Object
from migrator.facts.script import Facts
from migrator.facts.startup.missing import missing_files

_SAYS_SO = ("seen", "followed", "known")
_LACKING = "is imported and not among the files given"


def pointed_out(facts: Facts, refusal: Refusal) -> Refusal:
    """The refusal; where what it could not see comes out of a file that is missing, with the name of that file."""
    if isinstance(refusal.node, cst.Module) or not any(word in refusal.reason for word in _SAYS_SO):
        return refusal
    named = next((told for part in _parts(facts, refusal.node) if (told := told_of(facts, part))), "")
    return replace(refusal, advice=f"{named}; or {refusal.advice}") if named else refusal


def told_of(facts: Facts, node: cst.CSTNode) -> str:
    """That the file is missing which a name in the node comes from, and how to give it; empty where none is."""
    name = next(missing_files(facts, node), None)
    script = facts.scripts[facts.tree.module_of(node)].path.name
    return f"{name} {_LACKING}: migrate {script} {name}" if name is not None else ""


def told_of_training(facts: Facts, call: cst.Call) -> str:
    """The same of a call by which a missing file may train: what it is called on may have it from there."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    classes = [v.of for v in facts.resolver.values(owner) if isinstance(v, Object)]
    bases = [base.value for cls in classes for c in facts.resolver.lineage(cls) for base in c.node.bases]
    return next((told for node in (owner, *bases) if (told := told_of(facts, node))), "")


def names_a_file(refusal: Refusal) -> bool:
    """Whether the refusal says that a file is missing."""
    return _LACKING in refusal.advice


def _parts(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What the site is made of, then its statement, then what the loops around it go through."""
    yield node
    statement = facts.tree.statement_of(node)
    if isinstance(statement, cst.SimpleStatementLine):
        yield statement
    for loop in facts.tree.loops_around(node):
        yield loop.iter if isinstance(loop, cst.For) else loop.test
