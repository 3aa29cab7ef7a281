"""Where a worker's share is cut in the pipeline of a dataset.

The shard stands as early as it may, so that no worker prepares samples that it then throws away, and never where it
would change what is trained:
- after take, skip, filter and everything else that counts or chooses elements, and after a `map` that remembers some;
- after the batches are made where what is done with them is not surely done row by row;
- before an unseeded shuffle, so that no two workers need the same order, but after a `repeat(n)`;
- after a seeded shuffle (or where nothing is shuffled, after repeat): each global batch is then, sample for sample,
  that of the run on one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Callable

import libcst as cst

from migrator.analysis.mapped import Mapped
from migrator.facts.data.cache_files import file_of
from migrator.facts.data.pipeline import Pipeline, Step, batch_argument, is_finite_repeat, is_seeded
from migrator.facts.data.pipelines import Pipelines
from migrator.facts.data.reading import Consumption
from migrator.facts.data.remembering import Remembering
from migrator.facts.names import api
from migrator.facts.objects.passing import Passing
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, FunctionLike, Scope, Statement, Tree
from migrator.records import dataclass

_FOR_EACH_BATCH = (api.ELEMENTWISE - {"map"}) | api.ORDERING | {"take", "skip", "enumerate", "as_numpy_iterator"}
_HARMLESS_CALLS = frozenset(
    {
        "builtins.len",
        "builtins.print",
        "builtins.type",
        "tensorflow.data.experimental.cardinality",
    }
)
_HARMLESS_ATTRIBUTES = frozenset({"cardinality", "element_spec"})


@dataclass(frozen=True, eq=False)
class CutPipeline:
    """Shard and rebatch within the pipeline, in front of `statement`.

    `prefix` is the dataset of single elements, `target` the name that the statement gives its result (None: it
    returns it), `batch` the argument that holds the global batch size; `condition` is true where the same function
    makes the training data and not that for evaluation.
    """

    prefix: cst.BaseExpression
    target: cst.CSTNode | None
    statement: Statement
    batch: cst.Arg
    keeps_batch_name: bool
    condition: str | None = None


class PipelineCuts:
    """`consumptions` gives all places where training reads a dataset."""

    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        pipelines: Pipelines,
        consumptions: Callable[[], list[Consumption]],
        mapped: Mapped,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.pipelines = pipelines
        self.passing = Passing(resolver)
        self._remembering = Remembering(tree, resolver)
        self.mapped = mapped
        self._consumptions = consumptions

    def of(self, pipeline: Pipeline) -> CutPipeline | None:
        """The place for the shard in the pipeline; None where it has none in the script's text."""
        if len(pipeline.batch_steps) != 1 or pipeline.unseen or pipeline.source is None:
            return None
        batch_step = pipeline.batch_steps[0]
        if batch_step.method != "batch":
            return None  # what is padded to the longest, or grouped by length, is so within the global batch
        batch = batch_argument(batch_step)
        if any(file_of(step) is not None for step in pipeline.steps[pipeline.steps.index(batch_step) :]):
            return None  # the file would hold a share of batches of this size
        before = pipeline.steps[: pipeline.steps.index(batch_step) + 1]
        cut = self._cut(before[:-1])
        if any(is_finite_repeat(step) for step in before[cut:]):
            return None  # what evens the shares out would be repeated as well, and make more steps in the end
        anchor = before[cut]
        statement = self.tree.statement_of(anchor.call)
        if batch is None or self._crosses(anchor, batch_step, pipeline):
            return None
        if not all(map(self._is_for_each_row, pipeline.steps[len(before) :])):
            return None
        condition = None
        if not self._runs_once(anchor):
            condition = self._flag(anchor, pipeline)
            if condition is None:
                return None
        form = self._form(anchor, statement)
        if form is None:
            return None
        target, statement = form
        if any(True for _ in self.tree.loops_around(statement)):
            return None
        if not self._reads_only(pipeline, anchor) or not self._is_known_before(batch.value, statement):
            return None
        keeps_name = self._may_rebind(batch, statement)
        if condition is not None and not (keeps_name and isinstance(anchor.base, cst.Name)):
            return None
        if condition is not None and self._is_read_last(anchor.base):
            target = anchor.base  # on both ways, it is read by its name
        return CutPipeline(anchor.base, target, statement, batch, keeps_name, condition)

    def _is_read_last(self, base: cst.BaseExpression) -> bool:
        """Whether it is a local name that nothing reads behind this place."""
        scope = self.tree.scope_of(base)
        if not isinstance(base, cst.Name) or scope.lookup(base.value) is not scope:
            return False
        reads = {read for binding in self.resolver.reaching(base) for read in self.pipelines.loads.of(binding)}
        home, here = self.tree.function_of(base), self.tree.order[base]
        return all(self.tree.function_of(read) is home and self.tree.order[read] <= here for read in reads)

    def _is_for_each_row(self, step: Step) -> bool:
        """Whether a step behind the batches does with each row, and each batch, what it would do with any other."""
        if step.method == "map":
            return self.mapped.is_row_by_row(step.call) and not self._remembering.is_of(step)
        return step.method in _FOR_EACH_BATCH

    def _cut(self, steps: list[Step]) -> int:
        """The index of the first step that follows the shard."""
        order = ["scan" if self._remembering.is_of(s) else s.method for s in steps]
        first = next((i for i, m in enumerate(order) if m in api.ORDERING), len(order))
        free = all(m in api.ELEMENTWISE | api.ORDERING for m in order[first:])
        if free and "shuffle" in order and not self._is_reproducible(steps):
            repeats = [i for i, s in enumerate(steps[: order.index("shuffle")]) if is_finite_repeat(s)]
            order = order[: repeats[-1] + 1 if repeats else first]
        else:
            order = ["map" if m in ("cache", "snapshot") else m for m in order]
        files = [i + 1 for i, step in enumerate(steps) if file_of(step) is not None]
        return max((*files, *(i + 1 for i, m in enumerate(order) if m not in api.ELEMENTWISE)), default=0)

    def _is_reproducible(self, steps: list[Step]) -> bool:
        return self._remembering.seeds_everything or is_seeded(steps)

    def _flag(self, anchor: Step, pipeline: Pipeline) -> str | None:
        """The parameter that tells the training data from the other data that the function makes."""
        function = self.tree.function_of(anchor.call)
        ways = [w for c in self._consumptions() if anchor.call in (w := self._way(c))]
        if function is None or any(True for call in pipeline.calls for _ in self.tree.loops_around(call)):
            return None
        return self.passing.training_flag(function, ways)

    def _way(self, consumption: Consumption) -> list[cst.Call]:
        """The calls by which a consumption gets its dataset, those of its methods among them."""
        pipeline = self.pipelines.history(consumption.dataset)
        return [*pipeline.calls, *(step.call for step in pipeline.steps)]

    def _runs_once(self, anchor: Step) -> bool:
        """Whether the function of the step runs once: one that also makes the test data is not cut."""
        function = self.tree.function_of(anchor.call)
        passed = set()
        while function is not None:
            callers = self.resolver.callers(function)
            if len(callers) > 1 or function in passed or self._is_property(function):
                return False
            passed.add(function)
            if not callers:
                return True
            if any(True for _ in self.tree.loops_around(callers[0])):
                return False
            function = self.tree.function_of(callers[0])
        return True

    def _is_property(self, function: FunctionLike) -> bool:
        """Whether it runs where an attribute is read, as often as that is."""
        return isinstance(function, cst.FunctionDef) and self.resolver.is_property(function)

    def _crosses(self, anchor: Step, batch: Step, pipeline: Pipeline) -> bool:
        """Whether the dataset leaves the function between the two steps, through a call of another."""
        home = self.tree.function_of(anchor.call)
        if home is not self.tree.function_of(batch.call):
            return True
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
        for block in self._blocks_around(statement):
            if all(self._is_made_in(block, binding) for binding in self.resolver.reaching(anchor.base)):
                return self.tree.lift(statement, block)
        return None

    def _blocks_around(self, statement: Statement) -> Iterator[cst.CSTNode]:
        """The blocks that hold the statement within its function, innermost first."""
        yield (block := self.tree.block_of(statement))
        while isinstance(owner := self.tree.parent.get(block), cst.BaseCompoundStatement):
            if isinstance(owner, cst.FunctionDef):
                return
            yield (block := self.tree.block_of(owner))

    def _is_made_in(self, block: cst.CSTNode, binding: Binding) -> bool:
        if isinstance(binding.node, cst.Param):
            owner = self.tree.parent.get(block)
            return isinstance(owner, cst.FunctionDef)
        return self.tree.contains(block, binding.node)

    def _reads_only(self, pipeline: Pipeline, anchor: Step) -> bool:
        """Whether nothing but training reads the dataset from the cut on."""
        later = pipeline.steps[pipeline.steps.index(anchor) :]
        statements = {self.tree.statement_of(s.call) for s in later}
        allowed = {id(u) for u in pipeline.uses}
        for other in self._consumptions():
            allowed.update(id(u) for u in self.pipelines.history(other.dataset).uses)
        return all(
            self.is_harmless(use) or id(use) in allowed
            for binding in pipeline.bindings
            if self._follows(binding, statements, anchor)
            for use in self.pipelines.loads.of(binding)
        )

    def _follows(self, binding: Binding, statements: set[Statement], anchor: Step) -> bool:
        """Whether the binding holds the dataset after the cut."""
        if isinstance(binding.node, cst.Param):
            return self.tree.function_of(anchor.call) is not self.resolver.function_of_parameter(binding.node)
        statement = self.tree.statement_of(binding.node)
        return (
            statement in statements
            or self.tree.order[statement] > self.tree.order[self.tree.statement_of(anchor.call)]
            or (self.tree.function_of(statement) is not self.tree.function_of(anchor.call))
        )

    def is_harmless(self, use: cst.CSTNode) -> bool:
        parent = self.tree.parent.get(use)
        if isinstance(parent, cst.Attribute) and parent.value is use:
            return parent.attr.value in _HARMLESS_ATTRIBUTES
        call = self.tree.parent.get(parent) if isinstance(parent, cst.Arg) else None
        return isinstance(call, cst.Call) and any(name in _HARMLESS_CALLS for name in self.resolver.public(call.func))

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
