"""Let the chief alone write files, and nobody read them before they are there.

All workers hold the same weights, so one copy of a checkpoint, a plot or a table is enough, and N processes that
write to one path at a time destroy it. Where the script reads a file again after it wrote it, a barrier makes the
other workers wait for the chief. Folders are made so that it does no harm when another worker was faster. Event
files of TensorBoard are written by the chief; the other workers get a writer that does nothing.

before:
    model.save("model.keras")
after:
    if lockstep.is_chief():
        model.save("model.keras")

Downloads and archives are fetched and unpacked by the chief, while the others wait; where a cached download's path is
needed (`keras.utils.get_file`), they look it up after the chief. Windows are shown on the chief alone. Files are
removed, moved and copied by the chief as well, with the question whether they are there, or once all have asked it.

A file that is open while more is done than to write it (a log of the training, a `with open(...)` block that draws
random numbers or makes names for later) is written by all workers, on all but the chief to nowhere: `open(path if
lockstep.is_chief() else os.devnull, "w")`.

A file that a dataset is cached in (`dataset.cache("cache/train")`) is written while the dataset is read: each worker
has one of its own, named by its rank and their number, with all elements in it, so that it serves any batch size.

Leaves alone: files that are only read; what is guarded by the rank already; output to the terminal; the files of
`fit`'s callbacks (see synchronise-callbacks); what each worker writes into a temporary folder of its own and reads
again there.
Refuses: a write whose result the rest of the script needs; a write that draws random numbers, and a block in which
training goes on or names are made that are read after it, where the file cannot be os.devnull (an archive, a file of
which the script asks where it stands); a file that the chief writes and all read under a path which differs from worker
to worker (a name with the time in it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import libcst as cst

from migrator.edits import AddArgument, Guard, InsertAfter, InsertBefore, Refusal, Replace, Wrap
from migrator.facts.files.writes import Write
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.values import External
from migrator.facts.program.syntax import argument, is_format
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts
from migrator.layout import LONGEST_LINE
from migrator.rule import Findings, rule

_TELLING = ("builtins.print", "tensorflow.print", "logging.", "absl.logging.", "tqdm.")
_ADVICE = "write the file under `if lockstep.is_chief():` by hand"


@rule(optional=True)
def write_once(facts: Facts) -> Findings:
    if not facts.trains:
        return
    yield from _summary_writers(facts)
    sinks: list[Sink] = []
    for call in facts.files.opened:
        if not facts.files.is_chief_only(call):
            sink = _sink(facts, [call], _until_closed(facts, call))
            if sink is not None:
                sinks.append(sink)
            else:
                yield Refusal(
                    call,
                    "every worker would write this file",
                    "open it on the chief alone, by hand",
                    breaks_training=any(facts.read_again.reads(call, call, [call])),
                )
    for read in facts.worker_paths.lost_reads():
        yield Refusal(
            read,
            "this path is another one on each worker, and the chief alone writes there",
            "give it a fixed name",
            breaks_training=True,
        )
    guards: list[Guard] = []
    for folder in _folders(facts):
        if isinstance(folder, Guard):
            guards.append(folder)
        else:
            yield folder
    for write in facts.files.writes:
        if facts.files.is_chief_only(write.node) or any(_lies_within(facts, g, write.statement) for g in guards):
            continue
        if facts.worker_paths.is_read_by_itself(write.node):
            continue  # each worker has its own file there
        found = _guard_fetch(facts, write) if write.node in facts.files.fetches else _guard(facts, write)
        sink = _sink_of(facts, write) if isinstance(found, Refusal) else None
        if sink is not None:
            sinks.append(sink)
        elif isinstance(found, Refusal):
            as_it_stands = Guard(write.statement, write.statement, "")
            yield replace(found, breaks_training=found.breaks_training or _is_read_later(facts, as_it_stands, ()))
        elif not isinstance(found, Guard):
            yield found
        else:
            guards.append(found)
    yield from _cached_downloads(facts)
    yield from _cache_files(facts)
    guards = _joined(facts, guards)
    guards = _joined(facts, [_widened(facts, guard, guards) for guard in guards])
    for sink in sinks:
        yield from _written_elsewhere(facts, sink, guards)
    for guard in guards:
        yield guard
        is_waited_for = _is_waited_for(facts, guard, guards)
        if _is_asked_first(facts, guard, is_waited_for):
            yield InsertBefore(guard.first, (facts.call("barrier"),))
        if is_waited_for:
            yield InsertAfter(guard.last, (facts.call("barrier"),))


def _joined(facts: Facts, guards: list[Guard]) -> list[Guard]:
    """The guards in source order, one for those that stand side by side, without those inside of others."""
    found: list[Guard] = []
    for guard in sorted(guards, key=lambda g: (facts.tree.order[g.first], -facts.tree.last_order_in(g.last))):
        if found and _lies_within(facts, found[-1], guard.first):
            continue
        if found and _adjoins(facts, found[-1], guard):
            found[-1] = Guard(found[-1].first, guard.last, guard.condition)
        else:
            found.append(guard)
    return found


def _widened(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> Guard:
    """The guard with the question around it, where that has to be or spares a guard."""
    outer = _around_question(facts, guard)
    is_next = any(_adjoins(facts, outer, other) for other in guards)
    return outer if is_next or _is_waited_for(facts, guard, guards) else guard


def _is_waited_for(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> bool:
    return _fetches(facts, guard) or _is_read_later(facts, guard, guards)


# -- guards --------------------------------------------------------------------------------------------------------


def _guard(facts: Facts, write: Write) -> Guard | Wrap | Refusal:
    statement = write.statement
    condition = facts.call("is_chief")
    small = _small_statement(facts, write.node)
    if small is not None and _shares_its_line(facts, small):
        return Guard(write.node, write.node, condition)  # parts the line: each statement is looked at by itself then
    if any(_trains(facts, s) for s in write.statements):
        return Refusal(
            write.node,
            "training goes on inside of this statement, so it cannot run on the chief alone",
            _ADVICE,
        )
    if facts.drawing.draws(write.statements):
        return Refusal(
            write.node,
            "random numbers are drawn inside of this statement: drawn by the chief alone, its generator would run "
            "ahead of the others'",
            "draw them before the write, which can then run on the chief alone",
        )
    if any(_calls_model_early(facts, s) for s in write.statements):
        reason = "a model that is not built yet would be built here by the chief alone"
        return Refusal(write.node, reason, "call the model before the write, on every worker")
    if write.is_with or write.following:
        lost = _names_read_after(facts, *write.statements)
        if lost:
            block = "this block makes" if write.is_with else "is made while this file is open"
            return Refusal(write.node, f"`{lost}`, which {block}, is needed by every worker afterwards", _ADVICE)
        return Guard(statement, write.statements[-1], condition)
    if small is None:
        return Refusal(write.node, "this write is a part of a condition, or of a loop's header", _ADVICE)
    if isinstance(small, cst.Expr):
        return Guard(statement, statement, condition)
    if isinstance(small, cst.Assign) and len(small.targets) == 1 and isinstance(small.targets[0].target, cst.Name):
        return _guard_assignment(facts, write, small, small.targets[0].target, condition)
    return Refusal(write.node, "what this write returns is needed by every worker", _ADVICE)


def _guard_fetch(facts: Facts, write: Write) -> Guard | Wrap | Refusal:
    """A download, with the question around it whether the file is there: the others ask only when all of it is."""
    asking = _existence_test(facts, write.node)
    if asking is None:
        return _guard(facts, write)
    lost = _names_read_after(facts, asking)
    if lost or asking.orelse is not None:
        reason = f"`{lost}`, which this block makes, is" if lost else "the other branch is"
        return Refusal(write.node, f"{reason} needed by every worker", "download the file before training is started")
    return Guard(asking, asking, facts.call("is_chief"))


def _fetches(facts: Facts, guard: Guard) -> bool:
    """Whether the guarded statements download files or make folders, which all workers may use."""
    fetching = (*facts.files.fetches, *facts.files.folders)
    return any(_lies_within(facts, guard, call) for call in fetching)


def _around_question(facts: Facts, guard: Guard) -> Guard:
    """The guard around the question as well whether a file is there, which the write itself answers otherwise: workers
    that ask later would not come to the barrier."""
    question = _question_around(facts, guard, True)
    if question is None or not _only_writes(facts, question) or _names_read_after(facts, question):
        return guard
    if facts.drawing.draws([question]) or _calls_model_early(facts, question):
        return guard
    return Guard(question, question, guard.condition)


def _is_asked_first(facts: Facts, guard: Guard, is_waited_for: bool) -> bool:
    """Whether all workers need the answer from before the write to the question whether the file is there: to come to
    the barrier behind the write, or to set names by it."""
    question = _question_around(facts, guard, False)
    if question is None or is_waited_for:
        return question is not None
    if not isinstance(question, (cst.If, cst.While)) or _around_question(facts, guard) is not guard:
        return False
    spelled, paths = facts.paths.spelled, facts.files.paths
    asked = {spelled(path) for call in facts.files.asking_in(question.test) for path in paths(call)}
    return any(spelled(path) in asked for call in _writing_in(facts, guard) for path in paths(call))


def _question_around(facts: Facts, guard: Guard, or_try: bool) -> Statement | None:
    """The outermost statement around, without training in it, that asks which files there are, or catches what the
    chief alone raises."""
    found: Statement | None = None
    for owner in facts.tree.ancestors(facts.tree.statement_of(guard.first)):
        if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
            break
        if not isinstance(owner, cst.BaseCompoundStatement):
            continue
        if _trains(facts, owner):
            break
        asked = (
            owner.test if isinstance(owner, (cst.If, cst.While)) else owner.iter if isinstance(owner, cst.For) else None
        )
        is_first = found is not None and isinstance(owner, cst.If) and owner.orelse is found
        if is_first or (or_try and isinstance(owner, cst.Try)) or (asked is not None and facts.files.asks(asked)):
            found = owner
    return found


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
    return writes or any(origin(v).startswith(_TELLING) for v in facts.resolver.values(call.func))


def _cache_files(facts: Facts) -> Iterator[Replace | Wrap]:
    """A file for each worker that datasets are cached in, which all write at a time."""
    mark = f"-{{{facts.runtime}.rank()}}-of-{{{facts.runtime}.size()}}"
    for name in facts.sharding.cache_files.to_be_named:
        if isinstance(name, cst.SimpleString) and len(name.quote) == 1 and not set(name.value) & set("{}\\"):
            yield Replace(name, (f"f{name.value[:-1]}{mark}{name.quote}",))
        else:
            yield Wrap(name, "", f' + f"{mark}"')


def _cached_downloads(facts: Facts) -> Iterator[InsertBefore]:
    """The chief downloads first, the others find the file there."""
    for call in facts.files.cached_downloads:
        if facts.files.is_chief_only(call) or _follows_a_guarded_one(facts, call):
            continue
        inner = facts.indent(call)
        statement = facts.tree.statement_of(call)
        yield InsertBefore(statement, (f"if {facts.call('is_chief')}:\n{inner}", call))
        yield InsertBefore(statement, (facts.call("barrier"),))


def _follows_a_guarded_one(facts: Facts, call: cst.Call) -> bool:
    """Whether the chief has made the same call before."""
    return any(
        facts.tree.order[other] < facts.tree.order[call]
        and facts.files.is_chief_only(other)
        and facts.source(other) == facts.source(call)
        for other in facts.files.cached_downloads
    )


def _guard_assignment(
    facts: Facts, write: Write, assign: cst.Assign, target: cst.Name, condition: str
) -> Guard | Wrap | Refusal:
    """`path = manager.save()`: guarded together with the lines directly after it that print the path. Printed further
    down, the other workers have None for it."""
    uses = [
        n
        for n in facts.tree.names[target.value]
        if facts.tree.is_read(n) and any(b.node is assign for b in facts.resolver.reaching(n))
    ]
    if uses and all(_is_only_told(facts, n) for n in uses) and not _are_told_next(facts, write.statement, uses):
        return Wrap(write.node, "", f" if {condition} else None")
    block = facts.tree.block_of(write.statement)
    last = write.statement
    body = list(cast(cst.IndentedBlock, block).body)
    following = iter(body[body.index(write.statement) + 1 :])
    while uses:
        statement = next(following, None)
        if statement is None or not _only_prints(facts, cast(Statement, statement)):
            return Refusal(
                write.node, f"`{target.value}`, which this write returns, is needed by every worker", _ADVICE
            )
        last = cast(Statement, statement)
        uses = [n for n in uses if not facts.tree.contains(statement, n)]
    return Guard(write.statement, last, condition)


def _are_told_next(facts: Facts, statement: Statement, uses: list[cst.Name]) -> bool:
    """Whether the lines directly after the statement are all that read the names."""
    body = list(cast(cst.IndentedBlock, facts.tree.block_of(statement)).body)
    left = list(uses)
    for following in body[body.index(statement) + 1 :]:
        if not left or not _only_prints(facts, cast(Statement, following)):
            break
        left = [n for n in left if not facts.tree.contains(following, n)]
    return not left


def _is_only_told(facts: Facts, name: cst.Name) -> bool:
    """Whether the name is read in a line that only prints, and asked nothing there."""
    parent = facts.tree.parent.get(name)
    asked = isinstance(parent, (cst.Attribute, cst.Subscript, cst.BinaryOperation)) and not is_format(parent)
    return not asked and _only_prints(facts, facts.tree.statement_of(name))


def _only_prints(facts: Facts, statement: Statement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    small = statement.body[0]
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    return any(origin(v).startswith(_TELLING) for v in facts.resolver.values(small.value.func))


def _small_statement(facts: Facts, node: cst.CSTNode) -> cst.CSTNode | None:
    return next((o for o in facts.tree.ancestors(node) if isinstance(o, cst.BaseSmallStatement)), None)


def _shares_its_line(facts: Facts, small: cst.CSTNode) -> bool:
    line = facts.tree.parent[small]
    return isinstance(line, cst.SimpleStatementSuite) or len(cst.ensure_type(line, cst.SimpleStatementLine).body) > 1


def _trains(facts: Facts, statement: cst.CSTNode) -> bool:
    bodies = facts.training.reached_from(statement)
    sites = facts.training.sites
    return any(facts.tree.contains(body, site) for body in bodies for site in sites)


def _calls_model_early(facts: Facts, statement: Statement) -> bool:
    """Whether the chief alone would call a model before training has built it on all workers."""
    sites = facts.training.sites
    if facts.tree.function_of(statement) is not None or any(
        facts.tree.order[s] < facts.tree.order[statement] for s in sites if facts.tree.function_of(s) is None
    ):
        return False
    loops = [c.reader for c in facts.sharding.consumptions]
    if any(facts.tree.order[loop] < facts.tree.order[statement] for loop in loops):
        return False
    return any(
        facts.tree.contains(statement, call)
        and any(facts.kinds.has_weights(v) for v in facts.resolver.values(call.func))
        for call in facts.tree.calls
    )


def _names_read_after(facts: Facts, *statements: Statement) -> str:
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


def _adjoins(facts: Facts, guard: Guard, next_: Guard) -> bool:
    first, second = facts.tree.statement_of(guard.last), facts.tree.statement_of(next_.first)
    block = facts.tree.block_of(first)
    if block is not facts.tree.block_of(second):
        return False
    body = facts.tree.statements_beside(first)
    return second in body[body.index(first) + 1 :][:1] and not second.leading_lines


def _is_read_later(facts: Facts, guard: Guard, guards: Sequence[Guard]) -> bool:
    """Whether the script may read afterwards what the guarded statements wrote. What is read inside of other guards,
    the chief reads that has written it."""
    reads = facts.read_again.reads(guard.first, guard.last, _writing_in(facts, guard))
    return any(not _is_guarded(facts, read, guards) for read in reads)


def _writing_in(facts: Facts, guard: Guard) -> list[cst.Call]:
    """The calls in the guarded statements that write files."""
    first, last = facts.tree.statement_of(guard.first), facts.tree.statement_of(guard.last)
    start, end = facts.tree.order[first], facts.tree.last_order_in(last)
    calls = (write.node for write in facts.files.writes if start <= facts.tree.order[write.node] <= end)
    return [call for call in calls if isinstance(call, cst.Call)]


def _is_guarded(facts: Facts, call: cst.Call, guards: Sequence[Guard]) -> bool:
    return any(_lies_within(facts, guard, call) for guard in guards)


def _lies_within(facts: Facts, guard: Guard, node: cst.CSTNode) -> bool:
    return facts.tree.order[guard.first] <= facts.tree.order[node] <= facts.tree.last_order_in(guard.last)


# -- files that are open while more is done than to write them ------------------------------------------------------


@dataclass(frozen=True)
class Sink:
    """Files that all workers write: the chief under their paths, the others to nowhere. The statements end where they
    are closed; empty where that is not seen."""

    paths: tuple[cst.BaseExpression, ...]
    statements: tuple[cst.CSTNode, ...]


def _sink_of(facts: Facts, write: Write) -> Sink | None:
    if not write.is_with:
        return _sink(facts, [cst.ensure_type(write.node, cst.Call)], write.statements)
    items = cst.ensure_type(write.statement, cst.With).items
    opened = [item.item for item in items if isinstance(item.item, cst.Call)]
    return _sink(facts, [call for call in opened if facts.files.is_opening(call)], write.statements)


def _sink(facts: Facts, openings: Sequence[cst.Call], statements: Sequence[cst.CSTNode]) -> Sink | None:
    """The files as ones that all workers write, where nothing but what is written to them tells them apart."""
    paths = [facts.files.path_of_sink(call) for call in openings]
    found = Sink(tuple(path for path in paths if path is not None), tuple(statements))
    if not openings or len(found.paths) < len(paths):
        return None
    first = facts.tree.statement_of(openings[0])
    as_it_stands = Guard(first, statements[-1] if statements else first, "")
    if _question_around(facts, as_it_stands, False) is not None:
        return None
    written = set(map(facts.paths.spelled, found.paths))
    if any(
        facts.paths.spelled(path) in written and _lies_within(facts, as_it_stands, look)
        for look in facts.files.looks
        for path in facts.files.paths(look)
    ):
        return None
    may_be_read = any(facts.read_again.reads(as_it_stands.first, as_it_stands.last, openings))
    return None if may_be_read and not statements else found


def _until_closed(facts: Facts, opening: cst.Call) -> list[cst.CSTNode]:
    """The statements from the one that opens the file to the one beside it that closes it."""
    first, closing = facts.tree.statement_of(opening), facts.files.closing(opening)
    last = facts.tree.statement_of(closing) if closing is not None else None
    if last is None or facts.tree.block_of(last) is not facts.tree.block_of(first):
        return []
    block = facts.tree.statements_beside(first)
    return block[block.index(first) : block.index(last) + 1]


def _written_elsewhere(facts: Facts, sink: Sink, guards: Sequence[Guard]) -> Iterator[Wrap | InsertAfter]:
    condition = facts.call("is_chief")
    for path in sink.paths:
        nowhere = f"{facts.standard_imports.name(facts.tree.module_of(path), 'os') or 'os'}.devnull"
        opening, closing = ("(", ")") if isinstance(path, (cst.IfExp, cst.Lambda)) and not path.lpar else ("", "")
        yield Wrap(path, opening, f"{closing} if {condition} else {nowhere}", imports="os")
    if sink.statements:
        written = Guard(sink.statements[0], sink.statements[-1], "")
        calls = [call for path in sink.paths for call in _calls_of(facts, path)]
        reads = facts.read_again.reads(written.first, written.last, calls)
        if any(not _is_guarded(facts, read, guards) for read in reads):
            yield InsertAfter(written.last, (facts.call("barrier"),))


def _calls_of(facts: Facts, path: cst.BaseExpression) -> Iterator[cst.Call]:
    owner = facts.tree.parent[facts.tree.parent[path]]
    if isinstance(owner, cst.Call):
        yield owner


# -- folders and event files ---------------------------------------------------------------------------------------


def _folders(facts: Facts) -> Iterator[AddArgument | Guard | Refusal]:
    for call in facts.files.folders:
        if facts.files.is_chief_only(call) or argument(call, "exist_ok", 2) is not None:
            continue
        statement = facts.tree.statement_of(call)
        if _may_exist(facts, call) and _is_in_existence_test(facts, call):
            yield AddArgument(call, ("exist_ok=True",))
        elif (
            isinstance(statement, cst.SimpleStatementLine)
            and len(statement.body) == 1
            and isinstance(statement.body[0], cst.Expr)
        ):
            outer = _existence_test(facts, call) or statement
            yield Guard(outer, outer, facts.call("is_chief"))
        else:
            yield Refusal(
                call,
                "all workers would make this folder at a time, and all but one fail",
                "use os.makedirs(..., exist_ok=True)",
            )


def _may_exist(facts: Facts, call: cst.Call) -> bool:
    """Whether the call takes `exist_ok`."""
    is_method = isinstance(call.func, cst.Attribute) and facts.files.is_path(call)
    return is_method or any(
        isinstance(v, External) and v.path == "os.makedirs" for v in facts.resolver.values(call.func)
    )


def _is_in_existence_test(facts: Facts, call: cst.Call) -> bool:
    return _existence_test(facts, call) is not None


def _existence_test(facts: Facts, call: cst.CSTNode) -> cst.If | None:
    """The `if not os.path.exists(folder):` around the call."""
    for owner in facts.tree.ancestors(call):
        if isinstance(owner, cst.If):
            return owner if facts.files.asking_in(owner.test) else None
        if isinstance(owner, cst.FunctionDef):
            return None
    return None


def _summary_writers(facts: Facts) -> Iterator[Wrap | Refusal]:
    for call in facts.files.summary_writers:
        if facts.files.is_chief_only(call):
            continue
        if not isinstance(call.func, cst.Attribute):
            yield Refusal(
                call,
                "every worker would write event files to this folder",
                "create the writer on the chief alone",
            )
            continue
        noop = f"{facts.source(call.func.value)}.create_noop_writer()"
        condition = f"if {facts.call('is_chief')}"
        line = facts.source(facts.tree.statement_of(call)).splitlines()[0]
        if isinstance(facts.tree.parent[call], cst.Assign) and len(line) + len(condition) + len(noop) > LONGEST_LINE:
            inner = facts.indent(call)
            yield Wrap(call, f"(\n{inner}", f"\n{inner}{condition}\n{inner}else {noop}\n)")
            continue
        opening, closing = ("", "") if isinstance(facts.tree.parent[call], cst.Assign) else ("(", ")")
        yield Wrap(call, opening, f" {condition} else {noop}{closing}")
