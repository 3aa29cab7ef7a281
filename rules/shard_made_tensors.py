"""Give every worker its rows of the tensors that a training step makes for a whole batch.

Noise for a generator, labels, first states of a recurrent layer: a step that makes them with the batch size of the
script meets batches of the local size. They are made as on one device, the same on all workers, and cut as the batch
is, so that the workers together train on exactly the numbers that one device draws. A size that is written out as a
number (`rng.randn(64, 100)` beside `batch(64)`) counts where a model takes what is drawn under a tape. So is what
NumPy's generators, and others that have a seed, draw for as many rows as a batch has: all workers draw for all of it,
and stay alike. Where a batch gets a new shape, the size in it becomes the local one. Where a tensor is only said to
have as many rows, as in the signature of a step (`tf.TensorSpec([64, 10])`), tf.ensure_shape or set_shape, that is left
open (`None`): a worker's part has fewer. Of the last batch, of which rows are looked at behind the loop
(`x[: BATCH_SIZE // 2]`), and of what the loop has made of it, those of all workers are put together; so are rows that
the training keeps for a report in a table for all samples (`predicted[i : i + n] = outputs`). Indices of constants that
look up in an embedding are told to be rows of samples (`lockstep.for_each_sample(tf.ones_like(words[:, 0]))`), or,
where a step runs eagerly, to be looked up once for all of them (`lockstep.for_all_samples(tf.range(length))`):
optimizers work on the gradient of each by itself.

before:
    noise = tf.random.normal([BATCH_SIZE, 100])
after:
    noise = lockstep.shard_batch(tf.random.normal([BATCH_SIZE, 100]))

Leaves alone: sizes that are taken from the batch itself, for zeros and ones, and for what TensorFlow's common generator
draws, of which each worker has numbers of its own; numbers of steps, which come from the global batch; what is made for
samples and plots.
Refuses: a size that does anything else in the step, or shapes what evaluation sees, too. Every worker then trains on
the whole batches, which is right but no faster.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal, Replace, Wrap
from migrator.facts.data.batch_shapes import DoubtfulSize, Made, Shown, Size
from migrator.facts.script import Facts
from migrator.facts.training.reductions import GATHER, cut_option
from migrator.insertion.repairs import PUT_TOGETHER, put_together, waits_alone
from migrator.rule import Findings, rule

_MAKING = frozenset({"tensorflow.constant", "tensorflow.convert_to_tensor"})
_FUNCTIONS = {Made: "shard_batch", Size: "local_batch_size", Shown: "unshard_batch"}


@rule(needs=("all-reduce-gradients", "wrap-optimizer"))
def shard_made_tensors(facts: Facts) -> Findings:
    yield from (plan for plan in facts.sharding.plans if isinstance(plan, DoubtfulSize))
    gathered = {o.node for repair in facts.repairs if repair.form in PUT_TOGETHER for o in repair.operands}
    for shape in facts.sharding.made:
        if isinstance(shape, Shown) and (
            shape.node in gathered or (shape.is_made and not facts.losses.is_rows(shape.node))
        ):
            continue
        node = _tensor_of(facts, shape.node) if isinstance(shape, Made) else shape.node
        yield Wrap(node, f"{facts.runtime}.{_FUNCTIONS[type(shape)]}(", _tail(_cuts(facts, shape)))
    cuts = {facts.reductions.cut_for(update) for update in facts.training.updates}
    for rows in facts.kept_rows:
        yield Wrap(rows, f"{facts.runtime}.unshard_batch(", _tail(cuts))
    yield from (Replace(size, ("None",)) for size in sorted(facts.losses.left_open, key=facts.tree.order.__getitem__))
    yield from _drawn(facts)
    yield from _looked_up(facts, {shape.node for shape in facts.sharding.made})


def _tensor_of(facts: Facts, made: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor that is made of a list at once: a list does not keep in a graph that it is a worker's."""
    argument = facts.tree.parent.get(made) if isinstance(made, cst.BinaryOperation) else None
    call = facts.tree.parent.get(argument) if isinstance(argument, cst.Arg) else None
    if not isinstance(call, cst.Call) or call.args[0] is not argument or argument.star:
        return made
    further = call.args[2 if len(call.args) > 1 and call.args[1].keyword is None else 1 :]  # behind the dtype
    is_made_once = all(a.keyword is not None and a.keyword.value in ("dtype", "name") for a in further)
    return call if is_made_once and not _MAKING.isdisjoint(facts.resolver.public(call.func)) else made


def _cuts(facts: Facts, made: Made | Size | Shown) -> set[str]:
    """How the rows are dealt out of the batches that it comes with."""
    read = facts.sharding.read_with[made.node]
    return {
        facts.reductions.cut_for(update)
        for update in facts.training.updates
        if any(c.dataset in read for c in facts.sharding.feeding_update(update))
    }


def _looked_up(facts: Facts, cut: set[cst.BaseExpression]) -> Findings:
    """What the runtime cannot see of indices that look up in a table: whether they are rows of the samples."""
    for function, found in (("for_each_sample", facts.losses.filled), ("for_all_samples", facts.losses.for_all)):
        here = [node for node in found if node in facts.tree.order and node not in cut]
        for node in sorted(here, key=facts.tree.order.__getitem__):
            yield Wrap(node, f"{facts.runtime}.{function}(", ")")
    for node in sorted(facts.losses.looked_up_in_two_ways, key=facts.tree.order.__getitem__):
        yield Refusal(
            node,
            "what is looked up here is one for each sample on some ways, and one for all samples on others, which "
            "optimizers like Adam do not work on alike",
            f"say so in the call that gives the latter, {facts.call('for_all_samples', 'tf.range(length)')}; or make "
            "the training step a tf.function",
            breaks_training=True,
        )


def _drawn(facts: Facts) -> Findings:
    """Random numbers for the rows of a worker: its own of those for the whole batch."""
    done: set[cst.CSTNode] = set()
    for repair in facts.repairs:
        if repair.form != "drawn":
            continue
        refusal = waits_alone(facts, repair)
        if refusal is not None:
            yield refusal
            continue
        yield Wrap(cst.ensure_type(repair.node, cst.Call), f"{facts.runtime}.shard_batch(", _tail({GATHER}))
        for operand in repair.operands:
            if operand.node not in done:
                done.add(operand.node)
                yield from put_together(facts, operand)


def _tail(cuts: set[str]) -> str:
    return "".join(f", {option}" for option in cut_option(cuts)) + ")"
