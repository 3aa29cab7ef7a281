"""Report a reduction over the workers whose result nobody uses.

A reduction gives the mean back and leaves what it is given as it was. Called as a statement of its own, or assigned
to a name that the update does not read, it costs its time and synchronises nothing: each worker applies its own
gradients, and the models part with the first step.

before:
    lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
after:
    lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Leaves alone: reductions whose result is read; a constant that is reduced so that all workers wait for each other.
Refuses: in lockstep, npu_device and Horovod alike, a reduction that is a statement of its own, and one of gradients
that are then applied as they were before it.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def dropped_reduction(facts: Facts) -> Findings:
    for site in facts.reduced.dropped if facts.trains else ():
        yield Refusal(
            site.call,
            "nothing uses the result of this reduction, so each worker goes on with its own values",
            "assign the result to the name that is read afterwards",
            breaks_training=True,
        )
