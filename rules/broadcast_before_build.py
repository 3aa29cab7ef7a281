"""Report a broadcast of weights that do not exist yet.

A subclassed model, or a Sequential that is not told its input shape, makes its variables when it first sees data.
Until then the list of its variables is empty: a broadcast of it does nothing, says nothing, and every worker goes on
to draw random weights of its own. `lockstep.broadcast(model)`, given the model itself, waits for them.

before:
    model = keras.Sequential([keras.layers.Dense(10)])
    hvd.broadcast_variables(model.variables, root_rank=0)
after:
    model = keras.Sequential([keras.layers.Dense(10)])
    hvd.broadcast_variables(model.variables, root_rank=0)

Leaves alone: models with an input shape, or that are built or called before; a broadcast after the first step; models
of which it cannot be seen when they get their variables.
Refuses: in lockstep, npu_device and Horovod alike, the variables of a model that surely has none yet.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def broadcast_before_build(facts: Facts) -> Findings:
    for site, listed in facts.broadcasts.lists:
        if facts.unbuilt.at(listed.value, site.call):
            yield Refusal(
                listed,
                "this model has no variables yet, so nothing is broadcast",
                "build the model first, or broadcast after its first step",
                breaks_training=True,
            )
