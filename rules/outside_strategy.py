"""Report training that a strategy of tf.distribute does not reach.

A strategy spreads what is made in its scope, and what its `run` calls. A model that is made outside of any scope
trains on one device, and a step that is called by itself is computed on one device as well, or fails when it applies
its gradients to variables of all of them.

before:
    strategy = tf.distribute.MirroredStrategy()
    model = build_model()
    model.fit(dataset, epochs=5)
after:
    strategy = tf.distribute.MirroredStrategy()
    model = build_model()
    model.fit(dataset, epochs=5)

Leaves alone: scripts that enter the scope and train by `fit`, or whose steps `strategy.run` calls; a strategy that is
handed to a function, a class or another file where not all that it runs is seen.
Refuses: a strategy of which the script uses neither scope nor `run`; a loop of its own whose steps no `run` calls; a
`fit` of a model that is made outside of every scope, as in a script where only one branch uses a strategy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.values import External, calls, is_strategy
from migrator.facts.script import Facts
from migrator.rule import Findings, audit

_RUNNING = frozenset({"run", "experimental_run_v2", "call_for_each_replica", "experimental_run"})
_OBSERVING = frozenset({
    "num_replicas_in_sync", "scope", "cluster_resolver", "experimental_distribute_dataset", "reduce",
    "distribute_datasets_from_function", "experimental_distribute_datasets_from_function",
    "experimental_local_results", "gather", "experimental_between_graph",
})  # fmt: skip


@audit
def outside_strategy(facts: Facts) -> Findings:
    made = [c for c in facts.ports.strategies if any(calls(v).endswith("Strategy") for v in facts.resolver.values(c))]
    if not made or not facts.trains:
        return
    uses = [use for strategy in made for use in _uses(facts, strategy)]
    is_handed_on = any(use not in _RUNNING | _OBSERVING for use in uses)
    if is_handed_on and not _sees_all_runs(facts):
        return
    if not is_handed_on:
        if "scope" not in uses and not _RUNNING.intersection(uses):
            reason = "nothing is made or run under this strategy, so one device trains"
            yield _refuse(made[0], reason, "build and compile the model in `with strategy.scope():`")
            return
        yield from _fits_outside(facts)
    runs = [body for run in _runs(facts) for body in facts.training.reached_from(run)]
    for update in facts.training.updates:
        if facts.training.step_class(update) is None and not _is_in(facts, update.call, runs):
            yield _refuse(update.call, *_without_run(facts, update.call, made))


def _without_run(facts: Facts, step: cst.Call, made: Sequence[cst.Call]) -> tuple[str, str]:
    """The reason and the advice for a step that no strategy runs: of one that is made on a condition alone, the other
    way may be meant to train on one device."""
    arms = [o for o in facts.tree.ancestors(made[0]) if isinstance(o, (cst.If, cst.Else))]
    if len(made) > 1 or not arms or facts.tree.contains(arms[-1], step):
        return "no strategy.run calls this step", "call the function that holds it by strategy.run"
    line = facts.position(made[0])[0]
    return (
        f"a strategy is made on a condition, in line {line}, and no strategy.run calls this step, which trains on one "
        "device where the condition does not hold",
        "put what trains without the strategy into a file of its own, and migrate that",
    )


def _fits_outside(facts: Facts) -> Findings:
    scopes = [body for scope in facts.ports.scopes for body in facts.training.reached_from(_block(facts, scope))]
    for fit in (*facts.training.fits, *facts.training.batch_fits):
        if not _is_in(facts, fit.call, scopes) and _is_made_outside(facts, fit.model, scopes):
            reason = "the model of this call is made outside of the strategy's scope, so one device trains it"
            yield _refuse(fit.call, reason, "build and compile it in the scope, or migrate it in a file of its own")


def _block(facts: Facts, scope: cst.Call) -> cst.BaseSuite:
    owner = next(o for o in facts.tree.ancestors(scope) if isinstance(o, cst.With))
    return owner.body


def _is_in(facts: Facts, node: cst.CSTNode, bodies: Sequence[cst.CSTNode]) -> bool:
    return any(facts.tree.contains(body, node) for body in bodies)


def _is_made_outside(facts: Facts, model: cst.BaseExpression, scopes: Sequence[cst.CSTNode]) -> bool:
    """Whether every statement that makes the model is seen, and none of them runs in a scope."""
    holders = facts.trained.of(model)
    return bool(holders) and not any(
        not isinstance(holder, Holder) or _is_in(facts, holder.statement, scopes) for holder in holders
    )


def _runs(facts: Facts) -> Iterator[cst.Call]:
    """`strategy.run(step, …)`"""
    for call, runner in _named_as_runs(facts):
        if any(map(is_strategy, facts.resolver.values(runner))):
            yield call


def _sees_all_runs(facts: Facts) -> bool:
    """Whether a strategy runs steps, also where it is handed on, and nothing else may be a strategy that does."""
    runs = set(_runs(facts))
    return bool(runs) and all(
        call in runs or all(isinstance(v, External) for v in facts.resolver.values(runner))
        for call, runner in _named_as_runs(facts)
    )


def _named_as_runs(facts: Facts) -> Iterator[tuple[cst.Call, cst.BaseExpression]]:
    """The calls that may be such, and what each is called on."""
    for call in facts.tree.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _RUNNING:
            yield call, call.func.value


def _uses(facts: Facts, made: cst.Call) -> Iterator[str]:
    """The attributes that the script takes of the strategy; an empty name where it does anything else with it."""
    parent = facts.tree.parent[made]
    while isinstance(parent, (cst.IfExp, cst.BooleanOperation)):
        parent = facts.tree.parent[parent]
    if not isinstance(parent, cst.Assign) or not isinstance(parent.targets[0].target, cst.Name):
        yield ""
        return
    for name in facts.tree.names[parent.targets[0].target.value]:
        if name is parent.targets[0].target or not facts.tree.is_read(name):
            continue
        owner = facts.tree.parent[name]
        yield owner.attr.value if isinstance(owner, cst.Attribute) else ""


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
