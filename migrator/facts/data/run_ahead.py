"""What of the script runs while samples are read ahead: the functions of a pipeline, a generator, a Sequence; and what
`fit` runs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.reading import Consumption
from migrator.facts.data.remembering import Remembering
from migrator.facts.objects.values import Class, Function, Object
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import FunctionLike
from migrator.facts.training.sites import Training

_IN_GRAPHS = frozenset({"map", "filter", "flat_map", "interleave", "take_while"})
_IN_PYTHON = frozenset({"tensorflow.py_function", "tensorflow.numpy_function", "tensorflow.compat.v1.py_func"})
_ITERATING = ("__iter__", "__next__")
_OF_PIPELINES = (*_IN_GRAPHS, "apply", "scan", "reduce", "from_generator")
# They run before the first batch is read, or behind the last.
_ASIDE = frozenset({
    "__init__", "build", "build_from_config", "get_config", "from_config", "compile", "compile_from_config",
    "on_train_begin", "on_train_end", "set_model", "set_params",
})  # fmt: skip
# They run while nothing is read, where `fit` begins to read anew in each epoch.
_BETWEEN = frozenset({"on_epoch_begin", "on_epoch_end"})


class RunAhead(NamedTuple):
    """The functions that run for the samples: those that become graphs, and those that stay Python's."""

    in_graphs: list[FunctionLike]
    in_python: list[FunctionLike]


class ReadingAhead:
    def __init__(self, training: Training, sources: BatchSources) -> None:
        self.tree = training.tree
        self.resolver = training.resolver
        self.training = training
        self.sources = sources
        self._remembering = Remembering(training.tree, training.resolver)

    def run_by(self, pipeline: Pipeline, consumption: Consumption) -> RunAhead:
        """The functions of the script that the pipeline, or what `fit` reads in its place, runs for its elements."""
        in_graphs: list[FunctionLike] = []
        in_python: list[FunctionLike] = []
        for way in pipeline.ways:
            if way.source is not None and way.source_path.endswith(".from_generator"):
                given = argument(way.source, "generator", 0)
                in_python += self._of_generator(given.value) if given is not None else []
            for step in way.steps:
                given = argument(step.call, "predicate" if step.method in ("filter", "take_while") else "map_func", 0)
                if step.method in _IN_GRAPHS and given is not None:
                    in_graphs += self._remembering.run_by(given.value)
        for call in self.tree.calls if in_graphs else ():
            is_pythons = call.args and not _IN_PYTHON.isdisjoint(self.resolver.public(call.func))
            if is_pythons and self.tree.is_in(call, in_graphs):
                in_python += self._remembering.run_by(call.args[0].value)
        if isinstance(consumption.reader, cst.Call) and self.sources.is_source(consumption.dataset):
            in_python += self.sources.run_ahead(consumption.dataset)
        return RunAhead(list(dict.fromkeys(in_graphs)), list(dict.fromkeys(in_python)))

    def _of_generator(self, given: cst.BaseExpression) -> list[FunctionLike]:
        found = self._remembering.run_by(given)
        made = [given, *(f.body for f in found if isinstance(f, cst.Lambda))]
        for value in (value for node in made for value in self.resolver.values(node)):
            methods = [self.resolver.method(value.of, n) for n in _ITERATING] if isinstance(value, Object) else []
            found += [method for method in methods if method is not None]
        return found

    def beside(self, run: RunAhead, consumption: Consumption) -> list[cst.CSTNode]:
        """What runs while `fit` reads: methods of callbacks, models, losses and the like, and functions that are handed
        to Keras."""
        ahead = {*run.in_graphs, *run.in_python}
        found = [*self._methods(consumption), *self._handed_on(consumption)]
        roots = dict.fromkeys(function for function in found if function not in ahead)
        return list(dict.fromkeys(body for root in roots for body in self.training.reached_from(root)))

    def _is_begun_anew(self, consumption: Consumption) -> bool:
        """Whether `fit` reads the data from their beginning in each epoch."""
        steps = (
            argument(consumption.reader, "steps_per_epoch", 10) if isinstance(consumption.reader, cst.Call) else None
        )
        return steps is None or is_none(steps.value)

    def _methods(self, consumption: Consumption) -> Iterator[cst.FunctionDef]:
        aside = _ASIDE | _BETWEEN if self._is_begun_anew(consumption) else _ASIDE
        for function in self.tree.functions:
            cls = self.tree.class_of(function)
            if cls is not None and function.name.value not in aside and self._is_run_by_keras(Class(cls)):
                yield function

    def _is_run_by_keras(self, cls: Class) -> bool:
        is_of_keras = self.resolver.derives_from(cls, lambda path: path.startswith(("keras.", "tensorflow.Module")))
        return is_of_keras and not self.sources.is_sequence_class(cls)

    def _handed_on(self, consumption: Consumption) -> Iterator[FunctionLike]:
        """The functions that something outside of the program is given."""
        aside = _BETWEEN if self._is_begun_anew(consumption) else frozenset()
        for call in self.tree.calls:
            if not call.args or not any(not isinstance(v, (Function, Class)) for v in self.resolver.values(call.func)):
                continue
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _OF_PIPELINES:
                continue
            if not _IN_PYTHON.isdisjoint(self.resolver.public(call.func)):
                continue
            for arg in call.args:
                keyword = arg.keyword.value if arg.keyword is not None else ""
                if keyword not in aside | {"on_train_begin", "on_train_end"}:
                    yield from (v.node for v in self.resolver.values(arg.value) if isinstance(v, Function))
