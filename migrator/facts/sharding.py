"""How each training dataset is split over the workers: where in its pipeline, or where it is read.

The shard stands as early as it may, so that no worker prepares samples that it then throws away, and never where it
would change what is trained:
- after take, skip, filter and everything else that counts or chooses elements;
- before an unseeded shuffle, so that no two workers need the same order;
- after a seeded shuffle (or where nothing is shuffled, after repeat): each global batch is then, sample for sample,
  that of the run on one device.
Where the pipeline cannot be cut in the script's text, its batches are cut where training reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.edits import Refusal
from migrator.facts import api
from migrator.facts.obstacles import Obstacles
from migrator.facts.pipelines import Pipeline, Step, batch_argument
from migrator.facts.reading import Consumption, Reading
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.training import Training
from migrator.facts.tree import Binding, Scope, Statement, Tree
from migrator.facts.values import External

_HARMLESS_CALLS = frozenset(
    {
        "builtins.len",
        "builtins.print",
        "builtins.type",
        "tensorflow.data.experimental.cardinality",
    }
)
_HARMLESS_ATTRIBUTES = frozenset({"cardinality", "element_spec"})
_SEEDERS = frozenset(
    {
        "tensorflow.random.set_seed",
        "keras.utils.set_random_seed",
        "tensorflow.compat.v1.set_random_seed",
    }
)


@dataclass(frozen=True, eq=False)
class CutPipeline:
    """Shard and rebatch within the pipeline, in front of `statement`.

    `prefix` is the dataset of single elements, `target` the name that the statement gives its result (None: it
    returns it), `batch` the argument that holds the global batch size.
    """

    prefix: cst.BaseExpression
    target: cst.CSTNode | None
    statement: Statement
    batch: cst.Arg
    drop_remainder: bool
    keeps_batch_name: bool


@dataclass(frozen=True, eq=False)
class CutBatches:
    """Cut each global batch where training reads the dataset.

    `before`, where given, is the loop in front of which the name can be given its share once.
    """

    dataset: cst.BaseExpression
    before: Statement | None = None


Plan = Union[CutPipeline, CutBatches, Refusal]


class Sharding:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, reading: Reading) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.reading = reading
        self.pipelines = reading.pipelines
        self.obstacles = Obstacles(tree, resolver, training)

    # -- plans ---------------------------------------------------------------------------------------------------

    @cached_property
    def consumptions(self) -> list[Consumption]:
        """Each place where training reads a dataset, once."""
        found: dict[cst.CSTNode, Consumption] = {}
        for update in self.training.updates:
            for consumption in self.reading.consumptions(update):
                found.setdefault(consumption.dataset, consumption)
        for fit in self.training.fits:
            arg = argument(fit.call, "x", 0)
            if arg is not None and self.pipelines.is_dataset(arg.value):
                found.setdefault(arg.value, Consumption(arg.value, fit.call))
        return list(found.values())

    @cached_property
    def plans(self) -> list[Plan]:
        """What to do for each training dataset that is not sharded yet; one plan for each place of the text."""
        found: dict[cst.CSTNode, Plan] = {}
        for consumption in self.consumptions:
            plan = self._plan(consumption)
            if plan is not None:
                key = (
                    plan.prefix
                    if isinstance(plan, CutPipeline)
                    else plan.node
                    if isinstance(plan, Refusal)
                    else plan.dataset
                )
                found.setdefault(key, plan)
        return [*found.values(), *self._updates_without_data()]

    @cached_property
    def splits_data(self) -> bool:
        """Whether every update sees batches that are split: only then may gradients be summed over workers."""
        return bool(self.consumptions) and not any(isinstance(p, Refusal) for p in self.plans)

    def _updates_without_data(self) -> Iterator[Refusal]:
        seen: set[cst.FunctionDef | None] = set()
        for update in self.training.updates:
            function = self.tree.function_of(update.call)
            if function in seen or self.training.step_class(update) is not None:
                continue
            if not self.reading.consumptions(update):
                seen.add(function)
                yield Refusal(
                    update.call,
                    "no tf.data dataset is seen that gives this update its batches, so every worker trains on all "
                    "of them",
                    "iterate over a tf.data.Dataset in this file, or give each worker its share by hand with "
                    "lockstep.shard_arrays and lockstep.local_batch_size",
                    breaks_training=True,  # its loop may depend on what each worker meets by itself
                )

    def _plan(self, consumption: Consumption) -> Plan | None:
        pipeline = self.pipelines.history(consumption.dataset)
        if pipeline.is_sharded:
            return None
        obstacle = self.obstacles.to(pipeline, consumption)
        if obstacle is not None:
            return obstacle
        plan = self._cut_pipeline(pipeline, consumption) or self._cut_batches(pipeline, consumption)
        return self.obstacles.order(pipeline, plan.prefix if isinstance(plan, CutPipeline) else None) or plan

    # -- within the pipeline -------------------------------------------------------------------------------------

    def _cut_pipeline(self, pipeline: Pipeline, consumption: Consumption) -> CutPipeline | None:
        if len(pipeline.batch_steps) != 1 or pipeline.unseen or pipeline.source is None:
            return None
        batch_step = pipeline.batch_steps[0]
        if batch_step.method == "padded_batch":
            return None  # the padding is that of the global batch: it must be cut after it
        batch = batch_argument(batch_step)
        before = pipeline.steps[: pipeline.steps.index(batch_step) + 1]
        anchor = before[self._cut(before[:-1])]
        statement = self.tree.statement_of(anchor.call)
        if batch is None or not self._is_alone(anchor, batch_step, pipeline):
            return None
        form = self._form(anchor, statement)
        if form is None:
            return None
        target, statement = form
        if any(True for _ in self.tree.loops_around(statement)):
            return None
        if not self._reads_only(pipeline, anchor, consumption) or not self._is_known_before(batch.value, statement):
            return None
        drop = argument(batch_step.call, "drop_remainder", 1)
        drops = drop is not None and isinstance(drop.value, cst.Name) and drop.value.value == "True"
        if drop is not None and not drops and not (isinstance(drop.value, cst.Name) and drop.value.value == "False"):
            return None
        return CutPipeline(anchor.base, target, statement, batch, drops, self._may_rebind(batch, statement))

    def _cut(self, steps: list[Step]) -> int:
        """The index of the first step that follows the shard."""
        order = [s.method for s in steps]
        first = next((i for i, m in enumerate(order) if m in api.ORDERING), len(order))
        free = all(m in api.ELEMENTWISE | api.ORDERING for m in order[first:])
        if free and "shuffle" in order and not self._is_reproducible(steps):
            order = order[:first]
        else:
            order = ["map" if m in ("cache", "snapshot") else m for m in order]
        return max((i + 1 for i, m in enumerate(order) if m not in api.ELEMENTWISE), default=0)

    def _is_reproducible(self, steps: list[Step]) -> bool:
        return self._seeds_everything or self.pipelines.is_seeded(steps)

    @cached_property
    def _seeds_everything(self) -> bool:
        return any(
            isinstance(v, External) and v.path in _SEEDERS
            for call in self.tree.calls
            for v in self.resolver.values(call.func)
        )

    def _is_alone(self, anchor: Step, batch: Step, pipeline: Pipeline) -> bool:
        """Both steps stand in one function, which runs once: a function that also makes the test data is not cut."""
        function = self.tree.function_of(anchor.call)
        if function is not self.tree.function_of(batch.call) or self._crosses(anchor, batch, pipeline):
            return False
        while function is not None:
            callers = self.resolver.callers(function)
            if len(callers) > 1:
                return False
            if not callers:
                return True
            if any(True for _ in self.tree.loops_around(callers[0])):
                return False
            function = self.tree.function_of(callers[0])
        return True

    def _crosses(self, anchor: Step, batch: Step, pipeline: Pipeline) -> bool:
        """Whether the dataset leaves the function between the two steps, through a call of another."""
        home = self.tree.function_of(anchor.call)
        between = pipeline.steps[pipeline.steps.index(anchor) : pipeline.steps.index(batch)]
        return any(self.tree.function_of(s.call) is not home for s in between)

    def _form(self, anchor: Step, statement: Statement) -> tuple[cst.CSTNode | None, Statement] | None:
        """The target that the statement assigns the pipeline to, and the statement to insert before."""
        top: cst.CSTNode = anchor.call
        while True:
            parent = self.tree.parent[top]
            if isinstance(parent, cst.Attribute) and parent.value is top and parent.attr.value in api.DATASET_METHODS:
                grand = self.tree.parent[parent]
                if isinstance(grand, cst.Call) and grand.func is parent:
                    top = grand
                    continue
            break
        parent = self.tree.parent[top]
        if isinstance(parent, cst.Return):
            return None, statement
        if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
            return None
        target = parent.targets[0].target
        if not isinstance(target, (cst.Name, cst.Attribute)):
            return None
        if target.deep_equals(anchor.base):
            outer = self._unconditional(anchor, statement)
            return (target, outer) if outer is not None else None
        return target, statement

    def _unconditional(self, anchor: Step, statement: Statement) -> Statement | None:
        """`if shuffle: ds = ds.shuffle(n)`: the shard stands before the `if`, in the block that made the dataset."""
        if not isinstance(anchor.base, cst.Name):
            return statement
        bindings = self.resolver.reaching(anchor.base)
        if not bindings or len(bindings) > 1:
            return None
        made = bindings[0].node
        if isinstance(made, cst.Param):
            function = self.tree.function_of(anchor.call)
            return self.tree.lift(statement, function.body) if function is not None else None
        return self.tree.lift(statement, self.tree.block_of(self.tree.statement_of(made)))

    def _reads_only(self, pipeline: Pipeline, anchor: Step, consumption: Consumption) -> bool:
        """Whether nothing but training reads the dataset from the cut on."""
        later = pipeline.steps[pipeline.steps.index(anchor) :]
        statements = {self.tree.statement_of(s.call) for s in later}
        allowed = {id(u) for u in pipeline.uses}
        for other in self.consumptions:
            allowed.update(id(u) for u in self.pipelines.history(other.dataset).uses)
        return all(
            self._is_harmless(use) or id(use) in allowed
            for binding in pipeline.bindings
            if self._follows(binding, statements, anchor)
            for use in self.pipelines.loads_of(binding)
        )

    def _follows(self, binding: Binding, statements: set[Statement], anchor: Step) -> bool:
        """Whether the binding holds the dataset after the cut."""
        if binding.kind == "param":
            return self.tree.function_of(anchor.call) is not self.tree.function_of(binding.node)
        statement = self.tree.statement_of(binding.node)
        return (
            statement in statements
            or self.tree.order[statement] > self.tree.order[self.tree.statement_of(anchor.call)]
            or (self.tree.function_of(statement) is not self.tree.function_of(anchor.call))
        )

    def _is_harmless(self, use: cst.CSTNode) -> bool:
        parent = self.tree.parent.get(use)
        if isinstance(parent, cst.Attribute) and parent.value is use:
            return parent.attr.value in _HARMLESS_ATTRIBUTES
        call = self.tree.parent.get(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and any(
            isinstance(v, External) and v.path in _HARMLESS_CALLS for v in self.resolver.values(call.func)
        )

    def _is_known_before(self, node: cst.CSTNode, statement: Statement) -> bool:
        """Whether the names in the batch-size expression have their values before the statement runs."""
        here = self.tree.scope_of(statement)
        for name in self.tree.names_in(node):
            if self.tree.scope_of(name).lookup(name.value) is here:
                for binding in self.resolver.reaching(name):
                    if self.tree.order[binding.node] > self.tree.order[statement]:
                        return False
        return True

    def _may_rebind(self, batch: cst.Arg, statement: Statement) -> bool:
        """Whether the name of the global batch size may take the local one: nothing else reads it in this function."""
        name = batch.value
        if not isinstance(name, cst.Name):
            return False
        here: Scope = self.tree.scope_of(statement)
        if here.parent is None or here.lookup(name.value) is not here:
            return False
        order = self.tree.order
        return all(
            use is name
            or order[use] < order[statement]
            or self.tree.scope_of(use).lookup(use.value) is not here
            or isinstance(self.tree.parent.get(use), cst.Attribute)
            for use in self.tree.names[name.value]
        )

    # -- where it is read ----------------------------------------------------------------------------------------

    def _cut_batches(self, pipeline: Pipeline, consumption: Consumption) -> CutBatches:
        dataset = consumption.dataset
        reader = consumption.reader
        if isinstance(dataset, cst.Name) and isinstance(reader, cst.For):
            scope = self.tree.scope_of(reader)
            loops = list(self.tree.loops_around(reader))
            if loops and scope.lookup(dataset.value) is scope:
                outermost = loops[-1]
                inside = any(self.tree.contains(outermost, b.node) for b in self.resolver.reaching(dataset))
                if not inside and self._is_only_read_by(dataset, outermost):
                    return CutBatches(dataset, outermost)
        return CutBatches(dataset)

    def _is_only_read_by(self, dataset: cst.Name, loop: Statement) -> bool:
        """Whether, from the loop on, only training reads the name."""
        allowed = {id(c.dataset) for c in self.consumptions}
        return all(
            id(use) in allowed or self._is_harmless(use) or self.tree.order[use] < self.tree.order[loop]
            for binding in self.resolver.reaching(dataset)
            for use in self.pipelines.loads_of(binding)
        )
