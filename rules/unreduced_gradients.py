"""Report updates of a port by hand whose gradients are never averaged over the workers.

Each worker then applies the gradients of its own share of the data: N models are trained, each on a part of the
data, and one of them is saved. A script that is migrated to `lockstep` gets what is missing (see
all-reduce-gradients and wrap-optimizer); in another library it is for the author to add.

before:
    hvd.init()
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
after:
    hvd.init()
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

Leaves alone: gradients that a distributed tape, a distributed optimizer or a call reduces; updates that one worker
alone makes, or that are made where there is one worker alone; gradients and optimizers that come from elsewhere.
Refuses: on Horovod, BytePS, smdistributed and npu_device, an update with the gradients of a plain tape, and a `fit`
with a plain optimizer.
"""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Library, Role
from migrator.facts.program.syntax import argument, has_unpacked_keywords
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def unreduced_gradients(facts: Facts) -> Findings:
    library = facts.ports.foreign_library
    if library is None:
        return
    passed_by = {tape for site in facts.reduced.dropped for tape in facts.reduced.tapes(site)}
    for update in facts.training.updates:
        if facts.ranks.is_alone(update.call):
            continue
        for gradients in facts.reduced.unreduced(update):
            if not passed_by.intersection(gradients.tape_calls):
                yield _refuse(gradients.computed, library, Role.REDUCE)
                break
    for fit in facts.training.fits:
        if facts.training.trains_by_itself(fit.values) or facts.ranks.is_alone(fit.call):
            continue
        for compile_ in facts.training.compiles_of(fit.values):
            optimizer = argument(compile_.call, "optimizer", 0)
            if optimizer is None and not has_unpacked_keywords(compile_.call):
                yield _refuse(compile_.call, library, Role.OPTIMIZER)
            elif optimizer is not None and facts.reduced.is_surely_plain(optimizer.value):
                yield _refuse(optimizer.value, library, Role.OPTIMIZER)


def _refuse(node: cst.CSTNode, library: Library, missing: Role) -> Refusal:
    what = "these gradients are" if missing is Role.REDUCE else "what this optimizer applies is"
    return Refusal(
        node,
        f"{what} not averaged over the workers, so each trains a model of its own",
        f"add {library.spelling[missing]}",
        breaks_training=True,
    )
