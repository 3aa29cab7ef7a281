"""Python's own functions and containers, and what its standard library adds to them."""

from __future__ import annotations

from migrator.analysis.calls import Handler
from migrator.analysis.libraries.python import (
    containers,
    drawing,
    holders,
    iterating,
    mocks,
    ordering,
    processes,
    records,
    reflection,
    scalars,
)

FUNCTIONS: dict[str, Handler] = {
    **iterating.FUNCTIONS,
    **ordering.FUNCTIONS,
    **containers.FUNCTIONS,
    **holders.FUNCTIONS,
    **drawing.FUNCTIONS,
    **scalars.FUNCTIONS,
    **reflection.FUNCTIONS,
    **mocks.FUNCTIONS,
    **processes.FUNCTIONS,
    **records.FUNCTIONS,
}
