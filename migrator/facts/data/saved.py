"""Datasets that the script saves, and loads again: what is loaded holds the batches that were saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.facts.files.paths import Paths
from migrator.facts.objects.values import External, Literal
from migrator.facts.program.syntax import argument
from migrator.records import dataclass

if TYPE_CHECKING:
    from migrator.facts.data.pipeline import Step
    from migrator.facts.data.pipelines import Pipelines

LOADING = frozenset({"tensorflow.data.Dataset.load", "tensorflow.data.experimental.load"})
_SAVING = frozenset({"tensorflow.data.Dataset.save", "tensorflow.data.experimental.save"})


@dataclass(frozen=True)
class _Saving:
    dataset: cst.BaseExpression
    path: cst.BaseExpression


class Saved:
    def __init__(self, pipelines: Pipelines) -> None:
        self.pipelines = pipelines
        self.tree = pipelines.tree
        self.resolver = pipelines.resolver
        self._paths = Paths(self.tree, self.resolver)
        self._asked: list[cst.Call] = []

    def batch_step(self, load: cst.Call) -> Step | None:
        """The step that has made the batches which are loaded; None where the script saves none there, or may save
        something else. What an earlier run has saved is taken for the same."""
        given = argument(load, "path", 0)
        if given is None or load in self._asked:
            return None
        self._asked.append(load)
        try:
            there = [s for s in self._savings if not self._surely_elsewhere(s.path, given.value)]
            steps = [self._step(saving) for saving in there]
        finally:
            self._asked.remove(load)
        is_saved = any(self._paths.may_be_same(saving.path, given.value) for saving in there)
        return steps[0] if is_saved and None not in steps else None

    def _step(self, saving: _Saving) -> Step | None:
        saved = self.pipelines.history(saving.dataset)
        return saved.batch_steps[-1] if len(saved.ways) == 1 and saved.batch_steps and not saved.is_sharded else None

    @property
    def _savings(self) -> Iterator[_Saving]:
        for call in self.tree.calls:
            values = self.resolver.values(call.func)
            if any(isinstance(v, External) and v.path in _SAVING for v in values):
                dataset, path = (argument(call, name, i) for i, name in enumerate(("dataset", "path")))
                if dataset is not None and path is not None:
                    yield _Saving(dataset.value, path.value)
            elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "save":
                path = argument(call, "path", 0)
                if path is not None and self.pipelines.is_dataset(call.func.value):
                    yield _Saving(call.func.value, path.value)

    def _surely_elsewhere(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether both paths are written out, and are others."""
        texts = [self._texts(path) for path in (one, other)]
        return None not in texts and set(texts[0] or ()).isdisjoint(texts[1] or ())

    def _texts(self, path: cst.BaseExpression) -> list[str] | None:
        found = [v.node for v in self.resolver.values(path) if isinstance(v, Literal)]
        texts = [str(node.evaluated_value) for node in found if isinstance(node, cst.SimpleString)]
        return texts if texts and len(texts) == len(self.resolver.values(path)) else None
