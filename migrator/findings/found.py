"""What the rules found, as findings that a user reads: where each stands, before and after, and what changes for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import libcst as cst

from migrator.edits import AddArgument, Edit, InsertAfter, InsertBefore, InsertFirst, Refusal, Replace, Trust, Wrap
from migrator.facts.program.modules import Script
from migrator.facts.script import Facts
from migrator.findings.results import Change, Finding
from migrator.layout import TextChange
from migrator.records import dataclass
from migrator.text.lines import line_and_column, line_starts

_Key = TypeVar("_Key")
_LONGEST = 60  # of an expression that is written out in a message


@dataclass(frozen=True)
class Found:
    """An edit, a refusal or what is taken on trust, and its rule; `summary` says what the rule does."""

    rule: str
    what: Edit | Refusal | Trust
    summary: str = ""

    @property
    def edit(self) -> Edit | None:
        return None if isinstance(self.what, (Refusal, Trust)) else self.what

    @property
    def breaks_training(self) -> bool:
        return isinstance(self.what, Refusal) and self.what.breaks_training


def site(found: Edit | Refusal | Trust) -> cst.CSTNode:
    """The node to which the user's eye is led."""
    if isinstance(found, (InsertBefore, InsertAfter, Wrap, Replace, Refusal, Trust)):
        return found.node
    if isinstance(found, InsertFirst):
        return found.function
    return found.call if isinstance(found, AddArgument) else found.first


def with_causes(facts: Facts, found: Sequence[Found]) -> list[Found]:
    """The findings of a file, where a refusal says which value it hangs on, if that stands elsewhere; those of one
    reason that hang on the same are reported as one: the first, which says how many there are. What stands in another
    file is told there, since a baseline accepts it file by file."""
    by_cause: dict[tuple[str, str, cst.CSTNode], list[Found]] = {}
    for one in found:
        if isinstance(one.what, Refusal) and one.what.cause is not None:
            by_cause.setdefault((one.rule, one.what.reason, one.what.cause), []).append(one)
    told = {several[0]: _told(facts, several) for several in by_cause.values()}
    silent = {one for several in by_cause.values() for one in several[1:]}
    return [told.get(one, one) for one in found if one not in silent]


def _told(facts: Facts, several: Sequence[Found]) -> Found:
    first = several[0].what
    cause = first.cause if isinstance(first, Refusal) else None
    if not isinstance(first, Refusal) or cause is None:
        return several[0]
    value = _named(facts, cause, first.node)
    if len(several) > 1:
        reason = f"{first.reason}; {_places(len(several) - 1)} on the same value, {value}"
    elif facts.tree.contains(first.node, cause):
        return several[0]
    else:
        reason = f"{first.reason}; it comes from {value}"
    return replace(several[0], what=replace(first, reason=reason))


def _named(facts: Facts, value: cst.CSTNode, reader: cst.CSTNode) -> str:
    """What the value is, and its line."""
    here, there = facts.tree.module_of(reader), facts.tree.module_of(value)
    line = f"line {facts.position(value)[0]}" + ("" if here is there else f" of {facts.scripts[there].path.name}")
    text = " ".join(facts.source(value).split())
    if len(text) > _LONGEST and isinstance(value, cst.Call):
        text = f"{facts.source(value.func)}(…)"
    return f"`{text}` of {line}" if len(text) <= _LONGEST else f"the one of {line}"


def _places(count: int) -> str:
    return "1 more place in this file hangs" if count == 1 else f"{count} more places in this file hang"


def finding_of(facts: Facts, found: Found) -> Finding:
    """What the user reads of it, with its place in the file as it is written."""
    node = site(found.what)
    (line, column), (end_line, end_column) = facts.positions(facts.tree.module_of(node), extent(facts, node))
    message, advice, is_refusal = found.summary.rstrip("."), "", False
    ignored_by = found.what.ignored_by if isinstance(found.what, Trust) else ""
    if isinstance(found.what, (Refusal, Trust)):
        message, advice, is_refusal = found.what.reason, found.what.advice, isinstance(found.what, Refusal)
    scope = _scope(facts, node)
    return Finding(line, column, found.rule, message, advice, is_refusal, end_line, end_column, scope, ignored_by)


def extent(facts: Facts, node: cst.CSTNode) -> tuple[int, int]:
    """Where the site begins and ends in the text; of a compound statement, its header."""
    spans = facts.spans(facts.tree.module_of(node))
    start, end = spans.span(node)
    body = getattr(node, "body", None)
    if isinstance(node, cst.BaseCompoundStatement) and isinstance(body, cst.BaseSuite):
        # The block's own span begins behind the line end of the header.
        end = start + len(spans.text[start : spans.span(body)[0]].rstrip())
    return start, end


def _scope(facts: Facts, node: cst.CSTNode) -> str:
    """The dotted name of the function or class that holds the site, or that it is."""
    owners = [o for o in (node, *facts.tree.ancestors(node)) if isinstance(o, (cst.FunctionDef, cst.ClassDef))]
    return ".".join(owner.name.value for owner in reversed(owners))


def moved(
    findings: Mapping[_Key, Finding],
    sites: Mapping[_Key, tuple[int, int]],
    places: Mapping[tuple[int, int], tuple[int, int]],
    text: str,
) -> dict[_Key, Finding]:
    """The findings with their lines and columns in the new text."""
    starts = line_starts(text)
    found = {}
    for one, finding in findings.items():
        if sites[one] in places:
            (line, column), (end_line, end_column) = (line_and_column(starts, at) for at in places[sites[one]])
            finding = replace(finding, line=line, column=column, end_line=end_line, end_column=end_column)
        found[one] = finding
    return found


def changes_of(
    script: Script, made: Sequence[TextChange], causes: Mapping[Edit, Sequence[Finding]]
) -> tuple[Change, ...]:
    """The changes to the file as it is written, of which statements may have been given lines of their own."""
    found = [(one.start, one.end, one.new, one.edits) for one in made]
    shift = 0
    for written, end, line_end in script.parting:
        start, shift = written + shift, shift + len(line_end) - (end - written)
        stop = start + len(line_end)
        within = [change for change in found if start < change[0] and change[1] < stop]
        found = [change for change in found if change not in within]
        text, position = "", 0
        for change in within:
            text, position = text + line_end[position : change[0] - start] + change[2], change[1] - start
        found.append((start, stop, text + line_end[position:], tuple(edit for change in within for edit in change[3])))
    return tuple(
        Change(
            script.written_offset(start),
            script.written_offset(end),
            new,
            tuple(sorted({finding for edit in edits for finding in causes.get(edit, ())})),
        )
        for start, end, new, edits in sorted(found, key=lambda change: change[:2])
    )
