"""Let the chief alone write files, and nobody read them before they are there.

All workers hold the same weights, so one copy of a checkpoint, a plot or a table is enough, and N processes that
write to one path at a time destroy it. Where the script reads a file again after it wrote it, a barrier makes the
other workers wait for the chief. Folders are made so that it does no harm when another worker was faster. Event
files of TensorBoard are written by the chief; the other workers get a writer that does nothing.

before:
    model.save("model.keras")
after:
    if lockstep.is_chief():
        model.save("model.keras")

Downloads and archives are fetched and unpacked by the chief, while the others wait; where a cached download's path is
needed (`keras.utils.get_file`), they look it up after the chief. Windows are shown on the chief alone. Files are
removed, moved and copied by the chief as well, with the question whether they are there, or once all have asked it.
What has been read before, and may still be on a slower worker, is written over, moved or removed behind a barrier.

A file that is open while more is done than to write it (a log of the training, a `with open(...)` block that draws
random numbers or makes names for later) is written by all workers, on all but the chief to nowhere: `open(path if
lockstep.is_chief() else os.devnull, "w")`.

A file that a dataset is cached in (`dataset.cache("cache/train")`) is written while the dataset is read: each worker
has one of its own, named by its rank and their number, with all elements in it, so that it serves any batch size.

Where the time is in the name of a folder that the chief writes into and all read from, all take the chief's:
`lockstep.broadcast(datetime.now().strftime("%Y%m%d-%H%M%S"))`; so with temporary folders, `tempfile.mkdtemp()`, in
which a callback writes what all read.

What a function returns of a write, and no call uses, the chief alone returns: `return manager.save()`. The path of a
checkpoint that the rest of the script needs is the chief's on all workers, who have it once the file is there:
`path = lockstep.broadcast(checkpoint.save("model") if lockstep.is_chief() else "")`.

Leaves alone: files that are only read; what is guarded by the rank already; output to the terminal; the files of
`fit`'s callbacks (see synchronise-callbacks); what each worker writes into a temporary folder of its own and reads
again there.
Refuses: a write whose result the rest of the script needs, where that is no path of a checkpoint; a write that draws
random numbers, and a block in which training goes on or names are made that are read after it, where the file cannot be
os.devnull (an archive, a file of which the script asks where it stands); a file that the chief writes and all read
under a path which differs from worker to worker (a temporary file that is open, a name with the time in it that not all
come to); a download in a comprehension or a lambda, by the names of that.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from migrator.edits import Guard, Refusal, Wrap
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

from .barriers import barriers
from .extents import is_read_later, joined, lies_within, widened
from .folders import folders
from .guards import guarded, guarded_fetch, met_by_all
from .own_files import cache_files, cached_downloads, chiefs_names, summary_writers
from .sinks import Sink, as_sink, chiefs_handler, sink_of, until_closed, written_elsewhere


@rule(optional=True)
def write_once(facts: Facts) -> Findings:
    if not facts.trains:
        return
    yield from summary_writers(facts)
    sinks: list[Sink] = []
    for call in facts.files.opened:
        if not facts.files.is_chief_only(call):
            sink = as_sink(facts, [call], until_closed(facts, call))
            handler = chiefs_handler(facts, call) if sink is None else None
            if sink is not None:
                sinks.append(sink)
            elif handler is not None:
                yield handler
            else:
                yield Refusal(
                    call,
                    "every worker would write this file",
                    "open it on the chief alone, by hand",
                    breaks_training=any(facts.read_again.reads(call, call, [call])),
                )
    yield from chiefs_names(facts)
    guards: list[Guard] = []
    chiefs: list[cst.CSTNode] = []
    told: list[Wrap] = []
    for folder in folders(facts):
        if isinstance(folder, Guard):
            guards.append(folder)
        else:
            yield folder
    for write in facts.files.writes:
        if facts.files.is_chief_only(write.node) or any(lies_within(facts, g, write.statement) for g in guards):
            continue
        if facts.worker_paths.is_read_by_itself(write.node):
            continue  # each worker has its own file there
        found = guarded_fetch(facts, write) if write.node in facts.files.fetches else guarded(facts, write)
        sink = sink_of(facts, write) if isinstance(found, Refusal) else None
        if sink is not None:
            sinks.append(sink)
        elif isinstance(found, Refusal):
            as_it_stands = Guard(write.statement, write.statement, "")
            yield replace(found, breaks_training=found.breaks_training or is_read_later(facts, as_it_stands, ()))
        elif not isinstance(found, Guard):
            told.append(found)
            chiefs.append(found.node)
        else:
            guards.append(found)
    yield from cached_downloads(facts)
    yield from cache_files(facts)
    guards = joined(facts, guards)
    guards = joined(facts, [widened(facts, guard, guards) for guard in guards])
    yield from (met_by_all(facts, wrap, guards) for wrap in told)
    for sink in sinks:
        yield from written_elsewhere(facts, sink, guards)
    yield from guards
    yield from barriers(facts, guards, sinks, chiefs)
