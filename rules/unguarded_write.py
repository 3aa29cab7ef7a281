"""Report files that every worker of a port by hand writes, all to one path.

N processes that write one checkpoint at a time destroy it, and N event files of one run make TensorBoard draw each
curve N times. All workers hold the same weights: one of them is enough to write. A script that is migrated to
`lockstep` gets its guards (see write-once and synchronise-callbacks).

before:
    hvd.init()
    model.fit(dataset, callbacks=[keras.callbacks.ModelCheckpoint("best.keras")])
    model.save("model.keras")
after:
    hvd.init()
    model.fit(dataset, callbacks=[keras.callbacks.ModelCheckpoint("best.keras")])
    model.save("model.keras")

Leaves alone: what is written under a condition on the rank, or by a function that is called under one; paths that
have the rank in them; conditions and functions of which it cannot be seen who runs them.
Refuses: on Horovod, BytePS, smdistributed and npu_device, models, checkpoints, arrays, plots, tables, logs, event files
and the callbacks of Keras that write such.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.values import calls
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def unguarded_write(facts: Facts) -> Findings:
    library = facts.ports.foreign_library
    if library is None or not facts.trains or facts.ports.launches:
        return
    for call in _writing(facts):
        surely_runs = facts.ranks.runs_everywhere(call)
        if surely_runs and not any(_names_rank(facts, arg.value) for arg in call.args):
            yield Refusal(
                call,
                "every worker writes this, all to one path",
                f"let one write it: {library.spelling[Role.RANK]}",
            )


def _writing(facts: Facts) -> Iterator[cst.Call]:
    for write in facts.files.writes:
        if isinstance(write.node, cst.Call):
            yield write.node
    yield from facts.files.summary_writers
    yield from facts.files.opened
    for call in facts.tree.calls:
        if any(calls(v) in api.WRITING_CALLBACKS for v in facts.resolver.values(call)):
            yield call


def _names_rank(facts: Facts, arg: cst.BaseExpression) -> bool:
    """Whether the argument, be it not what is written, is another on each worker."""
    values = facts.resolver.values(arg)
    is_data = any(facts.kinds.has_weights(v) or facts.kinds.is_array(v) for v in values)
    return (not is_data or isinstance(arg, cst.FormattedString)) and facts.ranks.depends_on_rank(arg)
