"""Where each worker takes its rows of a batch that a loop has made: the places of the text, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Union

import libcst as cst

from migrator.facts.program.tree import Statement
from migrator.facts.training.sites import Fit, Update


@dataclass(eq=False)
class CutArguments:
    """The arguments of a training step's call that are batches, for all updates that the step makes."""

    call: cst.Call
    batches: tuple[cst.Arg, ...]
    updates: list[Update]

    @property
    def place(self) -> cst.CSTNode:
        return self.call


@dataclass(eq=False)
class CutNames:
    """Names that hold batches, cut in front of a statement; `updates`, and `fits` by `train_on_batch`, read them, or
    what is made of them, from there on."""

    names: list[cst.Name]
    before: Statement
    updates: list[Update]
    fits: list[Fit] = field(default_factory=list)

    @property
    def place(self) -> cst.CSTNode:
        return self.before


@dataclass(eq=False)
class CutExpressions:
    """Batches that are cut out of arrays under the tape itself."""

    expressions: tuple[cst.BaseExpression, ...]
    updates: list[Update]

    @property
    def place(self) -> cst.CSTNode:
        return self.expressions[0]


Cut = Union[CutArguments, CutNames, CutExpressions]
