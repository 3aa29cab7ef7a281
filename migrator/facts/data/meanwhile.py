"""Whether what reads samples ahead goes by what changes meanwhile: one question, whatever reads, whatever changes."""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.changed_meanwhile import ChangedMeanwhile
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.reading import Consumption
from migrator.facts.data.run_ahead import ReadingAhead
from migrator.facts.data.trained_along import TrainedAlong
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Binding
from migrator.facts.training.sites import Training

_ITER = External("builtins.iter")


class Meanwhile:
    def __init__(self, training: Training, sources: BatchSources) -> None:
        self.tree = training.tree
        self.resolver = training.resolver
        self._training = training
        self._ahead = ReadingAhead(training, sources)
        self._changed = ChangedMeanwhile(training.tree, training.resolver, training.kinds)
        self._trained = TrainedAlong(training)

    def refusal(
        self, pipeline: Pipeline, consumption: Consumption, bodies: list[cst.CSTNode], is_fit: bool
    ) -> Refusal | None:
        """Why each worker might get other samples; `bodies`: the code that runs for each batch of a loop."""
        run = self._ahead.run_by(pipeline, consumption)
        bodies = self._ahead.beside(run, consumption) if is_fit else self._run_while_read(consumption, bodies)
        place = self._changed.first(run, bodies)
        what = "what the training changes here"
        if place is None and (bodies or is_fit):
            place, what = self._trained.first(run), "what is trained meanwhile here"
        if place is None:
            return None
        why = (
            f"the pipeline that reads the samples ahead goes by {what}: the time decides which samples it makes, on "
            "each worker by itself"
        )
        advice = "change it between the epochs, or make the batches in the loop"
        return Refusal(place, why, advice, breaks_training=True)

    def _run_while_read(self, consumption: Consumption, bodies: list[cst.CSTNode]) -> list[cst.CSTNode]:
        """The code that runs between the batches; of an iterator that is made once, in all loops around it, too."""
        reader = consumption.reader
        iterator = _iterated(reader)
        made = self.resolver.reaching(iterator) if isinstance(iterator, cst.Name) else []
        if isinstance(reader, cst.CompFor) or not any(_ITER in self.resolver.values(_called(b)) for b in made):
            return bodies
        loops = [
            loop for loop in self.tree.loops_around(reader) if not any(self.tree.contains(loop, b.node) for b in made)
        ]
        return self._training.reached_from(loops[-1].body) if loops else bodies


def _iterated(reader: cst.For | cst.CompFor | cst.Call) -> cst.CSTNode | None:
    """What `next(…)`, `….get_next()` or the loop takes its batches from."""
    if not isinstance(reader, cst.Call):
        return reader.iter
    if isinstance(reader.func, cst.Attribute):
        return reader.func.value
    return reader.args[0].value if reader.args else None


def _called(binding: Binding) -> cst.BaseExpression | None:
    return binding.value.func if isinstance(binding.value, cst.Call) else None
