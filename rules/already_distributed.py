"""Report scripts that train on many devices already, or on TensorFlow 1 graphs, and leave them alone.

Two libraries that both shard the data and both reduce the gradients train another model. A script on Horovod,
tf.distribute or npu_device has its own way to many devices; mixing in a second is never what its author wants. Graphs
and sessions of TensorFlow 1 build their steps where this tool does not see them.

before:
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = build_model()
after:
    strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = build_model()

Leaves alone: scripts that train on one device; scripts that are migrated already.
Refuses: every script that imports Horovod, BytePS or npu_device, makes a tf.distribute strategy, or disables eager
execution.
"""

from __future__ import annotations

import libcst as cst
import libcst.matchers as m

from migrator.edits import Refusal
from migrator.facts import api
from migrator.facts.kinds import origin
from migrator.facts.script import Facts
from migrator.facts.syntax import imported_modules
from migrator.facts.values import External
from migrator.rule import Findings, rule

_KEEP = "keep it so, or take the strategy out first"
_PORT = "port it to TensorFlow 2 first (tf_upgrade_v2, then eager execution)"


@rule
def already_distributed(facts: Facts) -> Findings:
    for node in facts.tree.imports:
        for module in imported_modules(node):
            library = api.DISTRIBUTION_LIBRARIES.get(module.split(".")[0])
            if library is not None:
                reason = f"this script is distributed by {library} already"
                yield _refuse(node, reason, f"keep it so, or take {library} out first")
    for call in facts.tree.calls:
        for value in facts.resolver.values(call.func):
            path = value.path if isinstance(value, External) else ""
            if api.STRATEGIES.match(path):
                yield _refuse(call, "this script is distributed by tf.distribute already", _KEEP)
            elif path in api.GRAPH_MODE:
                yield _refuse(call, "this script runs TensorFlow 1 graphs", _PORT)
            elif _is_scope(facts, call) and not api.STRATEGIES.match(origin(value)):
                yield _refuse(
                    call, "this looks like the scope of a distribution strategy that is made elsewhere", _KEEP
                )


def _is_scope(facts: Facts, call: cst.Call) -> bool:
    """`with strategy.scope():`"""
    is_with = isinstance(facts.tree.parent.get(call), cst.WithItem)
    return is_with and not call.args and m.matches(call.func, m.Attribute(attr=m.Name("scope")))


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
