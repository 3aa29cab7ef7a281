"""Give every worker its rows of the batches that a loop cuts out of arrays by itself.

A script that makes its batches by itself (slices, permutations and random indices, a replay buffer, a loader class, a
generator) makes the same ones on every worker, since all draw from one common seed. So it goes on to work with whole
batches up to the training step, and each worker trains on its rows of them. So do functions that train on one dataset
and evaluate on another. That the workers hold the same batches is compared while they train. Numbers in a dictionary or
a record of rows are those of the whole batch: `lockstep.shard_batch(batch, whole=["weight"])`.

before:
    for start in range(0, len(x), batch_size):
        chosen = order[start : start + batch_size]
        loss = train_step(x[chosen], y[chosen])
after:
    for start in range(0, len(x), batch_size):
        chosen = order[start : start + batch_size]
        loss = train_step(*lockstep.shard_batch(x[chosen], y[chosen]))

Leaves alone: steps that read their batches from a dataset or generator (see shard-dataset); evaluation; a number beside
a batch, as the label of a bag of samples.
Refuses: a step that uses the size of the batch in a shape; one that needs all rows of all that it is given. Where it is
not certain that what the step reads are batches (single samples, a state that goes on from step to step, what no model
takes as it is), shard-dataset refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.edits import InsertBefore, Refusal, Wrap
from migrator.facts.data.batch_cuts import Cut, CutArguments, CutExpressions, CutNames
from migrator.facts.script import Facts
from migrator.facts.training.compiled_losses import cuts_for_fit
from migrator.facts.training.reductions import cut_option
from migrator.rule import Findings, rule


@rule(needs=("all-reduce-gradients", "broadcast-randomness", "shard-made-tensors", "wrap-optimizer"))
def shard_minibatches(facts: Facts) -> Findings:
    for plan in facts.sharding.minibatch_plans:
        if isinstance(plan, Refusal):
            yield plan
            continue
        if any(map(facts.losses.is_object, _read(facts, plan))):
            why = "what the rows are of an object of the script's class is not seen"
            yield Refusal(plan.place, why, "make it a dataclass or a dictionary of arrays", breaks_training=True)
            continue
        if _needs_all(facts, plan):
            yield Refusal(plan.place, "each worker needs all rows of this batch", "put them together inside the step")
            continue
        cut = list(_cut(facts, plan))
        if not cut:
            yield Refusal(plan.place, "these are single numbers, and no batches", "let each step take several samples")
        yield from cut


def _needs_all(facts: Facts, plan: Cut) -> bool:
    """Whether all that is cut would be put together at once, wherever it is read."""
    read = [e for e in _read(facts, plan) if not isinstance(plan, CutNames) or facts.losses.has_rows(e)]
    return bool(read) and _gathered(facts).issuperset(read)


def _read(facts: Facts, plan: Cut) -> Sequence[cst.BaseExpression]:
    """What is cut, wherever it is read."""
    if isinstance(plan, CutNames):
        return [*facts.minibatches.reads_behind(plan)]
    return plan.expressions if isinstance(plan, CutExpressions) else [arg.value for arg in plan.batches]


def _gathered(facts: Facts) -> set[cst.CSTNode]:
    return {operand.node for repair in facts.repairs for operand in repair.operands if operand.how == "gather"}


def _cut(facts: Facts, plan: Cut) -> Findings:
    """Cuts what has rows: a number beside it, as the label of a bag of samples, is that of all of them."""
    if isinstance(plan, CutNames):
        reads = [(read.value, facts.losses.has_rows(read)) for read in facts.minibatches.reads_behind(plan)]
        batches = {name for name, has_rows in reads if has_rows}
        numbers = {name for name, has_rows in reads if has_rows is False} - batches
        names = ", ".join(dict.fromkeys(name.value for name in plan.names if name.value not in numbers))
        if names:
            share = facts.call("shard_batch", names, *_options(facts, plan, *facts.minibatches.reads_behind(plan)))
            yield InsertBefore(plan.before, (f"{names} = {share}",))
    elif isinstance(plan, CutArguments):
        yield from _cut_arguments(facts, plan)
    else:
        yield from _wrap_each(facts, plan, [e for e in plan.expressions if facts.losses.has_rows(e) is not False])


def _cut_arguments(facts: Facts, plan: CutArguments) -> Findings:
    batches = tuple(arg for arg in plan.batches if facts.losses.has_rows(arg.value) is not False)
    one_by_one = not _gathered(facts).isdisjoint(arg.value for arg in batches)
    if len(batches) > 1 and not one_by_one and _stand_together(plan.call, batches):
        opening, closing = _call_around(facts, plan, *(arg.value for arg in batches))
        yield Wrap(batches[0].value, f"*{opening}", closing, last=batches[-1].value)
    else:
        yield from _wrap_each(facts, plan, [arg.value for arg in batches])


def _stand_together(call: cst.Call, batches: tuple[cst.Arg, ...]) -> bool:
    """Whether the batches are positional arguments, one after the other, and each of them one."""
    first = call.args.index(batches[0])
    together = tuple(call.args[first : first + len(batches)]) == batches
    return together and not any(arg.keyword or arg.star for arg in batches)


def _wrap_each(facts: Facts, plan: Cut, batches: Sequence[cst.BaseExpression]) -> Findings:
    for batch in batches:
        yield Wrap(batch, *_call_around(facts, plan, batch))


def _call_around(facts: Facts, plan: Cut, *batches: cst.BaseExpression) -> tuple[str, str]:
    options = "".join(f", {option}" for option in _options(facts, plan, *batches))
    return f"{facts.runtime}.shard_batch(", f"{options})"


def _options(facts: Facts, plan: Cut, *batches: cst.BaseExpression) -> list[str]:
    """A loss that is a mean may see some rows twice, others must see each once. Numbers in the batches stay."""
    kinds = {facts.reductions.cut_for(update) for update in plan.updates}
    for fit in plan.fits if isinstance(plan, CutNames) else ():
        kinds |= cuts_for_fit(facts, fit)
    whole = dict.fromkeys(name for batch in batches for name in facts.losses.whole_in(batch))
    return [*cut_option(kinds), *([f"whole={_texts([*whole])}"] if whole else [])]


def _texts(names: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"
