"""Give every worker its rows of the batches that are handed to `train_on_batch`.

A script that makes its batches by itself (`x[i:i + n]`, `np.random.randint(0, len(x), n)`, noise for a GAN) makes the
same ones on every worker, since all draw from one common seed. So the script goes on to work with whole batches, and
each worker trains on its rows of them: sizes, labels and noise all stay as they are.

before:
    loss = model.train_on_batch(x_batch, y_batch)
after:
    loss = model.train_on_batch(*lockstep.shard_batch(x_batch, y_batch))

Leaves alone: `test_on_batch` and `predict_on_batch`; batches of a dataset that is sharded where it is read.
Refuses: unpacked arguments of which it cannot be seen how many there are; random numbers that differ from worker to
worker; a batch size built into the model.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.obstacles import built_in_size
from migrator.facts.program.syntax import argument, only_unpacked
from migrator.facts.script import Facts
from migrator.facts.training.compiled_losses import cuts_for_fit
from migrator.facts.training.reductions import cut_option
from migrator.insertion.data_arguments import wrap_data
from migrator.rule import Findings, rule

_WEIGHT_POSITION = 2  # of sample_weight in train_on_batch


@rule(needs=("all-reduce-gradients", "broadcast-randomness", "shard-made-tensors", "wrap-optimizer"))
def shard_batch(facts: Facts) -> Findings:
    for fit in facts.training.batch_fits if facts.cuts else ():
        if not _is_sharded(facts, fit.call):
            refusal = _obstacle(facts, fit.call)
            if refusal is not None:
                yield refusal
            else:
                tail = "".join(f", {option}" for option in cut_option(cuts_for_fit(facts, fit)))
                cut = facts.sharding.minibatches.cut_for_fits
                unpacked = _unpacked(facts, fit.call)
                yield from wrap_data(facts, fit.call, "shard_batch", tail, _WEIGHT_POSITION, cut, unpacked)


def _is_sharded(facts: Facts, call: cst.Call) -> bool:
    """Whether the batch is this worker's own: cut in the call, or where the dataset is read that it comes from."""
    given = [arg.value for arg in call.args]
    if any(facts.ranks.depends_on_rank(n) or facts.minibatches.shares.is_share_at(n, call) for n in given):
        return True
    cut = {id(c.reader) for c in facts.sharding.consumptions}
    read = facts.reading.around(call)
    return any(id(c.reader) in cut or facts.pipelines.history(c.dataset).is_sharded for c in read)


def _unpacked(facts: Facts, call: cst.Call) -> cst.Arg | None:
    """`*batch`, where it surely is x, y and perhaps the weights: one array alone is cut to no list that could be
    unpacked, and what Keras takes behind the weights has no rows."""
    only = only_unpacked(call)
    is_batch = only is not None and facts.losses.number_of_items(only.value) in (2, _WEIGHT_POSITION + 1)
    return only if is_batch else None


def _obstacle(facts: Facts, call: cst.Call) -> Refusal | None:
    unpacked = _unpacked(facts, call)
    is_given = argument(call, "x", 0) is not None or unpacked is not None
    if not is_given or any(arg.star and arg is not unpacked for arg in call.args):
        return Refusal(
            call,
            "what this `train_on_batch` trains on cannot be seen",
            "pass the batch as x=... and y=... in the call",
            breaks_training=True,  # nothing tells that all workers are given the same batch
        )
    return facts.sharding.obstacles.own_randomness or built_in_size(facts.tree)
