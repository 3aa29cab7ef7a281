"""Files of which each worker has one of its own, or the chief alone: caches of datasets, event files; downloads that
the others find where the chief has put them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import libcst as cst

from migrator.edits import InsertBefore, Refusal, Replace, Wrap
from migrator.facts.script import Facts
from migrator.layout import LONGEST_LINE


def cache_files(facts: Facts) -> Iterator[Replace | Wrap]:
    """A file for each worker that datasets are cached in, which all write at a time."""
    mark = f"-{{{facts.runtime}.rank()}}-of-{{{facts.runtime}.size()}}"
    for name in facts.sharding.cache_files.to_be_named:
        if isinstance(name, cst.SimpleString) and len(name.quote) == 1 and not set(name.value) & set("{}\\"):
            yield Replace(name, (f"f{name.value[:-1]}{mark}{name.quote}",))
        else:
            yield Wrap(name, "", f' + f"{mark}"')


def chiefs_names(facts: Facts) -> Iterator[Wrap | InsertBefore | Refusal]:
    """What the chief has in the names of files that it writes and all read, where each worker has something of its own
    there."""
    for text in facts.worker_paths.chiefs:
        yield Wrap(text, f"{facts.runtime}.broadcast(", ")")
    for block, first in zip(facts.worker_paths.chiefs_folders, facts.worker_paths.first_in_folders):
        for name in (facts.source(item.asname.name) for item in block.items if item.asname is not None):
            yield InsertBefore(first, (f"{name} = {facts.call('broadcast', name)}",))
    for read in facts.worker_paths.lost_reads:
        yield Refusal(
            read,
            "this path is another one on each worker, and the chief alone writes there",
            "give it a fixed name",
            breaks_training=True,
        )


def summary_writers(facts: Facts) -> Iterator[Wrap | Refusal]:
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


def cached_downloads(facts: Facts) -> Iterator[InsertBefore | Refusal]:
    """The chief downloads first, the others find the file there."""
    for call in facts.files.cached_downloads:
        if facts.files.is_chief_only(call) or _follows_a_guarded_one(facts, call):
            continue
        inner = facts.indent(call)
        statement = facts.tree.statement_of(call)
        if _has_names_of_its_own(facts, call, statement):
            why = "all workers would download this file at a time; what it is given has its name in this line alone"
            yield Refusal(call, why, "download it in a loop, or a function, of its own")
            continue
        yield InsertBefore(statement, (f"if {facts.call('is_chief')}:\n{inner}", call))
        yield InsertBefore(statement, (facts.call("barrier"),))


def _has_names_of_its_own(facts: Facts, call: cst.Call, statement: cst.CSTNode) -> bool:
    """Whether it is given what a comprehension or a lambda in its statement names."""
    bound = (b for name in facts.tree.names_in(call) for b in facts.resolver.reaching(name))
    inside = (b.node for b in bound if b.kind in ("for", "param") and b.node is not statement)
    return any(facts.tree.contains(statement, node) for node in inside)


def _means_the_same(call: str, other: str) -> bool:
    """Whether two calls differ in nothing but line breaks."""
    return ast.dump(ast.parse(call, mode="eval")) == ast.dump(ast.parse(other, mode="eval"))


def _follows_a_guarded_one(facts: Facts, call: cst.Call) -> bool:
    """Whether the chief has made the same call before."""
    return any(
        facts.tree.order[other] < facts.tree.order[call]
        and facts.files.is_chief_only(other)
        and _means_the_same(facts.source(other), facts.source(call))
        for other in facts.files.cached_downloads
    )
