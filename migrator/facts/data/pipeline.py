"""A dataset as it is consumed: the steps from its source on."""

from __future__ import annotations

from dataclasses import field
from typing import cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Binding, FunctionLike
from migrator.records import dataclass

_MAKE_SAMPLES = frozenset({"map", "unbatch", "flat_map", "interleave"})
# Calls that something is inside of, with the functions that they run.
Entered = tuple[tuple[cst.Call, FunctionLike], ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One method call of a pipeline (`.shuffle(1000)`).

    `inner` makes the batches of the datasets whose elements it hands on (`.flat_map(lambda f: read(f).batch(8))`).
    """

    method: str
    call: cst.Call
    inner: Step | None = None

    @property
    def base(self) -> cst.BaseExpression:
        return cast(cst.Attribute, self.call.func).value

    @property
    def makes_batches(self) -> bool:
        return self.inner is not None or self.method in api.BATCHING


def batch_argument(step: Step) -> cst.Arg | None:
    """The argument of a batching step that holds the batch size."""
    return batch_argument(step.inner) if step.inner is not None else argument(step.call, "batch_size", 0)


def is_finite_repeat(step: Step) -> bool:
    """Whether it repeats a written number of times; `.repeat()`, `.repeat(None)` and `.repeat(-1)` do not end."""
    count = argument(step.call, "count", 0) if step.method == "repeat" else None
    return count is not None and not is_none(count.value) and not isinstance(count.value, cst.UnaryOperation)


@dataclass(eq=False)
class Pipeline:
    """A dataset as it is consumed, with its steps from the source on.

    `unseen` says why the history ends before a source; `uses` are the names that it passes through; `functions`
    the functions whose result it is, or part of it, `calls` the calls of them on the way; `within` are those that the
    history is inside of, outermost first. `forks` are its histories where it may be one of several datasets, or is put
    together of them: then `unseen`, too. `cut` is the call of the runtime that shares it out.
    """

    steps: list[Step] = field(default_factory=list)
    source: cst.Call | None = None
    source_path: str = ""
    unseen: str = ""
    uses: list[cst.CSTNode] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    functions: list[cst.FunctionDef] = field(default_factory=list)
    calls: list[cst.Call] = field(default_factory=list)
    within: Entered = ()
    is_sharded: bool = False
    cut: cst.Call | None = None
    is_zip_of_batches: bool = False
    hands_out_batches: bool = False
    is_put_together: bool = False
    forks: list[Pipeline] = field(default_factory=list)

    @property
    def ways(self) -> list[Pipeline]:
        """All that the dataset may be."""
        return self.forks or [self]

    @property
    def batch_steps(self) -> list[Step]:
        """The steps that make the batches that are read; not those whose batches become samples of their own: sequences
        that a `map` takes apart (`.batch(length + 1).map(split).batch(64)`), rows that are put together anew."""
        batching = [i for i, s in enumerate(self.steps) if s.method in api.BATCHING]
        inside = [i for i, s in enumerate(self.steps) if s.inner is not None]
        if inside[-1:] > batching[-1:]:
            return [self.steps[inside[-1]]]
        last = batching[-1] if batching else 0
        return [
            self.steps[i]
            for i in batching
            if i == last or not any(s.method in _MAKE_SAMPLES for s in self.steps[i + 1 : last])
        ]

    @property
    def regroups(self) -> bool:
        """Whether what is read are batches of what were batches before."""
        read = self.batch_steps[-1:]
        return any(s.method in api.BATCHING and s not in read for s in self.steps)

    @property
    def _source_batches(self) -> bool:
        size = argument(self.source, "batch_size") if self.source is not None else None
        if size is not None and is_none(size.value):
            return False
        return self.source_path in api.BATCHED_SOURCES or (
            self.source_path == "tensorflow_datasets.load" and bool(size)
        )

    @property
    def is_batched(self) -> bool:
        if self.forks:
            return all(fork.is_batched for fork in self.forks)
        return bool(self.batch_steps) or self._source_batches or self.is_zip_of_batches or self.hands_out_batches


def is_seeded(steps: list[Step]) -> bool:
    """Whether every shuffle among the steps names a seed."""
    shuffles = [s for s in steps if s.method == "shuffle"]
    return bool(shuffles) and all(argument(s.call, "seed", 1) is not None for s in shuffles)
