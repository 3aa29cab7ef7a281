"""Where workers wait: all for the chief that writes what they read then, and the chief for those that still read what
it is about to write over, move or remove."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import Guard, InsertAfter, InsertBefore, Refusal, Replace
from migrator.facts.files.still_read import StillRead
from migrator.facts.program.tree import nodes_in
from migrator.facts.script import Facts

from .extents import is_asked_first, is_guarded, is_waited_for, writing_in
from .leaving import barrier_behind
from .sinks import Sink, calls_of
from .statements import only_prints

_LEAVING = (cst.Return, cst.Continue, cst.Break, cst.Raise)


def barriers(
    facts: Facts, guards: Sequence[Guard], sinks: Sequence[Sink], chiefs: Sequence[cst.CSTNode]
) -> Iterator[InsertAfter | InsertBefore | Replace | Refusal]:
    """Each once, however many writes wait for it. `chiefs`: the calls in the midst of a statement that the chief alone
    makes."""
    yield from dict.fromkeys(_barriers(facts, guards, sinks, chiefs))


def _barriers(
    facts: Facts, guards: Sequence[Guard], sinks: Sequence[Sink], chiefs: Sequence[cst.CSTNode]
) -> Iterator[InsertAfter | InsertBefore | Replace | Refusal]:
    waiting = [guard for guard in guards if is_waited_for(facts, guard, guards)]
    met: set[cst.CSTNode] = {facts.tree.statement_of(guard.last) for guard in waiting}
    still_read = facts.still_read(met)
    for guard in guards:
        calls = [call for call in writing_in(facts, guard) if call not in facts.files.fetches]
        is_asked = is_asked_first(facts, guard, guard in waiting) or _is_left_by_question(facts, guard, guards)
        before = guard.first if is_asked else _before(facts, still_read, guard.first, calls, guards)
        if before is not None:
            met.add(facts.tree.statement_of(before))
            yield InsertBefore(before, (facts.call("barrier"),))
        if guard in waiting:
            yield from barrier_behind(facts, guard.first, guard.last)
    for block in facts.worker_paths.chiefs_folders:
        reads = [read for read in facts.worker_paths.reads_in(block) if not is_guarded(facts, read, guards)]
        if any(still_read.is_open_behind(read, block) for read in reads):
            # it is removed when the chief comes out of the block
            yield InsertAfter(cst.ensure_type(block.body, cst.IndentedBlock).body[-1], (facts.call("barrier"),))
    others = [[call for path in sink.paths for call in calls_of(facts, path)] for sink in sinks]
    for calls in (*others, *([call] for call in chiefs if isinstance(call, cst.Call))):
        before = _before(facts, still_read, facts.tree.statement_of(calls[0]), calls, guards) if calls else None
        if before is not None:
            yield InsertBefore(before, (facts.call("barrier"),))


def _is_left_by_question(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> bool:
    """Whether it is asked further up in the function, `if isfile(path): return`, whether there is anything to download:
    who asks when the chief has it would not come to the barrier."""
    fetching = [call for call in writing_in(facts, guard) if call in facts.files.fetches]
    function = facts.tree.function_of(guard.first)
    for test in facts.tree.all_of(cst.If) if fetching else ():
        is_above = facts.tree.order[test] < facts.tree.order[guard.first] and not is_guarded(facts, test, guards)
        if is_above and facts.tree.function_of(test) is function and not facts.tree.contains(test, guard.first):
            branches = [branch for branch in (test.body, test.orelse) if branch is not None]
            leaves = any(isinstance(node, _LEAVING) for branch in branches for node in nodes_in(branch))
            asked = [p for call in facts.files.asking_in(test.test) for p in facts.files.paths(call)] if leaves else []
            written = [path for call in fetching for path in facts.files.paths(call)]
            if asked and not (written and facts.paths.differ(written, asked)):
                return True
    return False


def _before(
    facts: Facts, still_read: StillRead, first: cst.CSTNode, writing: Sequence[cst.Call], guards: Sequence[Guard]
) -> cst.CSTNode | None:
    """The statement in front of which all wait, so that nobody misses what is there before these calls write."""
    reads = [
        read
        for read in still_read.reads(first, writing)
        if not (is_guarded(facts, read, guards) or facts.files.is_chief_only(read) or _is_told(facts, read))
    ]
    if not reads:
        return None
    place = first
    for loop in facts.tree.loops_around(first):
        if any(still_read.is_in(read, loop) for read in reads):
            break
        place = loop  # once is enough
    return place


def _is_told(facts: Facts, read: cst.Call) -> bool:
    """Whether it is only printed which files there are."""
    return facts.files.lists(read) and only_prints(facts, facts.tree.statement_of(read))
