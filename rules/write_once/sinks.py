"""Files that are open while more is done than to write them: all workers write, all but the chief to nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import Guard, InsertAfter, Refusal, Replace, Wrap
from migrator.facts.files.writes import Write
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.records import dataclass

from .extents import is_guarded, lies_within
from .leaving import barrier_behind
from .questions import question_around


@dataclass(frozen=True)
class Sink:
    """Files that all workers write: the chief under their paths, the others to nowhere. The statements end where they
    are closed; empty where that is not seen."""

    paths: tuple[cst.BaseExpression, ...]
    statements: tuple[cst.CSTNode, ...]


def sink_of(facts: Facts, write: Write) -> Sink | None:
    if not write.is_with:
        return as_sink(facts, [cst.ensure_type(write.node, cst.Call)], write.statements)
    items = cst.ensure_type(write.statement, cst.With).items
    opened = [item.item for item in items if isinstance(item.item, cst.Call)]
    return as_sink(facts, [call for call in opened if facts.files.openings.is_opening(call)], write.statements)


def as_sink(facts: Facts, openings: Sequence[cst.Call], statements: Sequence[cst.CSTNode]) -> Sink | None:
    """The files as ones that all workers write, where nothing but what is written to them tells them apart."""
    paths = [facts.files.openings.path_of_sink(call) for call in openings]
    found = Sink(tuple(path for path in paths if path is not None), tuple(statements))
    if not openings or len(found.paths) < len(paths):
        return None
    first = facts.tree.statement_of(openings[0])
    as_it_stands = Guard(first, statements[-1] if statements else first, "")
    if question_around(facts, as_it_stands, False) is not None:
        return None
    written = set(map(facts.paths.spelled, found.paths))
    if any(
        facts.paths.spelled(path) in written and lies_within(facts, as_it_stands, look)
        for look in facts.files.looks
        for path in facts.files.paths(look)
    ):
        return None
    reads = list(facts.read_again.reads(as_it_stands.first, as_it_stands.last, openings))
    if not reads or statements:
        return found
    # What only asks which files there are finds it as soon as it is open.
    is_there = all(map(facts.files.only_lists, reads)) and not any(argument(call, "delay", 3) for call in openings)
    return Sink(found.paths, (first,)) if is_there else None


def chiefs_handler(facts: Facts, opening: cst.Call) -> Wrap | None:
    """A handler of logs that renames its file now and then, which must not be os.devnull: on all but the chief one that
    drops what it is given. None where that is not enough."""
    first = facts.tree.statement_of(opening)
    if (
        not facts.files.openings.changes_files(opening)
        or question_around(facts, Guard(first, first, ""), False) is not None
    ):
        return None
    if any(facts.read_again.reads(first, first, [opening])):
        return None
    logging = facts.standard_imports.name(facts.tree.module_of(opening), "logging") or "logging"
    before, behind = ("(", ")") if isinstance(facts.tree.parent[opening], cst.Attribute) else ("", "")
    nothing = f" if {facts.call('is_chief')} else {logging}.NullHandler(){behind}"
    return Wrap(opening, before, nothing, imports="logging")


def until_closed(facts: Facts, opening: cst.Call) -> list[cst.CSTNode]:
    """The statements from the one that opens the file to the one beside it that closes it."""
    first, closing = facts.tree.statement_of(opening), facts.files.openings.closing(opening)
    last = facts.tree.statement_of(closing) if closing is not None else None
    if last is None or facts.tree.block_of(last) is not facts.tree.block_of(first):
        return []
    block = facts.tree.statements_beside(first)
    return block[block.index(first) : block.index(last) + 1]


def written_elsewhere(
    facts: Facts, sink: Sink, guards: Sequence[Guard]
) -> Iterator[Wrap | InsertAfter | Replace | Refusal]:
    condition = facts.call("is_chief")
    for path in sink.paths:
        nowhere = f"{facts.standard_imports.name(facts.tree.module_of(path), 'os') or 'os'}.devnull"
        opening, closing = ("(", ")") if isinstance(path, (cst.IfExp, cst.Lambda)) and not path.lpar else ("", "")
        yield Wrap(path, opening, f"{closing} if {condition} else {nowhere}", imports="os")
    if sink.statements:
        written = Guard(sink.statements[0], sink.statements[-1], "")
        calls = [call for path in sink.paths for call in calls_of(facts, path)]
        reads = facts.read_again.reads(written.first, written.last, calls)
        if any(not is_guarded(facts, read, guards) for read in reads):
            yield from barrier_behind(facts, written.first, written.last)


def calls_of(facts: Facts, path: cst.BaseExpression) -> Iterator[cst.Call]:
    owner = facts.tree.parent[facts.tree.parent[path]]
    if isinstance(owner, cst.Call):
        yield owner
