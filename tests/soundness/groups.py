"""All cases, by group. A group is a module with `CASES`; a new one is named here and nowhere else."""

from __future__ import annotations

from . import data_flows, decisions, forward_passes, losses, scripts
from .case import Case

CASES: tuple[Case, ...] = (
    *losses.CASES,
    *forward_passes.CASES,
    *data_flows.CASES,
    *decisions.CASES,
    *scripts.CASES,
)
