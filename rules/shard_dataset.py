"""Give every worker its share of the training dataset, and the local batch size with it.

The workers together read each sample once an epoch, and their k-th local batches together are the k-th global batch.
The shard stands after everything that selects elements (take, skip, filter), before an unseeded shuffle, and after a
seeded one, where the global batches stay sample for sample those of the run on one device. Where the pipeline cannot
be cut in this file (its source or its batch is elsewhere, or evaluation reads it too), each worker takes its part
of every batch where training reads them. Data for evaluation stays whole.

before:
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shuffle(1000).batch(batch_size)
after:
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset, batch_size = lockstep.shard_and_rebatch_dataset(dataset, batch_size)
    dataset = dataset.shuffle(1000).batch(batch_size)

Leaves alone: datasets for validation, testing and prediction; what is sharded already.
Refuses: a dataset that is not batched or batched twice; batches that have their size built into the model or the
training step; updates without a dataset. Every worker then trains on the whole batches, which is right but no faster.
"""

from __future__ import annotations

import ast

import libcst as cst

from migrator.edits import InsertBefore, Refusal, Replace, Wrap
from migrator.facts.script import Facts
from migrator.facts.sharding import CutBatches, CutPipeline
from migrator.rule import Findings, rule


@rule
def shard_dataset(facts: Facts) -> Findings:
    for plan in facts.sharding.plans:
        if isinstance(plan, Refusal):
            yield plan
        elif isinstance(plan, CutPipeline):
            yield from _cut_pipeline(facts, plan)
        else:
            yield _cut_batches(facts, plan)


def _cut_pipeline(facts: Facts, plan: CutPipeline) -> Findings:
    size = facts.source(plan.batch.value)
    local = size if plan.keeps_batch_name else facts.fresh_name("local_batch_size")
    name = _name(facts, plan)
    arguments = [name, size, *(["drop_remainder=True"] if plan.drop_remainder else [])]
    if not isinstance(plan.prefix, (cst.Name, cst.Attribute)):
        inner = facts.tree.module.default_indent
        opening, closing = ("", "") if _stands_alone(facts.source(plan.prefix)) else (f"(\n{inner}", "\n)")
        yield InsertBefore(plan.statement, (f"{name} = {opening}", plan.prefix, closing))
        yield Replace(plan.prefix, (name,))
    elif facts.source(plan.prefix) != name:
        arguments[0] = facts.source(plan.prefix)
        yield Replace(plan.prefix, (name,))
    yield InsertBefore(plan.statement, (f"{name}, {local} = {facts.call('shard_and_rebatch_dataset', *arguments)}",))
    if not plan.keeps_batch_name:
        yield Replace(plan.batch.value, (local,))


def _name(facts: Facts, plan: CutPipeline) -> str:
    """The name that holds the cut dataset: what the statement assigns, or the local name that it returns more of."""
    if plan.target is not None:
        return facts.source(plan.target)
    if isinstance(plan.prefix, cst.Name):
        scope = facts.tree.scope_of(plan.prefix)
        if scope.lookup(plan.prefix.value) is scope:
            return plan.prefix.value
    return facts.fresh_name("dataset")


def _stands_alone(expression: str) -> bool:
    """Whether the expression needs no parentheses as the right side of an assignment, however its lines break."""
    try:
        return len(ast.parse(f"_ = {expression}").body) == 1
    except SyntaxError:
        return False


def _cut_batches(facts: Facts, plan: CutBatches) -> InsertBefore | Wrap:
    if plan.before is not None:
        name = facts.source(plan.dataset)
        return InsertBefore(plan.before, (f"{name} = {facts.call('shard_batches', name)}",))
    return Wrap(plan.dataset, f"{facts.runtime}.shard_batches(", ")")
