"""Report ports by hand in which every worker trains on all of the data, in the same order.

N workers that all read the same batches compute the same gradients N times: the job costs N times as much and is no
faster than one device. Where the script takes the global batch apart otherwise, by the rank, the data are cut.

before:
    npu.open().as_default()
    model.fit(dataset.batch(batch_size), epochs=5)
after:
    npu.open().as_default()
    model.fit(dataset.batch(batch_size), epochs=5)

Leaves alone: data that depend on the rank in any way; data that are made or shuffled at random, of which each worker
of a Horovod script draws others; data whose source is not seen.
Refuses: on Horovod, BytePS and smdistributed, a dataset that is neither cut nor shuffled; on npu_device, where the
batch size is that of all workers, any data that are not cut.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Library, Role
from migrator.facts.objects.kinds import origin
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.rule import Findings, audit

_RANDOM = ("tensorflow.random.", "numpy.random.", "random.", "keras.random.")
# They give elements in an order of their own, or leave the way that they take open.
_FREE = frozenset({"shuffle", "apply", "interleave", "rejection_resample"})


@audit
def uncut_data(facts: Facts) -> Findings:
    library = facts.ports.foreign_library
    if library is None or facts.shares.found or not facts.cuts:
        return
    for data in _trained_on(facts, library):
        if facts.ranks.roles(data) or facts.ranks.is_alone(data) or _is_random(facts, data):
            continue
        if not library.shares_batch and not _has_fixed_order(facts, data):
            continue
        yield Refusal(
            data,
            "every worker trains on all of these data",
            f"give each its share: {library.spelling[Role.SHARD]}",
            breaks_training=True,
        )


def _trained_on(facts: Facts, library: Library) -> Iterator[cst.BaseExpression]:
    yield from facts.step_counts.trained_on
    for fit in facts.training.fits if library.shares_batch else ():
        x = argument(fit.call, "x", 0)
        values = facts.resolver.values(x.value) if x is not None else ()
        if x is not None and values and all(map(facts.kinds.is_array, values)):
            yield x.value


def _is_random(facts: Facts, data: cst.BaseExpression) -> bool:
    """Whether the data are drawn, or come from where it is not seen that they are not."""
    if facts.pipelines.is_dataset(data) and facts.pipelines.history(data).unseen:
        return True
    return any(
        origin(v).startswith(_RANDOM)
        for part in facts.origins.behind(data)
        if isinstance(part, cst.Call)
        for v in facts.resolver.values(part.func)
    )


def _has_fixed_order(facts: Facts, data: cst.BaseExpression) -> bool:
    """Whether a dataset gives the same elements in the same order on all workers."""
    pipeline = facts.pipelines.history(data)
    source = pipeline.source
    is_listed = source is not None and not facts.shuffles.shuffles(source, pipeline.source_path)
    return is_listed and not any(step.method in _FREE for step in pipeline.steps)
