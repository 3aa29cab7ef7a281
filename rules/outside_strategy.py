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
handed to a function, a class or another file.
Refuses: a strategy of which the script uses neither scope nor `run`; a loop of its own whose steps no `run` calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.kinds import calls
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
    if len(made) != 1 or not facts.trains:
        return
    uses = list(_uses(facts, made[0]))
    if any(use not in _RUNNING | _OBSERVING for use in uses):
        return
    if "scope" not in uses and not _RUNNING.intersection(uses):
        reason = "nothing is made or run under this strategy, so one device trains"
        yield _refuse(made[0], reason, "build and compile the model in `with strategy.scope():`")
    elif not _RUNNING.intersection(uses):
        for update in facts.training.updates:
            if facts.training.step_class(update) is None:
                yield _refuse(
                    update.call, "no strategy.run calls this step", "call the function that holds it by strategy.run"
                )


def _uses(facts: Facts, made: cst.Call) -> Iterator[str]:
    """The attributes that the script takes of the strategy; an empty name where it does anything else with it."""
    parent = facts.tree.parent[made]
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
