"""Names in what the rules insert that mean nothing at the place where it is put.

What is inserted is text, and a rule may write a name there that only another function knows: such text would raise a
NameError, on one worker, too. So each is looked up before anything is written.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrator.edits import Code, Edit, Guard, InsertFirst, Refusal, Wrap
from migrator.facts.program.tree import Scope
from migrator.facts.script import Facts
from migrator.findings.found import Found, site

_BUILTINS = frozenset(dir(builtins)) | {"__file__", "__name__"}
_ADVICE = "do by hand what this rule does, or give what it needs a name that is known here"


def without_unbound(facts: Facts, module: cst.Module, found: Sequence[Found]) -> list[Found]:
    """The findings in one file, with a refusal for each edit that names what is not known at its place."""
    names = {f.edit: _names(facts, f.edit) for f in found if f.edit is not None}
    known = _BUILTINS.union({facts.joining.runtime_name(module)}, *(bound for bound, _ in names.values()))
    if facts.resolver.borrows_names(module):
        return list(found)  # who knows what names `from … import *` lends

    def checked(one: Found) -> Found:
        if one.edit is None:
            return one
        scope = _scope(facts, one.edit)
        unknown = next((n for n in sorted(names[one.edit][1] - known) if scope.lookup(n) is None), None)
        if unknown is None:
            return one
        reason = f"what would have to be inserted here needs `{unknown}`, which is not known here"
        return replace(one, what=Refusal(site(one.what), reason, _ADVICE, breaks_training=True))

    return [checked(one) for one in found]


def _scope(facts: Facts, edit: Edit) -> Scope:
    at = edit.function.body if isinstance(edit, InsertFirst) else site(edit)
    suite = getattr(at, "body", None)
    # What stands on the line of its `def` is given lines of its own later.
    return facts.tree.scope_of(suite if isinstance(suite, cst.SimpleStatementSuite) else at)


def _names(facts: Facts, edit: Edit) -> tuple[set[str], set[str]]:
    """The names that the text of the edit binds, and those that it reads."""
    if isinstance(edit, Wrap):
        text = f"{edit.before}None{edit.after}"
    elif isinstance(edit, Guard):
        text = edit.condition
    else:
        text = "".join(_text(edit.code))
    bound: set[str] = {edit.imports} if isinstance(edit, Wrap) else set()
    read: set[str] = set()
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            bound.add(node.name)
    return bound, read


def _text(code: Code) -> Iterator[str]:
    for part in code:
        # Nodes of the script are read where they stand, or beside it.
        yield part if isinstance(part, str) else "None"


def _parsed(text: str) -> ast.AST:
    """The text as statements, or as what may stand in a call; nothing where it is only a part of these."""
    for form in ("{}", "_({})", "_({}", "{} pass", "{}\n    pass"):
        try:
            return ast.parse(form.format(text.strip()))
        except SyntaxError:
            continue
    return ast.Module([], [])
