"""The calls of lockstep, Horovod and the like: scripts that are ported already, or in parts, are read too."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import lookups, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.python.iterating import listed
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import LOCAL, REPLICATED, ROWS, Sharded
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, Made, Repair, Site, Value
from migrator.facts.names import vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


class Size(Enum):
    """What `lockstep.size()` is known by: no text, for which a string would be taken."""

    WORKERS = "the number of workers"


SIZE = Size.WORKERS
WHOLE_BATCH = "lockstep.whole_batch"
ON_WHOLE_DATA = "lockstep.on_whole_data"
SHARD_LIKE = "lockstep.shard_like"
UNSHARD_BATCH = "lockstep.unshard_batch"
WHOLE_BATCH_METRIC = "lockstep.whole_batch_metric"
METRIC_RESULT = "lockstep.metric_result"
SAMPLE_GRADIENTS = "lockstep.sample_gradients"
# So many containers within one another are gone through.
_DEEPEST = 4


def call(run: Run, path: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """What a call of a library for many processes gives; None for other calls."""
    first = args.positional[0] if args.positional else NUMBER
    if path == WHOLE_BATCH:
        made = Made(WHOLE_BATCH, Site(node, ()))
        run.heap.store(made, "loss", first)
        return v.of(made)
    if path == ON_WHOLE_DATA:
        made = Made(ON_WHOLE_DATA, Site(node, ()))
        run.heap.store(made, "function", first)
        return v.of(made)
    if path == WHOLE_BATCH_METRIC:  # the same on all workers, as a mean is that they average
        return v.of(Made("keras.metrics.Mean", Site(node, ())))
    if path == UNSHARD_BATCH or (path.endswith(".all_gather") and vocabulary.toolkit_of(path) is not None):
        return _put_together(run, _held(run, first), node, whole=True)
    if path == METRIC_RESULT:  # one number, or several, whatever the metric was given
        return Value(Data(needs=frozenset((Repair(node, frozenset(), "", form="done"),))))
    if path == SAMPLE_GRADIENTS:
        return v.mapped(first, _of_one_process)
    if path in (lookups.FOR_EACH_SAMPLE, lookups.FOR_ALL_SAMPLES):
        return lookups.told(first)
    if path == SHARD_LIKE:
        return v.mapped(first, lambda d: replace(d, placement=Sharded(0), whole=False) if d.is_replicated else d)
    found = vocabulary.meaning(path)
    if found is None:
        return None
    role = found[1]
    if role is Role.REDUCE:
        return _put_together(run, _held(run, first), node, whole=False)
    if role is Role.SHARD:
        return _shares(run, path, args, node)
    if role is Role.RANK:
        return Value(Data(LOCAL))
    if role is Role.SIZE:
        return v.constant(SIZE)
    if role is Role.LOCAL_BATCH:
        return Value(Data(ROWS, rank=0, integral=True, batch=same_batch.OF_ALL))
    if role in (Role.OPTIMIZER, Role.TAPE, Role.BROADCAST, Role.CALLBACKS, Role.NORMALISE):
        return first
    return NUMBER


def named(variable: object) -> Value:
    """What launchers tell by a variable of the environment: which worker this is, or how many there are."""
    role = vocabulary.named_role(variable) if isinstance(variable, str) else None
    return v.constant(SIZE) if role is Role.SIZE else Value(Data(LOCAL)) if role is Role.RANK else NUMBER


def environment(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`os.environ.get(…)`"""
    return named(args.positional[0].constant) if args.positional else NUMBER


def _names(run: Run, value: Value) -> list[str]:
    return [str(item.constant) for item in run.objects.sequence_items(value) or ()]


def _held(run: Run, value: Value) -> Value:
    """What a variable holds, of which calls take the value."""
    contents = [run.heap.load(a, "content") if isinstance(a, Made) else NOTHING for a in value.objects]
    if not contents or any(content is NOTHING for content in contents):
        return value
    return v.join_all([*contents, *([Value(value.data)] if value.data is not None else [])])


def _put_together(run: Run, value: Value, node: cst.CSTNode, *, whole: bool, depth: int = 0) -> Value:
    """What the script puts together by itself; with it goes a repair of which nothing is left to do."""
    done = frozenset((Repair(node, frozenset(), "", form="done"),))

    def put(data: Data) -> Data:
        return replace(data, placement=REPLICATED, whole=whole, constant=NOT_CONSTANT, needs=data.needs | done)

    nested = frozenset(o for o in value.objects if isinstance(o, Container)) if depth < _DEEPEST else frozenset()
    objects = set(value.objects - nested)
    for atom in nested:
        made = Container(atom.kind, Site(node, (depth,)))
        for key in run.heap.fields(atom):
            part = run.heap.load(atom, key)
            run.heap.store(made, key, _put_together(run, part, node, whole=whole, depth=depth + 1))
        objects.add(made)
    return v.mapped(Value(value.data, frozenset(objects)) if nested else value, put)


def _of_one_process(data: Data) -> Data:
    """Gradients of samples that the script has made what they are in one process."""
    return replace(data, needs=frozenset(r for r in data.needs if all(o.how != "samples" for o in r.operands)))


def _shares(run: Run, path: str, args: Arguments, node: cst.CSTNode) -> Value:
    first = args.positional[0] if args.positional else NUMBER
    if path.endswith("shard_and_rebatch_dataset"):
        size = args.positional[1] if len(args.positional) > 1 else NUMBER
        at = (node, run.running[-1].context)
        run.shared_sizes[at] = v.join(run.shared_sizes.get(at, NOTHING), size)
        return v.of(v.Tuple((run.libraries.datasets.cut(first, node), NUMBER)))
    if path.endswith("shard_batches"):
        return run.libraries.datasets.cut(first, node)
    whole = _names(run, args.keywords.get("whole", NOTHING))
    parts = [run.shares.share(listed(run, x, node), whole=whole) for x in args.positional]
    if args.rest is not NOTHING:  # `shard_arrays(*train)` gives a list, of as many
        found = Container("list", Site(node, ()))
        run.heap.store(found, None, v.join_all([*parts, run.shares.share(args.rest)]))
        return v.of(found)
    return parts[0] if len(parts) == 1 else v.of(v.Tuple(tuple(parts)))
