"""Give every worker its share of the training dataset, and the local batch size with it.

The workers together read each sample once an epoch, and their k-th local batches together are the k-th global batch.
Where a step behind the batches may look at several rows (it normalises by the batch, mixes or sorts it, or it cannot be
seen what it does), whole batches are made, and cut where training reads them. The shard stands after everything that
selects elements (take, skip, filter), after a `map` that remembers samples or draws random numbers for one after the
other, before an unseeded shuffle, and after a seeded one, where the global batches stay sample for sample those of the
run on one device. Where the pipeline cannot be cut in this file (its source or its batch
is elsewhere, or evaluation reads it too), each worker takes its part of every batch where training reads them: also of
those that a Keras Sequence, an image generator or a generator function hands out. Where the loss is a sum over the
batch, `loss="sum"` says so, since then a batch that does not split evenly is cut in another way. A pipeline that lets
elements come in any order (deterministic=False, `**options` that may hold it, or files that tensorflow_datasets
shuffles without a seed) gives them in one order on all workers. Data for evaluation stays whole. What several loops or
`fit` calls read is cut once, or for each of them where anything else reads it, too. As the last resort, where no
batches are seen in the whole program, or what is refused hangs on the split alone, every worker trains on all of the
data: the same model, and no faster, which the report tells.

before:
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shuffle(1000).batch(batch_size)
after:
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset, batch_size = lockstep.shard_and_rebatch_dataset(dataset, batch_size)
    dataset = dataset.shuffle(1000).batch(batch_size)

Leaves alone: datasets for validation, testing and prediction; what is sharded already.
Refuses: a dataset that is not batched; batches of batches, each of which is a step of its own; batches that have their
size built into the model or the training step; updates without batches beside others that are split, or on what an
unknown package gives; batches whose random numbers several threads draw, in an order of their own on each worker;
arguments and settings of datasets that are not seen, where they may free the order; batches with another axis than
that of the samples in front; values that each process has by itself (clocks, uuid, the system's randomness) in the
data, the model or the steps; a function that trains on one dataset and evaluates on another; what a step makes of all
rows of a batch before the model takes it; what says that every worker trains on all of the data, beside data that are
split.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from migrator.edits import AddArgument, InsertBefore, Refusal, Replace, Trust, Wrap
from migrator.facts.data.batch_shapes import DoubtfulSize
from migrator.facts.data.order import UnseededFiles
from migrator.facts.data.order_flags import FLAG, AnyOrder
from migrator.facts.data.pipeline_cuts import CutPipeline
from migrator.facts.data.sharding import CutBatches, unseen_batches
from migrator.facts.data.unseen_options import HiddenFlag
from migrator.facts.program.syntax import stands_alone
from migrator.facts.script import Facts
from migrator.facts.training.compiled_losses import cut_for_fit
from migrator.facts.training.reductions import GATHER, cut_option
from migrator.rule import Findings, rule

# They would take in what is written behind them.
_LOOSE = (cst.IfExp, cst.Lambda, cst.NamedExpr, cst.BooleanOperation)


@rule(needs=("all-reduce-gradients", "broadcast-randomness", "shard-made-tensors", "wrap-optimizer"))
def shard_dataset(facts: Facts) -> Findings:
    for call in facts.ports.said_whole if not facts.trains_whole else ():
        yield Refusal(
            call,
            "by this every worker trains on all of the data, and others of the program are split",
            "take noise=... away, and what is split elsewhere; or migrate what trains apart by itself",
            breaks_training=True,
        )
    for plan in facts.sharding.plans:
        if isinstance(plan, DoubtfulSize):
            continue  # see shard-made-tensors
        if isinstance(plan, Refusal):
            yield plan
        elif isinstance(plan, CutPipeline):
            yield from _cut_pipeline(facts, plan)
        else:
            yield _cut_batches(facts, plan)
    for update in facts.sharding.trained_whole:
        # What is gathered of a batch that every worker has as a whole holds it several times.
        gathered = [repair for repair in facts.reductions.repairs(update) if repair.form != "done"]
        is_agreed = facts.reductions.are_agreed(update) and not gathered
        if facts.sharding.splits_any and not is_agreed:
            yield unseen_batches(update, "while others of the program are split")
        elif facts.sharding.splits_any and facts.layer_noise.may_be:
            beside = "while others of the program are split, and layers that draw would not draw alike on all workers"
            yield unseen_batches(update, beside)
        else:
            yield Trust(
                update.call,
                "no batches are surely seen that this update trains on, so every worker trains on all of them: the "
                "same model as on one device, and no faster",
                "iterate over a tf.data.Dataset in this file, or give each worker its rows of every batch by hand "
                "with lockstep.shard_batch",
            )
    for end in facts.sharding.loose_ends:
        yield _tie_up(facts, end)
    for dataset, shuffle in facts.sharding.shuffled_by_time:
        line = facts.position(shuffle)[0]
        yield Trust(
            dataset,
            f"this repeats behind the shuffle of line {line} and is read anew each time: how far a worker has read "
            "ahead by then decides what comes next, so that all have to read alike fast",
            "take all batches from one `iter(dataset)`, made once, or leave out `.repeat()`",
        )


def _cut_pipeline(facts: Facts, plan: CutPipeline) -> Findings:
    size = facts.source(plan.batch.value)
    local = size if plan.keeps_batch_name else facts.fresh_name("local_batch_size", plan.statement)
    name = _name(facts, plan)
    arguments = [name, size, *_loss(facts, plan)]
    # Where its line is the block of a header, the statement is all of that: the cut stands inside.
    in_suite = any(isinstance(o, cst.SimpleStatementSuite) for o in _within(facts, plan))
    place = plan.prefix if in_suite else plan.statement
    before = ""
    if not isinstance(plan.prefix, (cst.Name, cst.Attribute)):
        inner = facts.indent(plan.prefix)
        opening, closing = ("", "") if stands_alone(facts.source(plan.prefix)) else (f"(\n{inner}", "\n)")
        comment = facts.comment_behind(plan.prefix)
        yield InsertBefore(place, (f"{name} = {opening}", plan.prefix, comment + closing))
        yield Replace(plan.prefix, (name,), comment)
    elif facts.source(plan.prefix) != name:
        if plan.condition is None:
            arguments[0] = facts.source(plan.prefix)
        else:  # what is not cut needs the name, too, that is read from here on
            before = f"{name} = {facts.source(plan.prefix)}\n"
        yield Replace(plan.prefix, (name,))
    cut = f"{name}, {local} = {facts.call('shard_and_rebatch_dataset', *arguments)}"
    if plan.condition is not None:
        cut = f"{before}if {plan.condition}:\n{facts.indent(plan.prefix)}{cut}"
    yield InsertBefore(place, (cut,))
    if not plan.keeps_batch_name:
        yield Replace(plan.batch.value, (local,))


def _within(facts: Facts, plan: CutPipeline) -> Iterator[cst.CSTNode]:
    """What stands around the prefix in its statement."""
    if facts.tree.statement_of(plan.prefix) is plan.statement:
        yield from itertools.takewhile(lambda owner: owner is not plan.statement, facts.tree.ancestors(plan.prefix))


def _name(facts: Facts, plan: CutPipeline) -> str:
    """The name that holds the cut dataset: what the statement assigns, or the local name that it returns more of."""
    if plan.target is not None:
        return facts.source(plan.target)
    start = plan.prefix
    while isinstance(start, cst.Call) and isinstance(start.func, cst.Attribute):
        start = start.func.value
    if isinstance(start, cst.Name):
        scope = facts.tree.scope_of(start)
        if scope.lookup(start.value) is scope:
            return start.value
    return facts.fresh_name("dataset", plan.prefix)


def _cut_batches(facts: Facts, plan: CutBatches) -> InsertBefore | Wrap:
    options = _loss(facts, plan)
    if plan.before is not None:
        name = facts.source(plan.dataset)
        return InsertBefore(plan.before, (f"{name} = {facts.call('shard_batches', name, *options)}",))
    return Wrap(plan.dataset, f"{facts.runtime}.shard_batches(", "".join(f", {option}" for option in options) + ")")


def _loss(facts: Facts, plan: CutBatches | CutPipeline) -> list[str]:
    """How the losses over these batches put their rows together, where it is not by a mean."""
    kinds: set[str] = set()
    for consumption in facts.sharding.feeding(plan):
        fits = [f for f in (*facts.training.fits, *facts.training.batch_fits) if f.call is consumption.reader]
        for fit in fits:
            kind = cut_for_fit(facts, fit)
            if kind == GATHER or not facts.training.trains_by_itself(fit.values):
                kinds.add(kind)
        for update in facts.training.updates:
            if any(c.dataset is consumption.dataset for c in facts.sharding.feeding_update(update)):
                kinds.add(facts.reductions.cut_for(update))
    return cut_option(kinds)


def _tie_up(facts: Facts, end: AnyOrder | HiddenFlag | UnseededFiles) -> Replace | Wrap | AddArgument:
    """Let the elements come in one order on all workers; on one device, as before."""
    if isinstance(end, HiddenFlag):
        opening, closing = ("(", ")") if isinstance(end.options, _LOOSE) else ("", "")
        ordered = f'{{**{opening}{facts.source(end.options)}{closing}, "{FLAG}": True}}'
        return Wrap(end.options, f"({opening}", f"{closing} if {facts.call('size')} == 1 else {ordered})")
    if isinstance(end, AnyOrder):
        size = facts.call("size")
        if end.is_written:
            return Replace(end.flag, (f"{size} == 1" if end.sloppy else f"{size} > 1",))
        opening, closing = ("(", ")") if isinstance(end.flag, _LOOSE) else ("", "")
        return Wrap(end.flag, opening, closing + (f" and {size} == 1" if end.sloppy else f" or {size} > 1"))
    seed = "shuffle_seed=0"
    return AddArgument(end.call, (f"read_config={end.package}.ReadConfig({seed})" if end.package else seed,))
