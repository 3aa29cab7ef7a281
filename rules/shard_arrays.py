"""Give every worker its share of the arrays that `fit` trains on, and the local batch size.

`fit` cuts arrays into batches by itself, so each worker passes it every N-th sample and the N-th part of the batch
size, which becomes explicit where the script leaves it to Keras's default of 32. With the global batch size the
shares are made such that a last batch that does not split evenly still counts as on one device. The arrays
themselves stay whole: evaluation, prediction and statistics see all samples. With `validation_split` the split point
stays that of the whole arrays, and every worker validates on the whole part behind it. A batch size that may be asked
for only once (`next(sizes)`, a random number) gets a name in a line of its own before the call.

before:
    model.fit(x, y, batch_size=128, epochs=5)
after:
    model.fit(*lockstep.shard_arrays(x, y, batch_size=128), batch_size=lockstep.local_batch_size(128), epochs=5)

Leaves alone: datasets, Sequences and generators (see shard-dataset); validation data; arrays that are sharded already.
Refuses: data of which it cannot be seen whether they are arrays; `fit(**config)`, unless the dictionary is written
out in this file, or is the `**kwargs` of a function whose calls give nothing there that has to be cut; a batch size
built into the model; one that may be asked for only once where no line before the call can.
Every worker then trains on the whole batches, which is right but no faster.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import AddArgument, InsertBefore, Replace, Wrap
from migrator.facts.program.syntax import argument, is_none, stands_alone
from migrator.facts.script import Facts
from migrator.facts.training.compiled_losses import cuts_for_arrays
from migrator.facts.training.reductions import cut_option
from migrator.facts.training.sites import Fit
from migrator.facts.training.told_metrics import validates_in_batches
from migrator.insertion.data_arguments import wrap_data
from migrator.rule import Findings, rule

_DEFAULT_BATCH_SIZE = "32"  # what Keras takes for arrays


@rule(needs=("all-reduce-gradients", "broadcast-randomness", "shard-made-tensors", "wrap-optimizer"))
def shard_arrays(facts: Facts) -> Findings:
    # Each once: two calls may unpack one dictionary.
    fits = facts.training.fits if facts.cuts else ()
    yield from dict.fromkeys(finding for fit in fits for finding in _shard(facts, fit))


def _shard(facts: Facts, fit: Fit) -> Findings:
    call = fit.call
    arrays = facts.sharding.fit_arrays
    if arrays.are_cut_already(call):
        return
    x = argument(call, "x", 0)
    if x is not None and facts.pipelines.is_read_in_batches(x.value):
        return  # batches already: see shard-dataset
    obstacle = arrays.obstacle(call)
    if obstacle is not None:
        yield obstacle
        return
    named = {keyword: facts.fresh_variable(keyword, given) for keyword, given in arrays.to_name(call).items()}
    for keyword, given in arrays.to_name(call).items():
        yield from _give_name(facts, call, given, named[keyword])
        if keyword != "batch_size":
            yield Replace(given, (named[keyword],))
    split = facts.keywords.given(call, "validation_split")
    tail = f", validation_split={named.get('validation_split') or facts.source(split)}" if split is not None else ""
    batch_size = _global_batch_size(facts, call, named.get("batch_size"))
    tail += f", batch_size={batch_size}"
    # Means over uneven parts are weighed by their rows; sums and gathered losses of a step of the script's own are not.
    loss = "".join(f", {option}" for option in cut_option(cuts_for_arrays(facts, fit)))
    yield from wrap_data(facts, call, "shard_arrays", tail + loss, unpacked=facts.keywords.pair(call))
    yield from _localise_batch_size(facts, call, loss, named.get("batch_size"))
    if validates_in_batches(facts, fit):
        # Keras validates in batches of the size that it trains with, if it is not told another one.
        yield AddArgument(fit.call, (f"validation_batch_size={batch_size}",))


def _give_name(facts: Facts, call: cst.Call, given: cst.BaseExpression, name: str) -> Findings:
    """What may be asked for only once is so before the line."""
    # In the call an expression may go on in the next line.
    opening, closing = ("", "") if stands_alone(facts.source(given)) else ("(", ")")
    yield InsertBefore(call, (f"{name} = {opening}", given, closing))


def _global_batch_size(facts: Facts, call: cst.Call, name: str | None) -> str:
    batch_size = facts.sharding.fit_arrays.batch_size(call)
    if batch_size is None or is_none(batch_size):
        return _DEFAULT_BATCH_SIZE
    return name or facts.source(batch_size)


def _localise_batch_size(facts: Facts, call: cst.Call, loss: str, name: str | None) -> Findings:
    batch_size = facts.sharding.fit_arrays.batch_size(call)
    if batch_size is None:
        yield AddArgument(call, (f"batch_size={facts.call('local_batch_size', _DEFAULT_BATCH_SIZE + loss)}",))
    elif is_none(batch_size) or name is not None:
        yield Replace(batch_size, (facts.call("local_batch_size", (name or _DEFAULT_BATCH_SIZE) + loss),))
    else:
        yield Wrap(batch_size, f"{facts.runtime}.local_batch_size(", f"{loss})")
