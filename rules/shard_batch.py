"""Give every worker its rows of the batches that are handed to `train_on_batch`.

A script that makes its batches by itself (`x[i:i + n]`, `np.random.randint(0, len(x), n)`, noise for a GAN) makes the
same ones on every worker, since all draw from one common seed. So the script goes on to work with whole batches, and
each worker trains on its rows of them: sizes, labels and noise all stay as they are.

before:
    loss = model.train_on_batch(x_batch, y_batch)
after:
    loss = model.train_on_batch(*lockstep.shard_batch(x_batch, y_batch))

Leaves alone: `test_on_batch` and `predict_on_batch`; batches of a dataset that is sharded where it is read.
Refuses: unpacked arguments; random numbers that differ from worker to worker; a batch size built into the model.
"""

from __future__ import annotations

import libcst as cst

from migrator.data_arguments import wrap_data
from migrator.edits import Refusal
from migrator.facts.compiled_losses import cuts_for_fit
from migrator.facts.obstacles import built_in_size
from migrator.facts.reductions import cut_option
from migrator.facts.script import Facts
from migrator.facts.syntax import argument
from migrator.rule import Findings, rule

_WEIGHT_POSITION = 2  # of sample_weight in train_on_batch


@rule(needs=("all-reduce-gradients", "shard-made-tensors", "wrap-optimizer"))
def shard_batch(facts: Facts) -> Findings:
    for fit in facts.training.batch_fits:
        if not _is_sharded(facts, fit.call):
            refusal = _obstacle(facts, fit.call)
            if refusal is not None:
                yield refusal
            else:
                tail = "".join(f", {option}" for option in cut_option(cuts_for_fit(facts, fit)))
                cut = facts.sharding.minibatches.cut_for_fits
                yield from wrap_data(facts, fit.call, "shard_batch", tail, _WEIGHT_POSITION, cut)


def _is_sharded(facts: Facts, call: cst.Call) -> bool:
    """Whether the batch is this worker's own: cut in the call, or where the dataset is read that it comes from."""
    given = [arg.value for arg in call.args]
    if any(facts.ranks.depends_on_rank(n) or facts.minibatches.is_share_at(n, call) for n in given):
        return True
    cut = {id(c.reader) for c in facts.sharding.consumptions}
    read = facts.reading.around(call)
    return any(id(c.reader) in cut or facts.pipelines.history(c.dataset).is_sharded for c in read)


def _obstacle(facts: Facts, call: cst.Call) -> Refusal | None:
    if argument(call, "x", 0) is None or any(arg.star for arg in call.args):
        return Refusal(
            call,
            "what this `train_on_batch` trains on cannot be seen",
            "pass the batch as x=... and y=... in the call",
            breaks_training=True,  # nothing tells that all workers are given the same batch
        )
    return facts.sharding.obstacles.own_randomness or built_in_size(facts.tree)
