"""Give every worker its share of the arrays that `fit` trains on, and the local batch size.

`fit` cuts arrays into batches by itself, so each worker passes it every N-th sample and the N-th part of the batch
size, which becomes explicit where the script leaves it to Keras's default of 32. With the global batch size the
shares are made such that a last batch that does not split evenly still counts as on one device. The arrays
themselves stay whole: evaluation, prediction and statistics see all samples. With `validation_split` the split point
stays that of the whole arrays.

before:
    model.fit(x, y, batch_size=128, epochs=5)
after:
    model.fit(*lockstep.shard_arrays(x, y, batch_size=128), batch_size=lockstep.local_batch_size(128), epochs=5)

Leaves alone: datasets, Sequences and generators (see shard-dataset); validation data; arrays that are sharded already.
Refuses: data of which it cannot be seen whether they are arrays; `fit(**config)`, unless the dictionary is written out
in this file; a batch size built into the model. Every worker then trains on the whole batches, which is right but no
faster.
"""

from __future__ import annotations

import libcst as cst

from migrator.data_arguments import wrap_data
from migrator.edits import AddArgument, Refusal, Replace, Wrap
from migrator.facts import api
from migrator.facts.compiled_losses import cuts_of_own_step
from migrator.facts.kinds import is_call_of
from migrator.facts.obstacles import built_in_size
from migrator.facts.reductions import cut_option
from migrator.facts.script import Facts
from migrator.facts.syntax import argument, is_none
from migrator.facts.told_metrics import validates_in_batches
from migrator.facts.training import Fit
from migrator.facts.values import Element, External
from migrator.rule import Findings, rule

_DEFAULT_BATCH_SIZE = "32"  # what Keras takes for arrays
_SHARD = f"{api.RUNTIME}.shard_arrays"


@rule(needs=("all-reduce-gradients", "shard-made-tensors", "wrap-optimizer"))
def shard_arrays(facts: Facts) -> Findings:
    # Each once: two calls may unpack one dictionary.
    yield from dict.fromkeys(finding for fit in facts.training.fits for finding in _shard(facts, fit))


def _shard(facts: Facts, fit: Fit) -> Findings:
    call = fit.call
    x, y = argument(call, "x", 0), argument(call, "y", 1)
    if any(_is_sharded(facts, arg.value) for arg in (x, y, *call.args[:1]) if arg is not None):
        return
    if x is None:
        yield Refusal(call, "what this `fit` trains on cannot be seen", "pass the data as x=... and y=... in the call")
        return
    if facts.pipelines.is_read_in_batches(x.value):
        return  # batches already: see shard-dataset
    obstacle = _obstacle(facts, call, x, y)
    if obstacle is not None:
        yield obstacle
        return
    split = facts.keywords.given(call, "validation_split")
    tail = f", validation_split={facts.source(split)}" if split is not None else ""
    batch_size = _global_batch_size(facts, call)
    tail += batch_size
    # Means over uneven parts are weighed by their rows; sums and gathered losses of a step of the script's own are not.
    tail += "".join(f", {option}" for option in cut_option(cuts_of_own_step(facts, fit)))
    yield from wrap_data(facts, call, "shard_arrays", tail)
    yield from _localise_batch_size(facts, call)
    if validates_in_batches(facts, fit):
        yield from _keep_validation_batch_size(facts, fit, batch_size)


def _is_sharded(facts: Facts, node: cst.BaseExpression) -> bool:
    if facts.ranks.is_share(node):
        return True
    values = (v.of if isinstance(v, Element) else v for v in facts.resolver.values(node))
    return any(is_call_of(v, _SHARD) for v in values) or (
        isinstance(node, cst.Call) and any(v == External(_SHARD) for v in facts.resolver.values(node.func))
    )


def _obstacle(facts: Facts, call: cst.Call, x: cst.Arg, y: cst.Arg | None) -> Refusal | None:
    values = facts.resolver.values(x.value)
    if facts.keywords.hides_arguments(call) or _is_unpacked(facts, call, "sample_weight"):
        return Refusal(
            call,
            "the batch size may be among the unpacked arguments, where it cannot be seen",
            "pass batch_size=... in the call",
        )
    has_labels = y is not None and not (isinstance(y.value, cst.Name) and y.value.value == "None")
    if not has_labels and _batch_size(facts, call) is None and not any(facts.kinds.is_array(v) for v in values):
        return Refusal(
            x.value,
            "whether these data are arrays or a dataset cannot be seen",
            "make the data in this file, or shard them by hand with lockstep.shard_arrays or lockstep.shard_batches",
            breaks_training=True,  # a source with its own randomness gives each worker batches of its own
        )
    batch_size = _batch_size(facts, call)
    kept = facts.sharding.obstacles.kept_by_model(batch_size) if batch_size is not None else None
    return facts.sharding.obstacles.own_randomness or built_in_size(facts.tree) or kept


def _batch_size(facts: Facts, call: cst.Call) -> cst.BaseExpression | None:
    return facts.keywords.given(call, "batch_size", 2)


def _is_unpacked(facts: Facts, call: cst.Call, name: str) -> bool:
    return argument(call, name) is None and facts.keywords.given(call, name) is not None


def _global_batch_size(facts: Facts, call: cst.Call) -> str:
    """The batch size as one more argument, unless asking for it twice could give two answers."""
    batch_size = _batch_size(facts, call)
    if batch_size is None or is_none(batch_size):
        return f", batch_size={_DEFAULT_BATCH_SIZE}"
    if any(facts.tree.contains(batch_size, made) for made in facts.tree.calls):
        return ""
    return f", batch_size={facts.source(batch_size)}"


def _keep_validation_batch_size(facts: Facts, fit: Fit, batch_size: str) -> Findings:
    """Keras validates in batches of the size that it trains with, if it is not told another one."""
    if batch_size:
        yield AddArgument(fit.call, (f"validation_{batch_size.lstrip(', ')}",))
    else:
        yield Refusal(
            fit.call,
            "training is steered by validation metrics that depend on the size of the batches",
            "give it a name (`batch_size=...`), or pass validation_batch_size=... in the call",
            breaks_training=True,
        )


def _localise_batch_size(facts: Facts, call: cst.Call) -> Findings:
    batch_size = _batch_size(facts, call)
    if batch_size is None:
        yield AddArgument(call, (f"batch_size={facts.call('local_batch_size', _DEFAULT_BATCH_SIZE)}",))
    elif is_none(batch_size):
        yield Replace(batch_size, (facts.call("local_batch_size", _DEFAULT_BATCH_SIZE),))
    else:
        yield Wrap(batch_size, f"{facts.runtime}.local_batch_size(", ")")
