"""Report ports by hand that never join their processes.

Without `hvd.init()` Horovod's calls fail, and without `npu.open().as_default()` the script trains on the host's
processor while the NPU idles.

before:
    import horovod.tensorflow as hvd
    optimizer = hvd.DistributedOptimizer(optimizer)
after:
    import horovod.tensorflow as hvd
    optimizer = hvd.DistributedOptimizer(optimizer)

Leaves alone: scripts that call it anywhere, in a function or another of their files; modules that another script
imports; lockstep, which joins when it is imported.
Refuses: on Horovod, BytePS, smdistributed and npu_device, a script that trains and calls nothing that starts the
library.
"""

from __future__ import annotations

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Role
from migrator.facts.script import Facts
from migrator.rule import Findings, audit


@audit
def missing_start(facts: Facts) -> Findings:
    library = facts.ports.foreign_library
    if library is None or Role.START not in library.spelling or facts.ports.has(Role.START) or facts.ports.launches:
        return
    sites = [site.call for site in facts.ports.calls if site.toolkit is library]
    if facts.trains and any(facts.ranks.runs_at_start(call) for call in sites):
        yield Refusal(
            facts.ports.imports[library],
            f"nothing starts {library.name} in this script",
            f"call {library.spelling[Role.START]} before anything else of it",
            breaks_training=True,
        )
