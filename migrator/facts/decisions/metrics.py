"""Where a script asks a Keras metric for its result, of what all workers have seen or of this worker's part alone."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.verdicts import SUM
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.files.writes import Files
from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object, Result, Value, calls
from migrator.facts.program.syntax import argument, has_unpacked_keywords, method_called
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training
from migrator.records import dataclass

# Metrics of Keras's with an axis, by its position, and those of any function.
_WITH_AXIS = {
    "keras.metrics.CosineSimilarity": 2, "keras.metrics.PearsonCorrelation": None,
    "keras.metrics.ConcordanceCorrelation": None, "keras.metrics.CategoricalCrossentropy": 4,
    "keras.metrics.SparseCategoricalCrossentropy": 4, "keras.losses.CosineSimilarity": 0,
}  # fmt: skip
_CUTTING = f"{api.RUNTIME}.shard_batch"
_OF_FUNCTIONS = "keras.metrics.MeanMetricWrapper"


@dataclass(frozen=True, eq=False)
class MetricResult:
    """A `metric.result()` of a metric that has seen this worker's part of the batches.

    `is_mean`: all workers' result is the mean of theirs, or, if `is_sum`, their sum: a `Mean` of what adds up.
    `is_own`: the metric is of a class of the script's, works along the batch, or `is_mixed`, which has counted what all
    workers have, so that what its state adds up to is not known. `of_batches`: it is asked in a step of `fit`, of a
    number for each batch, of which the workers may have had unequal shares.
    """

    call: cst.Call
    metric: cst.BaseExpression
    is_mean: bool
    is_sum: bool
    is_own: bool
    of_batches: bool = False
    is_mixed: bool = False


class Metrics:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        locality: Locality,
        losses: Losses,
        *,
        parts_differ: bool,
    ) -> None:
        """`parts_differ`: the workers have unequally many rows."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.files = files
        self.locality = locality
        self.losses = losses
        self.parts_differ = parts_differ

    def results(self) -> Iterator[MetricResult]:
        """The results to combine over the workers: once an epoch, as it were, and not for each batch, where only what
        is no mean needs it."""
        steps = [body for loop in self._loops() for body in self.training.reached_from(loop)]
        for call in self.tree.calls:
            result = self.result(call)
            if result is None or self._is_combined(call) or self._runs_alone(call, set()):
                continue
            if self.tree.is_in(call, self._fit_steps()) or self.tree.is_in(call, self._test_steps):
                continue  # `fit` averages what its steps give
            if result.of_batches and not self.locality.is_fed_locally(result.metric):
                continue
            if not result.is_mean or not self.tree.is_in(call, steps):
                yield result

    def result(self, call: cst.Call) -> MetricResult | None:
        """The call as that of a metric for its result, where the metric has seen this worker's part."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "result" or call.args:
            return None
        if not (self.losses.is_told_in_step(call) or self.locality.is_fed_locally(func.value)):
            return None
        metrics = self.resolver.values(func.value)
        fed = self.locality.metrics
        is_sum = self._adds_up(func.value)
        is_mean = all(_is_mean(calls(v)) for v in metrics) and (is_sum or not self.parts_differ)
        # `fit` has parts of any size.
        is_mean = is_mean and not fed.is_fed_by_fit(func.value) and not fed.is_weighted(func.value)
        is_mixed = self.losses.is_told_mixed(call)
        is_own = is_mixed or any(isinstance(v, Object) or works_along_the_batch(v) for v in metrics)
        of_batches = not is_sum and self.losses.is_told_in_step(call)
        return MetricResult(call, func.value, is_mean, is_mean and is_sum, is_own, of_batches, is_mixed)

    def is_of_statistics(self, result: MetricResult) -> bool:
        """Whether the workers have told it of the same rows, which models with statistics of their own have seen."""
        fed = [self.locality.of(told) for told in self.locality.metrics.fed_to(result.metric)]
        by_fit = self.losses.is_told_in_step(result.call) or self.locality.metrics.is_fed_by_fit(result.metric)
        return not by_fit and all(marks & ~(Mark.STATISTIC | Mark.HELD) == 0 for marks in fed)

    def _adds_up(self, metric: cst.BaseExpression) -> bool:
        """Whether the metric is told sums over the rows of a worker, one for each batch, as those of all are. Any but
        a `Mean` makes something of what it is told first."""
        if any(calls(v) != "keras.metrics.Mean" for v in self.resolver.values(metric)):
            return False
        kinds = {self.losses.of_number(told).reduction for told in self.locality.metrics.fed_to(metric)}
        return kinds == {SUM}

    def _fit_steps(self) -> Iterator[cst.CSTNode]:
        for update in self.training.updates:
            cls = self.training.step_class(update)
            method = self.resolver.method(cls, "train_step") if cls is not None else None
            if method is not None:
                yield method

    @cached_property
    def _test_steps(self) -> list[cst.FunctionDef]:
        """The `test_step` methods beside these, where `fit` alone runs them, or `evaluate` on what all workers have."""
        found: dict[cst.FunctionDef, None] = {}
        for update in self.training.updates:
            cls = self.training.step_class(update)
            method = self.resolver.method(cls, "test_step") if cls is not None else None
            if method is not None and not self.resolver.callers(method):
                found[method] = None
        evaluated = (arg for call, _ in self.training.methods("evaluate", "test_on_batch") for arg in call.args)
        return list(found) if not any(self.locality.of(arg.value) for arg in evaluated) else []

    @cached_property
    def fit_steps(self) -> list[cst.CSTNode]:
        """The code that runs in the steps of the script's own by which `fit` trains."""
        return list(dict.fromkeys(body for step in self._fit_steps() for body in self.training.reached_from(step)))

    def _is_combined(self, call: cst.Call) -> bool:
        return any(
            isinstance(owner, cst.Call)
            and any(vocabulary.has_role(name, Role.REDUCE) for name in self.resolver.public(owner.func))
            for owner in self.tree.ancestors(call)
        )

    def _loops(self) -> Iterator[cst.CSTNode]:
        """The code that runs for each batch."""
        for consumption in self.sharding.consumptions:
            if isinstance(consumption.reader, cst.For):
                yield consumption.reader.body
            elif not any(fit.call is consumption.reader for fit in self.training.fits):
                yield from (loop.body for loop in list(self.tree.loops_around(consumption.reader))[:1])
        for cut in self.sharding.minibatches.all:
            yield from (loop.body for loop in list(self.tree.loops_around(cut.place))[:1])
            yield from self.sharding.minibatches.steps(cut)
        for call in self.tree.calls:  # batches that are cut already, as by an earlier run
            if _CUTTING in self.resolver.public(call.func):
                yield from (loop.body for loop in list(self.tree.loops_around(call))[:1])

    def _runs_alone(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Whether the chief alone comes here, or is made to: what writes a file waits for nobody."""
        written = (statement for write in self.files.writes for statement in write.statements)
        if self.files.is_chief_only(node) or self.tree.is_in(node, written):
            return True
        function = self.tree.function_of(node)
        if function is None or function in seen:
            return False
        return any(self._runs_alone(call, seen | {function}) for call in self.resolver.callers(function))


def _is_mean(path: str) -> bool:
    start, _, name = path.rpartition(".")
    return start == "keras.metrics" and api.MEAN_METRICS.match(name) is not None


def works_along_the_batch(value: Value) -> bool:
    """Whether this is a metric of Keras's that is told to work along another axis than that of the classes, or one of
    whatever function it is given."""
    path = calls(value)
    if isinstance(value, Result) and path in _WITH_AXIS:
        if not isinstance(value.call.func, (cst.Name, cst.Attribute)) or has_unpacked_keywords(value.call):
            return True
        if method_called(value.call) == "from_config":
            return True
        axis = argument(value.call, "axis", _WITH_AXIS[path])
        return axis is not None and _number(axis.value) != -1
    return path == _OF_FUNCTIONS


def _number(node: cst.BaseExpression) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        number = _number(node.expression)
        return -number if number is not None else None
    return int(node.evaluated_value) if isinstance(node, cst.Integer) else None
