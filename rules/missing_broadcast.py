"""Report trained models of a port by hand that do not start from the same weights on all workers.

Workers that start from different random weights apply equal updates to unequal models and never agree. Often it is
the second of two models that is forgotten, or the optimizer, which one worker alone has restored from a checkpoint.
A script that is migrated to `lockstep` gets what is missing (see broadcast-weights).

before:
    hvd.init()
    model = keras.Sequential([keras.layers.Dense(10)])
    model.compile(hvd.DistributedOptimizer(optimizer), "mse")
    model.fit(dataset, epochs=5)
after:
    hvd.init()
    model = keras.Sequential([keras.layers.Dense(10)])
    model.compile(hvd.DistributedOptimizer(optimizer), "mse")
    model.fit(dataset, epochs=5)

Leaves alone: models that are broadcast themselves, as part of another or by a callback; models that all workers load
from one file; models that a function of another file is given, which may broadcast them.
Refuses: on Horovod, BytePS, smdistributed and npu_device, a trained model that nothing broadcasts; a `fit` that is not
given the callback which broadcasts; an optimizer that one worker restores and keeps to itself.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Role
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def missing_broadcast(facts: Facts) -> Findings:
    library = facts.ports.foreign_library
    if library is None:
        return
    for node in facts.broadcasts.forgotten:
        if not facts.ranks.is_alone(node):
            yield Refusal(
                node,
                "nothing broadcasts this model, so each worker starts from weights of its own",
                f"add {library.spelling[Role.BROADCAST]}",
                breaks_training=True,
            )
    for call in facts.broadcasts.forgotten_state:
        yield Refusal(
            call,
            "one worker alone restores the optimizer's state here, and nothing broadcasts it",
            "broadcast the optimizer's variables together with the model's, or restore on all workers",
            breaks_training=True,
        )
