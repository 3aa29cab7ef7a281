"""Report gradients that are reduced over the workers twice.

A distributed optimizer reduces the gradients that it is given, and a distributed tape those that it computes.
Together, or with a reduction by hand beside them, all gradients cross the network twice; where the reduction is a
sum, they also come out as many times too large as there are workers.

before:
    optimizer = lockstep.distributed_optimizer(optimizer)
    gradients = lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
after:
    optimizer = lockstep.distributed_optimizer(optimizer)
    gradients = lockstep.all_reduce(gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Leaves alone: gradients that are reduced once, in whichever way; reductions of losses and metrics; reductions within a
process set; a choice between two ways.
Refuses: in lockstep, npu_device and Horovod alike, reduced gradients that a distributed optimizer applies, a reduction
of what is reduced already, and, where the library does not see to it by itself, an optimizer that is wrapped twice.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def reduced_twice(facts: Facts) -> Findings:
    for call in facts.reduced.doubled:
        yield Refusal(
            call,
            "these gradients are reduced over the workers twice",
            "keep one: the distributed optimizer, the distributed tape, or the reduction by hand",
            breaks_training=True,
        )
