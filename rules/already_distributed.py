"""Report scripts whose way to many devices leads no further: two libraries at once, one NPU, TensorFlow 1 graphs.

A script on Horovod, tf.distribute or npu_device has its own way to many devices, and is left as it is: mixing in a
second library that also shards the data and reduces the gradients trains another model. What is missing in such a
script, or done wrong, the rules on ports tell. Graphs and sessions of TensorFlow 1 build their steps where this tool
does not see them.

before:
    hvd.init()
    optimizer = lockstep.distributed_optimizer(optimizer)
after:
    hvd.init()
    optimizer = lockstep.distributed_optimizer(optimizer)

Leaves alone: scripts that train on one device, also under a OneDeviceStrategy, also with a session that only sets GPUs
or threads up; scripts that are migrated already; scripts on Horovod, BytePS, npu_device, or a strategy of
tf.distribute's.
Refuses: a script that uses two such ways at once; Keras's distribution, which TensorFlow's backend does not know; a
strategy that is made out of sight; code for one NPU of which nothing is distributed; disabled eager execution,
placeholders, and sessions that may run something.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names import api
from migrator.facts.names.vocabulary import NPU
from migrator.facts.objects.values import External
from migrator.facts.script import Facts
from migrator.rule import Findings, audit

_PORT = "port it to TensorFlow 2 first (tf_upgrade_v2, then eager execution)"


@audit
def already_distributed(facts: Facts) -> Findings:
    yield from _mixed(facts)
    yield from _on_one_npu(facts)
    for scope in facts.ports.unseen_scopes:
        yield _refuse(
            scope,
            "this looks like the scope of a distribution strategy that is made elsewhere",
            "keep it so, or take the strategy out first",
        )
    for call in facts.tree.calls:
        if External("keras.distribution.set_distribution") in facts.resolver.values(call.func):
            reason = "on the TensorFlow backend this has no effect: one device trains"
            yield Refusal(call, reason, "take it out")
        is_setting = call in facts.sessions.of_settings
        if not is_setting and any(name in api.GRAPH_MODE for name in facts.resolver.public(call.func)):
            yield _refuse(call, "this script runs TensorFlow 1 graphs", _PORT)


def _mixed(facts: Facts) -> Findings:
    """The own library in a script that has another way to many devices."""
    own, other = facts.ports.own, facts.ports.toolkit
    if own not in facts.ports.imports or not facts.ports.is_foreign:
        return
    if any(c.toolkit is own for c in facts.ports.calls):
        name = other.name if other is not None and other is not own else "tf.distribute"
        yield _refuse(
            facts.ports.imports[own],
            f"this script is distributed by {name} already, and the two know nothing of each other",
            f"take {own.name} out, or {name}",
        )


def _on_one_npu(facts: Facts) -> Findings:
    if facts.ports.is_on_one_npu and facts.trains:
        yield _refuse(
            facts.ports.imports[NPU],
            "this script trains on one NPU: nothing in it is distributed",
            "migrate it with --target npu, or take npu_device out first",
        )


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
