"""One file from source to source: parse once, find the facts, ask the rules, apply their edits, check the outcome."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrator.apply import apply
from migrator.edits import (
    AddArgument,
    Edit,
    InsertAfter,
    InsertBefore,
    InsertFirst,
    Refusal,
    Replace,
    Wrap,
)
from migrator.facts.script import Facts
from migrator.rule import Rule
from migrator.source import Source, is_about_training
from migrator.spans import UnprintableSource
from migrator.targets import lockstep as target


class ScriptSyntaxError(Exception):
    """The file is not Python 3 that can be parsed; the message has line and column first."""


class BrokenOutput(Exception):
    """The edits gave text that is not Python: a defect of this tool, and the file is left alone."""


@dataclass(frozen=True, order=True)
class Finding:
    """What a rule says of one site, as the user reads it. Lines and columns count from 1."""

    line: int
    column: int
    rule: str
    message: str
    advice: str = ""
    is_refusal: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of one file. `data` is the new content; equal to the old where nothing was to be done."""

    old: bytes
    data: bytes
    findings: tuple[Finding, ...] = ()
    old_text: str = ""
    text: str = ""

    @property
    def is_changed(self) -> bool:
        return self.data != self.old

    @property
    def refusals(self) -> list[Finding]:
        return [f for f in self.findings if f.is_refusal]

    @property
    def is_ported(self) -> bool:
        """Whether nothing is left to do."""
        return not self.is_changed and not self.refusals


def migrate(data: bytes, rules: Sequence[Rule]) -> Outcome:
    """Applies the rules to the bytes of one file.

    Raises UnreadableSource, ScriptSyntaxError, or BrokenOutput where the tool itself is at fault.
    """
    if not is_about_training(data):
        return Outcome(data, data)
    source = Source.decode(data)
    facts = Facts(parse(source.text), source.text)
    try:
        edits, findings = _ask(facts, rules)
    except UnprintableSource:
        raise ScriptSyntaxError("1:1: libcst cannot reproduce this file byte for byte") from None
    if not edits:
        return Outcome(data, data, tuple(findings), source.text, source.text)
    text = apply(facts.tree, facts.spans, [*edits, *_import(facts)])
    _check(text)
    return Outcome(data, source.encode(text), tuple(findings), source.text, text)


def parse(text: str) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        where = f"{error.raw_line}:{error.raw_column + 1}"
        if _looks_like_python2(text):
            raise ScriptSyntaxError(f"{where}: this is Python 2: convert it to Python 3 first") from None
        raise ScriptSyntaxError(f"{where}: not valid Python") from None
    except RecursionError:
        raise ScriptSyntaxError("1:1: the code is nested too deeply to be read") from None


def _looks_like_python2(text: str) -> bool:
    return bool(
        re.search(
            r"^\s*print\s+[\"'\w%]|^\s*except\s+[\w.]+\s*,\s*\w+\s*:|^\s*raise\s+\w+\s*,|^\s*exec\s+\w",
            text,
            re.M,
        )
    )


def _ask(facts: Facts, rules: Sequence[Rule]) -> tuple[list[Edit], list[Finding]]:
    edits: list[Edit] = []
    findings: list[Finding] = []
    breaking = False
    for rule in rules:
        for found in rule.find(facts):
            if isinstance(found, Refusal):
                breaking = breaking or found.breaks_training
                findings.append(_finding(facts, rule, found))
            else:
                edits.append(found)
                findings.append(_finding(facts, rule, found))
    if breaking:
        # Half a migration would train another model: what is left undone takes the rest with it.
        return [], sorted(f for f in findings if f.is_refusal)
    return edits, sorted(set(findings))


def _finding(facts: Facts, rule: Rule, found: Edit | Refusal) -> Finding:
    line, column = facts.spans.position(_site(found))
    if isinstance(found, Refusal):
        return Finding(line, column, rule.id, found.reason, found.advice, is_refusal=True)
    return Finding(line, column, rule.id, rule.summary.rstrip("."))


def _site(found: Edit | Refusal) -> cst.CSTNode:
    if isinstance(found, (InsertBefore, InsertAfter, Wrap, Replace, Refusal)):
        return found.node
    if isinstance(found, InsertFirst):
        return found.function
    return found.call if isinstance(found, AddArgument) else found.first


def _import(facts: Facts) -> list[Edit]:
    """The runtime joins the cluster when it is imported, which must happen before the first tensor exists: so right
    after the framework's own import."""
    if facts.imports_runtime:
        return []
    code = (target.import_statement(facts.runtime),)
    if facts.framework_import is not None:
        return [InsertAfter(facts.framework_import, code)]
    first = next((s for s in facts.tree.module.body if not _is_prologue(s)), None)
    return [InsertBefore(first, code)] if first is not None else []


def _is_prologue(statement: cst.CSTNode) -> bool:
    """The module's docstring and its `from __future__` imports."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    small = statement.body[0]
    if isinstance(small, cst.Expr):
        return isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))
    return (
        isinstance(small, cst.ImportFrom) and isinstance(small.module, cst.Name) and small.module.value == "__future__"
    )


def _check(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        # The interpreter at hand may be older than the script's syntax: then libcst, which is not, decides.
        try:
            cst.parse_module(text)
        except cst.ParserSyntaxError:
            raise BrokenOutput(
                f"the edits would not leave valid Python (line {getattr(error, 'lineno', '?')})"
            ) from None
