"""Give every worker the chief's weights before training starts.

Workers that start from different random weights apply equal updates to unequal models and never agree. All weights
are sent, the statistics of BatchNormalization among them, and a model that gets its variables only with its first
batch is synchronised at that moment. After a checkpoint is restored the weights are sent once more, so that a file
which only the chief can read is enough.

before:
    model = keras.Sequential([keras.layers.Dense(10)])
after:
    model = keras.Sequential([keras.layers.Dense(10)])
    lockstep.broadcast(model)

Leaves alone: models that are not trained in this file (a teacher, a loaded feature extractor that only predicts);
what is broadcast already; an image or another input that gradients are applied to.
Refuses: a model that no statement gives a name to, or whose origin is not in this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

import libcst as cst

from migrator.edits import InsertAfter, InsertFirst, Refusal
from migrator.facts import api
from migrator.facts.holders import Holder, Unheld

from migrator.facts.script import Facts
from migrator.facts.tree import Statement
from migrator.facts.values import External
from migrator.rule import Findings, rule

_ADVICE = "give the model a name where it is built in this file, or call lockstep.broadcast by hand"
# Sequential models are often built up in steps; the broadcast follows the last.
_BUILDING = frozenset({"add", "build", "pop"})


@rule
def broadcast_weights(facts: Facts) -> Findings:
    if not facts.trains:
        return
    holders = []
    for found in facts.trained.holders():
        if isinstance(found, Unheld):
            yield Refusal(found.node, f"what is trained here cannot be broadcast: {found.reason}", _ADVICE, True)
        else:
            holders.append(found)
    yield from _after_building(facts, holders)
    yield from _after_restoring(facts)


def _after_building(facts: Facts, holders: list[Holder]) -> Iterator[Union[InsertAfter, InsertFirst]]:
    groups: dict[tuple[cst.CSTNode, bool], list[Holder]] = {}
    for holder in holders:
        if holder.function is not None:
            if not _broadcasts(facts, facts.source(holder.target), holder.function.body):
                yield InsertFirst(holder.function, (facts.call("broadcast", facts.source(holder.target)),))
            continue
        block = facts.tree.block_of(holder.statement)  # type: ignore[arg-type]
        if not _broadcasts(facts, facts.source(holder.target), block):
            loose = _is_loose(facts, holder)
            groups.setdefault((block, True) if loose else (holder.target, False), []).append(holder)
    for (_, loose), group in groups.items():
        last = max(group, key=lambda h: facts.tree.order[h.statement])  # type: ignore[index]
        names = list(dict.fromkeys(facts.source(h.target) for h in group))
        values = f"[{', '.join(names)}]" if len(names) > 1 else names[0]
        after = last.statement if loose else _built(facts, last)
        yield InsertAfter(after, (facts.call("broadcast", values),))  # type: ignore[arg-type]


def _is_loose(facts: Facts, holder: Holder) -> bool:
    return any(facts.kinds.is_variable(v) for v in facts.resolver.values(holder.value))


def _built(facts: Facts, holder: Holder) -> Statement:
    """The statement after which the model is complete: the last `model.add(…)` or `model.build(…)` in its block."""
    statement: Statement = holder.statement  # type: ignore[assignment]
    block = facts.tree.block_of(statement)
    for call in facts.tree.calls:
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _BUILDING and func.value.deep_equals(holder.target):  # type: ignore[arg-type]
            outer = facts.tree.lift(call, block)
            same_flow = outer is not None and facts.tree.function_of(call) is facts.tree.function_of(holder.target)
            if outer is not None and same_flow and facts.tree.order[outer] > facts.tree.order[statement]:
                if not _is_rebound_between(facts, holder, outer):
                    statement = outer
    return statement


def _is_rebound_between(facts: Facts, holder: Holder, later: Statement) -> bool:
    """`model = A()` … `model = B()` … `model.add(…)`: the addition belongs to the second."""
    first = facts.tree.order[holder.statement]  # type: ignore[index]
    name = holder.target
    scope = facts.tree.scope_of(name)
    bindings = scope.bindings.get(name.value, []) if isinstance(name, cst.Name) else []
    return any(first < facts.tree.order[b.node] - 1 and facts.tree.order[b.node] < facts.tree.order[later]
               and b.target is not name for b in bindings)  # fmt: skip


def _after_restoring(facts: Facts) -> Iterator[InsertAfter]:
    trained = {(facts.source(h.target), h.statement) for h in facts.trained.holders() if isinstance(h, Holder)}
    names = {name for name, _ in trained}
    for call in facts.files.restores:
        models = list(dict.fromkeys(facts.source(m) for m in facts.files.restored(call) if _is_trained(facts, m, names)))
        statement = facts.tree.statement_of(call)
        if models and not _broadcasts(facts, models[0], facts.tree.block_of(statement), statement):
            values = f"[{', '.join(models)}]" if len(models) > 1 else models[0]
            if _is_before_training(facts, call):
                yield InsertAfter(call, (facts.call("broadcast", values),))


def _is_trained(facts: Facts, model: cst.BaseExpression, names: set[str]) -> bool:
    return any(isinstance(h, Holder) and facts.source(h.target) in names for h in facts.trained.of(model))


def _is_before_training(facts: Facts, call: cst.Call) -> bool:
    """Weights that are loaded after the last step only serve a test; they are loaded alike by all."""
    last = [site.call for site in (*facts.training.fits, *facts.training.updates)]
    function = facts.tree.function_of(call)
    return function is not None or any(facts.tree.order[site] > facts.tree.order[call] for site in last) or any(
        facts.tree.function_of(site) is not None for site in last
    )


def _broadcasts(facts: Facts, name: str, block: cst.CSTNode, since: Optional[Statement] = None) -> bool:
    """Whether the block broadcasts that name already, after the given statement."""
    start = facts.tree.order[since] if since is not None else -1
    for call in facts.tree.calls:
        if facts.tree.order[call] > start and facts.tree.lift(call, block) is not None and call.args:
            if any(v == External(f"{api.RUNTIME}.broadcast") for v in facts.resolver.values(call.func)):
                given = call.args[0].value
                parts = [e.value for e in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else [given]
                if any(facts.source(p).startswith(name) for p in parts):
                    return True
    return False


