"""What one abstract run is to do otherwise than the one before, and what ran where nothing was to be put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from migrator.analysis.values import Repair


@dataclass
class Plan:
    """Where all rows are put together: functions of which the arguments are, expressions, and calls of `compile` of
    which the loss is given the whole batch; `added_up`: functions that get means and sums over the batch as they are of
    all rows, and rows as those of a worker; `reductions`: whatever a "mean" or a "sum" is taken of; `layers`: functions
    that work on all rows of a batch, of which they give back a worker's, or go on with those `at_once`; `summed`: terms
    among which are sums over a worker's part, beside what is made of all rows; `cut_again`: calls that make such of all
    rows as meets a worker's part of them, and of which a worker takes its own; `calls`: those of several functions that
    are given all rows; `dealt`: arguments of training steps that are made of all rows, of which a worker takes its own;
    `branches`: of which both ways are run, however their conditions come out; `undivided`: calls of models and
    functions in which nothing is put together, on what all workers have; `divided`: calls that are none of these."""

    functions: set[cst.CSTNode] = field(default_factory=set)
    added_up: set[cst.CSTNode] = field(default_factory=set)
    layers: set[cst.CSTNode] = field(default_factory=set)
    at_once: set[cst.CSTNode] = field(default_factory=set)
    expressions: set[cst.CSTNode] = field(default_factory=set)
    cut_again: set[cst.CSTNode] = field(default_factory=set)
    losses: set[cst.CSTNode] = field(default_factory=set)
    reductions: set[str] = field(default_factory=set)
    summed: set[cst.CSTNode] = field(default_factory=set)
    calls: set[cst.CSTNode] = field(default_factory=set)
    dealt: set[cst.CSTNode] = field(default_factory=set)
    branches: set[cst.CSTNode] = field(default_factory=set)
    undivided: set[cst.CSTNode] = field(default_factory=set)
    divided: set[cst.CSTNode] = field(default_factory=set)

    def copy(self) -> Plan:
        return Plan(**{name: set(planned) for name, planned in vars(self).items()})

    @property
    def key(self) -> tuple[frozenset[object], ...]:
        """What tells it from other plans, until it is changed."""
        return tuple(map(frozenset, vars(self).values()))


class Plain(NamedTuple):
    """What also runs on what all workers have, so that nothing is to be put together: operations, calls of which the
    arguments are gathered, expressions that are."""

    operations: set[cst.CSTNode]
    calls: set[cst.CSTNode]
    sources: set[cst.CSTNode]

    def has(self, repair: Repair) -> bool:
        if any(operand.node is repair.node for operand in repair.operands):
            return repair.node in self.sources
        return repair.node in (self.calls if repair.form == "call" else self.operations)
