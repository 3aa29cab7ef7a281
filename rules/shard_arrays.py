"""Give every worker its share of the arrays that `fit` trains on, and the local batch size.

`fit` cuts arrays into batches by itself, so each worker passes it every N-th sample and the N-th part of the batch
size, which becomes explicit where the script leaves it to Keras's default of 32. The arrays themselves stay whole:
evaluation, prediction and statistics see all samples. With `validation_split` the split point stays that of the
whole arrays.

before:
    model.fit(x_train, y_train, batch_size=128, epochs=5)
after:
    model.fit(*lockstep.shard_arrays(x_train, y_train), batch_size=lockstep.local_batch_size(128), epochs=5)

Leaves alone: datasets (see shard-dataset); validation data; arrays that are sharded already.
Refuses: data of which it cannot be seen whether they are arrays; a Sequence or generator; `fit(**config)`, where the
batch size cannot be seen; a batch size built into the model. Every worker then trains on the whole batches, which is
right but no faster.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import AddArgument, Refusal, Replace, Wrap
from migrator.facts import api
from migrator.facts.kinds import calls, is_call_of
from migrator.facts.obstacles import built_in_size, own_randomness
from migrator.facts.script import Facts
from migrator.facts.syntax import argument, has_unpacked_keywords
from migrator.facts.training import Fit
from migrator.facts.values import Element, External, Member, Object, Result, Value
from migrator.rule import Findings, rule

_DEFAULT_BATCH_SIZE = "32"  # what Keras takes for arrays
_SHARD = f"{api.RUNTIME}.shard_arrays"


@rule
def shard_arrays(facts: Facts) -> Findings:
    for fit in facts.training.fits:
        yield from _shard(facts, fit)


def _shard(facts: Facts, fit: Fit) -> Findings:
    call = fit.call
    if any(_is_sharded(facts, arg.value) for arg in call.args):
        return
    x, y = argument(call, "x", 0), argument(call, "y", 1)
    if x is None:
        yield Refusal(call, "what this `fit` trains on cannot be seen", "pass the data as x=... and y=... in the call")
        return
    if facts.pipelines.is_dataset(x.value):
        return
    obstacle = _obstacle(facts, call, x, y)
    if obstacle is not None:
        yield obstacle
        return
    yield from _wrap_arrays(facts, call, x, y)
    yield from _localise_batch_size(facts, call)


def _is_sharded(facts: Facts, node: cst.BaseExpression) -> bool:
    values = (v.of if isinstance(v, Element) else v for v in facts.resolver.values(node))
    return any(is_call_of(v, _SHARD) for v in values) or (
        isinstance(node, cst.Call) and any(v == External(_SHARD) for v in facts.resolver.values(node.func))
    )


def _obstacle(facts: Facts, call: cst.Call, x: cst.Arg, y: cst.Arg | None) -> Refusal | None:
    values = facts.resolver.values(x.value)
    if any(_hands_out_batches(facts, v) for v in values):
        return Refusal(
            x.value,
            "the batches of a Sequence or generator are not split yet",
            "use a tf.data.Dataset or arrays",
        )
    if has_unpacked_keywords(call):
        return Refusal(
            call,
            "the batch size may be among the unpacked arguments, where it cannot be seen",
            "pass batch_size=... in the call",
        )
    has_labels = y is not None and not (isinstance(y.value, cst.Name) and y.value.value == "None")
    if not has_labels and argument(call, "batch_size", 2) is None and not any(facts.kinds.is_array(v) for v in values):
        return Refusal(
            x.value,
            "whether these data are arrays or a dataset cannot be seen",
            "make the data in this file, or shard them by hand with lockstep.shard_arrays or lockstep.shard_batches",
            breaks_training=True,  # a source with its own randomness gives each worker batches of its own
        )
    batch_size = argument(call, "batch_size", 2)
    kept = facts.sharding.obstacles.kept_by_model(batch_size.value) if batch_size is not None else None
    return own_randomness(facts.tree, facts.resolver) or built_in_size(facts.tree) or kept


def _hands_out_batches(facts: Facts, value: Value) -> bool:
    if isinstance(value, Object):
        return facts.resolver.derives_from(value.of, lambda p: p in ("keras.utils.Sequence", "keras.utils.PyDataset"))
    if isinstance(value, Result) and isinstance(value.function, Member):
        return value.function.name in ("flow", "flow_from_directory", "flow_from_dataframe")
    return calls(value).startswith("keras.preprocessing.image.")


def _wrap_arrays(facts: Facts, call: cst.Call, x: cst.Arg, y: cst.Arg | None) -> Findings:
    split = argument(call, "validation_split")
    tail = f", validation_split={facts.source(split.value)}" if split is not None else ""
    opening, closing = f"{facts.runtime}.shard_arrays(", f"{tail})"
    if y is not None and x.keyword is None and y.keyword is None and _stand_alone(facts, call, x, y):
        yield Wrap(x.value, f"*{opening}", closing, last=y.value)
    else:
        yield Wrap(x.value, opening, closing)
        if y is not None:
            yield Wrap(y.value, opening, closing)
    weight = argument(call, "sample_weight")
    if weight is not None:
        yield Wrap(weight.value, opening, closing)


def _stand_alone(facts: Facts, call: cst.Call, x: cst.Arg, y: cst.Arg) -> bool:
    """Whether x and y are the only positional arguments, on one line: unpacked, they hide the positions of others."""
    positional = sum(arg.keyword is None for arg in call.args)
    return positional == 2 and facts.spans.position(x.value)[0] == facts.spans.position(y.value)[0]


def _localise_batch_size(facts: Facts, call: cst.Call) -> Findings:
    batch_size = argument(call, "batch_size", 2)
    if batch_size is None:
        yield AddArgument(call, (f"batch_size={facts.call('local_batch_size', _DEFAULT_BATCH_SIZE)}",))
    elif isinstance(batch_size.value, cst.Name) and batch_size.value.value == "None":
        yield Replace(batch_size.value, (facts.call("local_batch_size", _DEFAULT_BATCH_SIZE),))
    else:
        yield Wrap(batch_size.value, f"{facts.runtime}.local_batch_size(", ")")
