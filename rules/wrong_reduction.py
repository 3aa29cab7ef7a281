"""Report gradients that a port by hand puts together otherwise than their loss adds up over the workers.

Gradients of a mean over the samples of a worker are averaged, those of a sum over them are added up. The other way
round each update is as many times too large, or too small, as there are workers, and nothing shows it but the
weights.

before:
    loss = tf.reduce_sum(tf.square(model(x) - y)) / GLOBAL_BATCH_SIZE
    gradients = lockstep.all_reduce(tape.gradient(loss, model.trainable_variables))
after:
    loss = tf.reduce_sum(tf.square(model(x) - y)) / GLOBAL_BATCH_SIZE
    gradients = lockstep.all_reduce(tape.gradient(loss, model.trainable_variables))

Leaves alone: a loss of which it is not seen how it adds up; where the number of workers enters the loss, the
gradients or the batches, so that what the script means by it is not seen.
Refuses: lockstep.all_reduce(...) with the mean of what adds up as a sum, and with reduction="sum" of a mean.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Role
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.facts.training.gradients import Gradients
from migrator.facts.training.sites import Minimization, Update
from migrator.rule import Findings, audit

_OTHER = {"mean": "sum", "sum": "mean"}


@audit
def wrong_reduction(facts: Facts) -> Findings:
    own = {site.call for site in facts.ports.of(Role.REDUCE) if facts.ports.is_own(site)}
    told: set[cst.Call] = set()
    for update in facts.training.updates if own else ():
        for gradients in update.gradients if not isinstance(update, Minimization) else ():
            call = gradients.reduced_by[0] if len(set(gradients.reduced_by)) == 1 else None
            if call is None or call not in own or call in told or _counts_workers(facts, update, gradients):
                continue
            wanted = facts.reductions.kind(update, gradients)
            if wanted and _taken(call) == _OTHER[wanted]:
                told.add(call)
                yield Refusal(
                    call,
                    f"these gradients are put together by their {_taken(call)}, and their loss adds up over the "
                    f"workers as a {wanted}",
                    f'write lockstep.all_reduce(..., reduction="{wanted}")',
                    breaks_training=True,
                )


def _taken(call: cst.Call) -> str:
    given = argument(call, "reduction", 1)
    if given is None:
        return "mean"
    return str(given.value.evaluated_value) if isinstance(given.value, cst.SimpleString) else ""


def _counts_workers(facts: Facts, update: Update, gradients: Gradients) -> bool:
    """Whether the number of workers enters what is applied, or the loss that it comes from."""
    sizes = {site.call for site in facts.ports.of(Role.SIZE)}
    nodes = [arg.value for call in (update.call, *gradients.tape_calls) for arg in call.args]
    return not sizes.isdisjoint(facts.origins.behind_all(nodes))
