"""Put the workers' parts of a batch together where a loss or a layer works on the batch as a whole.

A root of a mean, a ratio of sums, a softmax over the samples, pairs of samples, what is sorted, shuffled or picked
among them, and what a function that nobody knows makes of a batch: none of it is the mean or the sum of what it is
on parts. There each worker is given all rows, or the mean or sum over all rows, and computes what one device would.
The gradients flow back through that: what each worker gets is its part of those of the whole batch. The forward pass
through the model, where the time goes, stays split. What `compile` is given as such a loss, Keras applies by itself:
lockstep.whole_batch gives it all rows. Of a model that `fit` trains, Keras takes a worker's rows: a layer that has made
something of all of them gives back its own by lockstep.shard_like. So does a call that rolls or sorts the rows, where
they then meet a worker's own in a model that also runs on these alone: negatives of the same batch. Where samples are
moved along their gradients of a mean, or penalised by them, the mean is over all rows, and lockstep.sample_gradients
makes them as large as on one device. Rows that are needed whole in several places, or in each turn of a loop, are put
together once, in front of these, or where a name gets them that is read for nothing else. A step that also trains on
what is made of all rows, such as hard samples of earlier batches, gets a worker's own of these by lockstep.shard_batch.

before:
    loss = contrastive_loss(model(images), labels)
after:
    loss = contrastive_loss(lockstep.all_gather(model(images)), lockstep.all_gather(labels))

Layers and models of other packages, and models that are loaded, are taken to work on each sample by itself, as those
of Keras do: the report names each as taken on trust, `--strict` refuses it, and a comment gives the author's word.

Where all that is trained on would be put together before a model or its weights work on any of it, every worker would
compute all rows: nothing is split then, and every worker trains on all of the data. Where that may not be written, the
report tells that the split gains nothing.

A call on what every worker has, of a model that is built by it or a function that evaluates, puts nothing together,
though rows are put together in there where it trains: lockstep.on_whole_data runs it as on one device.

Leaves alone: what works on each sample by itself, and means and sums over the batch.
Refuses: what also runs where a file is written, which the chief does alone. Where nothing can be written around what
is needed whole, the rule that owns the site refuses it: all-reduce-gradients or wrap-optimizer.
"""

from __future__ import annotations

import libcst as cst

from migrator.analysis.ops.call import AXES, SIZE
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.values import Operand, Repair
from migrator.edits import Refusal, Trust, Wrap
from migrator.facts.objects.values import Result
from migrator.facts.script import Facts
from migrator.findings.missing import told_of
from migrator.insertion.put_once import put_once
from migrator.insertion.repairs import PUT_TOGETHER, ahead_of_loops, cannot_be, put_together, waits_alone
from migrator.rule import Findings, rule
from migrator.trained_whole import AT_ONCE, BY_ROWS

# What is not seen of rows that are taken to stay apart, and what the user can do.
_UNSEEN = {
    SIZE: (
        "how many values each sample has is not seen: this must not put several samples into one row",
        "say that it does not (`# migrate: rows=0`), or give the number of rows (`tf.shape(x)[0]`) in place of -1",
    ),
    AXES: (
        "how many axes these have is not seen: `(samples, 1)` beside `(samples,)` pairs all samples",
        "make sure of it for both (`tf.ensure_shape(labels, [None])`), or say so where this gets a name "
        "(`# migrate: rows=0`)",
    ),
}
_NO_FASTER = "; so every worker works on all rows of each batch: the same model as on one device, and no faster"


@rule
def gather_batch(facts: Facts) -> Findings:
    for node, what in facts.losses.trusted.items():
        name = what or f"`{facts.source(node.func if isinstance(node, cst.Call) else node)}`"
        yield Trust(
            node,
            f"what {name} does with a batch is not seen; layers of Keras work on each sample by itself",
            "say that it does (`# migrate: rows=0`), or write it in this file",
        )
    for node, why in facts.put_together_at_once.items():
        yield Trust(node, f"{why}; {AT_ONCE}{_NO_FASTER}", BY_ROWS)
    for node, unseen in facts.losses.trusted_rows.items():
        yield Trust(node, *_UNSEEN[unseen])
    for call in facts.losses.whole_compiles:
        yield from _whole_batch(facts, cst.ensure_type(call, cst.Call))
    for call in facts.losses.undivided:
        yield Wrap(cst.ensure_type(call, cst.Call).func, f"{facts.runtime}.on_whole_data(", ")")
    operands: dict[Operand, None] = {}
    for repair in facts.repairs:
        if repair.form not in PUT_TOGETHER:
            continue
        refusal = cannot_be(facts, repair) or waits_alone(facts, repair)
        if refusal is not None:
            yield refusal
            continue
        yield from _of_missing_file(facts, repair)
        operands.update(dict.fromkeys(sorted(repair.operands, key=lambda o: facts.tree.order[o.node])))
    done: set[cst.CSTNode] = set()
    for nodes, edits in put_once(facts, operands):
        done.update(nodes)
        yield from edits
    for node, in_front in ahead_of_loops(facts, [o for o in operands if o.node not in done]):
        done.add(node)
        yield from in_front
    for operand in operands:
        if operand.node not in done:
            done.add(operand.node)
            yield from put_together(facts, operand)


def _of_missing_file(facts: Facts, repair: Repair) -> Findings:
    """Tells which file makes what is given all rows, as nothing is known of it: a model, perhaps. Whatever a mere
    function does with all rows, it does as on one device."""
    call = repair.node
    is_made = isinstance(call, cst.Call) and any(isinstance(v, Result) for v in facts.resolver.values(call.func))
    if repair.why == UNKNOWN and isinstance(call, cst.Call) and is_made:
        told = told_of(facts, call.func)
        if told:
            name = facts.source(call.func)
            reason = f"what `{name}` does is not seen, so it is given all rows of the batch, and must not train"
            yield Trust(call, f"{reason}; {told}", "give that file, too, or write it in this one")


def _has_all_rows(facts: Facts, compile_: cst.Call) -> bool:
    """Whether each worker has all rows in every `fit` of the model, since its data are refused: put together, each row
    would come once for each worker."""
    fits = {
        fit.call
        for fit in facts.training.fits
        if any(c.call is compile_ for c in facts.training.compiles_of(fit.values))
    }
    whole = {c.reader for c in facts.sharding.consumptions if facts.sharding.is_whole(c)}
    return not facts.cuts or (bool(fits) and fits <= whole)


def _whole_batch(facts: Facts, call: cst.Call) -> Findings:
    """Gives the loss of a `compile` all rows of the batch."""
    loss = facts.keywords.given(call, "loss", 1)
    if loss is None and facts.keywords.hides_arguments(call):
        return  # wrap-optimizer refuses that
    if loss is None:
        yield Refusal(
            call,
            "the loss of this model works on the batch as a whole, and where it is given cannot be seen",
            "pass it as loss=... in the call",
            breaks_training=True,
        )
    elif not (_has_all_rows(facts, call) or any(map(facts.kinds.is_whole_batch_loss, facts.resolver.values(loss)))):
        yield Wrap(loss, f"{facts.runtime}.whole_batch(", ")")
