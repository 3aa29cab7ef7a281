"""What keeps the batches of a dataset or of arrays from being split over workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis.mapped import Mapped
from migrator.edits import Refusal
from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.data.batch_shapes import BatchShapes, DoubtfulSize, Made, Shown, Size
from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.cache_files import CacheFiles
from migrator.facts.data.displays import Displays
from migrator.facts.data.first_axis import FirstAxis
from migrator.facts.data.meanwhile import Meanwhile
from migrator.facts.data.noise import Noise
from migrator.facts.data.pipeline import Pipeline, Step, batch_argument
from migrator.facts.data.reading import Consumption
from migrator.facts.data.size_uses import SizeUses
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Parameter, Value
from migrator.facts.program.syntax import argument, dotted, is_none, method_called
from migrator.facts.program.tree import Binding, Loop, Tree
from migrator.facts.randomness.entropy import Entropy
from migrator.facts.training.sites import Training

_AFTER_BATCH = api.ELEMENTWISE | api.ORDERING | {
    "take", "skip", "filter", "take_while", "enumerate", "apply", "rebatch", "as_numpy_iterator", "scan",
}  # fmt: skip
_SHAPES_WITH_BATCH = frozenset({"batch_input_shape", "batch_shape"})


def _is_for_input_pipelines(step: Step) -> bool:
    """`dataset.shard(context.num_input_pipelines, context.input_pipeline_id)`: on one device there is one pipeline."""
    names = [arg.value.attr.value for arg in step.call.args if isinstance(arg.value, cst.Attribute)]
    return names == ["num_input_pipelines", "input_pipeline_id"]


def built_in_size(tree: Tree) -> Refusal | None:
    """A refusal where a layer has the size of the global batch in its input shape."""
    for call in tree.calls:
        for arg in call.args:
            if arg.keyword is not None and _fixes_batch(arg.keyword.value, arg.value, call):
                return Refusal(
                    arg.value,
                    "the model's input has the global batch size built in, so its batches cannot be split",
                    "leave the batch dimension open (None)",
                )
    return None


def _fixes_batch(keyword: str, value: cst.BaseExpression, call: cst.Call) -> bool:
    if keyword == "batch_size":
        name = method_called(call) or dotted(call.func)
        return name in ("Input", "InputLayer") and not is_none(value)
    if keyword == "stateful":
        return isinstance(value, cst.Name) and value.value == "True"
    return keyword in _SHAPES_WITH_BATCH and _is_fixed(value)


def _is_fixed(shape: cst.BaseExpression) -> bool:
    first = shape.elements[0].value if isinstance(shape, (cst.Tuple, cst.List)) and shape.elements else None
    return first is not None and not (isinstance(first, cst.Name) and first.value == "None")


def _function_of(step: Step) -> cst.Arg | None:
    """The function that makes the elements: of `map`, or of `scan`, beside its state."""
    if step.method == "scan":
        return argument(step.call, "scan_func", 1)
    return argument(step.call, "map_func", 0) if step.method == "map" else None


def _is_run_by_threads(step: Step) -> bool:
    parallel = argument(step.call, "num_parallel_calls", 1) if step.method == "map" else None
    return parallel is not None and not is_none(parallel.value)


class Obstacles:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sources: BatchSources,
        cache_files: CacheFiles,
        mapped: Mapped,
        forms: BatchForms,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sources = sources
        self.cache_files = cache_files
        self.mapped = mapped
        self._forms = forms
        self.kinds = training.kinds
        self.entropy = Entropy(tree, resolver, training)
        self._batch_shapes = BatchShapes(tree, resolver)
        self._size_uses = SizeUses(tree, resolver, self.kinds, self._batch_shapes)
        self._noise = Noise(tree, resolver, training, self._batch_shapes)
        self._displays = Displays(tree, resolver, training)
        self._first_axis = FirstAxis(resolver)
        self._meanwhile = Meanwhile(training, sources)

    @cached_property
    def own_randomness(self) -> Refusal | None:
        """A refusal where the script trains on what no common seed makes equal on all workers."""
        return self.entropy.refusal()

    def to(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        """Why the batches of this dataset cannot be split; None where they can."""
        if len(pipeline.ways) > 1:
            return self._to_each(pipeline, consumption)
        return self._to_one(pipeline, consumption)

    def _to_each(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        """For one of several datasets: each must bear it."""
        if any(way.is_sharded for way in pipeline.ways):
            why = f"whether this dataset is cut already cannot be seen: {pipeline.unseen}"
            return Refusal(consumption.dataset, why, "cut it in one place, or nowhere", breaks_training=True)
        for way in pipeline.ways:
            if not way.is_batched and way.unseen:
                why = f"whether this dataset holds batches cannot be seen: {way.unseen}"
                return Refusal(
                    consumption.dataset, why, "give the dataset a .batch(...) in this file, or shard it by hand"
                )
        return next(filter(None, (self._to_one(way, consumption) for way in pipeline.ways)), None)

    def _to_one(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        if any(s.method == "shard" and not self._is_a_fold(s) for s in pipeline.steps):
            return Refusal(
                consumption.dataset,
                "this dataset is cut by Dataset.shard already",
                "remove the shard, then migrate again",
            )
        reader = consumption.reader
        threads = self.sources.obstacle(consumption.dataset, reader) if isinstance(reader, cst.Call) else None
        return (
            self.own_randomness
            or threads
            or self._batching(pipeline, consumption)
            or self._mixing(pipeline)
            or self._changing(pipeline, consumption)
            or self._layout(pipeline, consumption)
            or built_in_size(self.tree)
            or self._step(pipeline, consumption)
        )

    def to_equality(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        """Why the workers would not all read the same from this dataset, as a whole."""
        reader = consumption.reader
        threads = self.sources.obstacle(consumption.dataset, reader) if isinstance(reader, cst.Call) else None
        steps = [step for way in pipeline.ways for step in way.steps]
        drawn = threads or next(filter(None, map(self._drawn_by_threads, steps)), None)
        return drawn or self._changing(pipeline, consumption)

    def _drawn_by_threads(self, step: Step) -> Refusal | None:
        draw = self.mapped.drawn_by_chance(step.call) if _is_run_by_threads(step) else None
        if draw is None:
            return None
        why = "several threads draw these random numbers, in another order on each worker"
        advice = "leave out num_parallel_calls, or draw by tf.random.stateless_... with a seed from the data"
        return Refusal(draw, why, advice, breaks_training=True)

    def _is_a_fold(self, step: Step) -> bool:
        """Whether every worker takes the same part: that of the one input pipeline, or one by numbers that the script
        has written, or counts."""
        return _is_for_input_pipelines(step) or all(self._is_counted(arg.value) for arg in step.call.args)

    def _is_counted(self, node: cst.BaseExpression, passed: frozenset[Binding] = frozenset()) -> bool:
        """Whether it is a number that is written out, or one of a range of such; `passed`: bindings on the way."""
        if isinstance(node, cst.Name):
            found = self.resolver.reaching(node)
            return bool(found) and all(b in passed or self._binds_counted(b, passed | {b}) for b in found)
        if isinstance(node, cst.Call):
            values = self.resolver.values(node.func)
            is_range = values == (External("builtins.range"),)
            return is_range and all(self._is_counted(arg.value, passed) for arg in node.args)
        return isinstance(node, cst.Integer)

    def _binds_counted(self, binding: Binding, passed: frozenset[Binding]) -> bool:
        is_whole = binding.kind in ("assign", "for") and not binding.path
        return is_whole and isinstance(binding.value, cst.BaseExpression) and self._is_counted(binding.value, passed)

    def file(self, pipeline: Pipeline) -> Refusal | None:
        """A refusal where the pipeline writes a file, which all workers would do at a time."""
        caches_alone = self.cache_files.are_own(pipeline.steps)
        for step in pipeline.steps:
            if step.call.args and (step.method == "snapshot" or (step.method == "cache" and not caches_alone)):
                return Refusal(
                    step.call,
                    "all workers would write this dataset's cache to one file",
                    "cache in memory, or prepare the file beforehand",
                    breaks_training=True,
                )
        return None

    def _batching(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        if not pipeline.is_batched and self._is_fit(consumption.reader):
            return None  # what `fit` reads from a dataset are batches
        if not pipeline.is_batched and not self._gives_batches(pipeline, consumption):
            why = "this dataset is not batched, so there is nothing to split"
            if pipeline.unseen:
                why = f"whether this dataset holds batches cannot be seen: {pipeline.unseen}"
            advice = "give the dataset a .batch(...) in this file, or shard it by hand"
            return Refusal(consumption.dataset, why, advice)
        strange = next((s for s in self._behind_batches(pipeline) if s.method not in _AFTER_BATCH), None)
        if strange is None and pipeline.regroups and self._trains_in_loop(consumption):
            strange = pipeline.batch_steps[-1]  # each of the batches in a batch may be a step of its own
        if strange is None:
            return None
        return Refusal(
            strange.call,
            f"`{strange.method}` after the batches are made leaves no global batch to split",
            "batch once, at the end of the pipeline",
            breaks_training=True,
        )

    def _gives_batches(self, pipeline: Pipeline, consumption: Consumption) -> bool:
        """Whether a generator gives batches: by their shapes, as the script says them, all parts have as many rows, and
        a model takes these as they are."""
        source, reader = pipeline.source, consumption.reader
        if source is None or not pipeline.source_path.endswith(".from_generator") or not isinstance(reader, cst.For):
            return False
        said = argument(source, "output_signature") or argument(source, "output_shapes", 2)
        read = [name for name in self.tree.names_in(reader.target) if name.value != "_"]
        sizes = self._first_sizes(said.value) if said is not None else {""}
        is_said = len(sizes) == 1 and "" not in sizes
        return is_said and bool(read) and self._forms.are_batches(read, self._step_bodies(consumption))

    def _first_sizes(self, shapes: cst.BaseExpression) -> set[str]:
        """The first of each of the shapes that are written out; empty for one that has none, or is not seen."""
        if isinstance(shapes, cst.Call):
            paths = set(self.resolver.public(shapes.func))
            shape = argument(shapes, "shape", 0) or argument(shapes, "dims", 0)
            is_shape = bool(paths) and all(path.endswith(("TensorSpec", ".TensorShape")) for path in paths)
            return self._first_sizes(shape.value) if is_shape and shape is not None else {""}
        if isinstance(shapes, cst.Dict) and shapes.elements:
            return {size for pair in shapes.elements for size in self._first_sizes(pair.value)}
        if not isinstance(shapes, (cst.Tuple, cst.List)) or not shapes.elements:
            return {""}
        parts = [element.value for element in shapes.elements]
        if not any(isinstance(part, (cst.Tuple, cst.List, cst.Dict, cst.Call)) for part in parts):
            return {cst.Module([]).code_for_node(parts[0])}
        return {size for part in parts for size in self._first_sizes(part)}

    @staticmethod
    def _behind_batches(pipeline: Pipeline) -> list[Step]:
        """The steps that are given batches."""
        batch = pipeline.batch_steps[-1] if pipeline.batch_steps else None
        return pipeline.steps[pipeline.steps.index(batch) + 1 :] if batch is not None else pipeline.steps

    def _mixing(self, pipeline: Pipeline) -> Refusal | None:
        """Threads take turns by chance: random numbers that mix rows would mix others on each worker."""
        for step in self._behind_batches(pipeline):
            if not _is_run_by_threads(step) or self.mapped.is_row_by_row(step.call):
                continue
            draw = self.mapped.mixed_by_chance(step.call)
            if draw is not None:
                why = "several threads draw the random numbers that mix the rows of these batches, in another order on "
                advice = "leave out num_parallel_calls, or draw by tf.random.stateless_... with a seed from the data"
                return Refusal(draw, why + "each worker", advice, breaks_training=True)
        return None

    def _changing(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        is_fit = self._is_fit(consumption.reader)
        return self._meanwhile.refusal(pipeline, consumption, [] if is_fit else self._step_bodies(consumption), is_fit)

    def _layout(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        """A batch is cut along its first axis."""
        made: list[cst.BaseExpression] = []
        for step in self._behind_batches(pipeline) if pipeline.is_batched else ():
            given = _function_of(step)
            functions = [v.node for v in self.resolver.values(given.value) if isinstance(v, Function)] if given else []
            for function in functions:
                if isinstance(function, cst.Lambda):
                    made.append(function.body)
                else:
                    made += self.resolver.returned(function)
        made += self.sources.handed_out(consumption.dataset)
        moved = next(filter(None, map(self._first_axis.moved_in, made)), None)
        if moved is None:
            return None
        why = "the samples are not along the first axis of these batches, where they would be cut"
        advice = "put the samples first, and turn the axes round in the model"
        return Refusal(moved, why, advice, breaks_training=True)

    def _is_fit(self, reader: cst.CSTNode) -> bool:
        return any(fit.call is reader for fit in self.training.fits)

    def _step(self, pipeline: Pipeline, consumption: Consumption) -> Refusal | None:
        """A training step that counts on the global batch size would meet the local one."""
        shapes = self.shapes(pipeline, consumption)
        return shapes if isinstance(shapes, Refusal) else None

    def shapes(self, pipeline: Pipeline, consumption: Consumption) -> list[Made | Size | Shown] | Refusal:
        """What the training step makes with the size of the global batch; a refusal where it does more with it."""
        batch = batch_argument(pipeline.batch_steps[-1]) if pipeline.batch_steps else None
        bodies = self._step_bodies(consumption)
        if batch is not None and isinstance(batch.value, cst.Integer):
            return list(self._noise.of(batch.value, bodies))
        if batch is None or not isinstance(batch.value, (cst.Name, cst.Attribute, cst.Subscript)):
            return []
        found: list[Made | Size | Shown] = []
        handed_over = self._size_uses.handed_over(batch.value)
        for use in self._size_uses.of(batch.value):
            if self.tree.contains(consumption.dataset, use):
                continue  # the dataset is made of it there
            if use in handed_over and not self.tree.is_in(use, bodies):
                continue  # another call of the function that makes the dataset
            cut = self._cut_by(use)
            made_by = self._makers(cut, consumption) if cut is not None else []
            cuts = consumption.reader in made_by
            if cut is not None and made_by and self._is_shown(cut, consumption):
                found.append(Shown(cut, is_made=not cuts))
                continue
            in_step = self.tree.is_in(use, bodies)
            if cuts or not self._size_uses.makes_rows(use, in_step=in_step) or self._is_own(use, batch):
                continue  # what is cut of the batch itself is gathered where all of its rows are needed
            if self._batch_shapes.is_said(use):
                continue
            kept = self._size_uses.is_kept(use)
            if in_step or kept or self._batch_shapes.reaches(use, bodies):
                shapes = self._batch_shapes.of(use, bodies[0]) if bodies else None
                if shapes is None:
                    return self._refuse_size(use)
                found += [shape for shape in shapes if not self._displays.holds(shape.node, bodies)]
            elif bodies:
                found += self._batch_shapes.of_generator(use, bodies[0])
        return found

    def _refuse_size(self, use: cst.BaseExpression) -> Refusal:
        return DoubtfulSize(
            use,
            f"the training step uses the global batch size `{self.tree.modules[0].code_for_node(use)}`, but each "
            "worker has only its part of a batch",
            "take the size from the batch itself, for instance tf.shape(x)[0]",
            breaks_training=True,  # nothing tells that all workers are given the same batch
        )

    def _cut_by(self, use: cst.BaseExpression) -> cst.Name | None:
        """The `x` of `x[: batch_size // 2]`."""
        for owner in self.tree.ancestors(use):
            if isinstance(owner, cst.Subscript) and isinstance(owner.value, cst.Name):
                return owner.value
            if isinstance(owner, (cst.BaseStatement, cst.BaseSmallStatement)):
                return None
        return None

    def _makers(self, cut: cst.Name, consumption: Consumption) -> list[cst.CSTNode]:
        """What gives the name its value: the loop that reads the batches, or what stands in it."""
        reader = consumption.reader
        found = [binding.node for binding in self.resolver.reaching(cut)]
        return [node for node in found if node is reader or self.tree.contains(reader, node)]

    def _is_shown(self, batch: cst.Name, consumption: Consumption) -> bool:
        """Whether an assignment, next to the loop that has read the batch or further out, looks at the last one: all
        workers come there."""
        reader = consumption.reader
        if not isinstance(reader, cst.For) or self.tree.contains(reader, batch):
            return False
        line = self.tree.statement_of(batch)
        is_assigned = isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Assign)
        return is_assigned and self.tree.contains(self.tree.parent[line], reader)

    def to_rows(
        self, sizes: list[cst.Name], steps: list[cst.CSTNode], cut: Sequence[cst.CSTNode] = ()
    ) -> Refusal | None:
        """Why batches that a loop makes of arrays cannot be split. `sizes`: the names that they are made of; `cut`: the
        expressions that make them in the step."""
        for size in sizes:
            for use in self._size_uses.of(size):
                inside = self.tree.is_in(use, steps)
                if self.tree.is_in(use, cut) or self._batch_shapes.is_said(use):
                    continue
                if inside and self._size_uses.makes_rows(use) and self._is_size(use):
                    return Refusal(
                        use,
                        f"the training step uses the global batch size `{size.value}`, but each worker has only its "
                        "part of a batch",
                        "take the size from the batch itself, for instance tf.shape(x)[0]",
                        breaks_training=True,
                    )
        return self.own_randomness or built_in_size(self.tree)

    def _is_size(self, use: cst.BaseExpression) -> bool:
        values = self.resolver.values(use)
        return any(isinstance(v, Parameter) or (isinstance(v, Literal) and not _holds_several(v)) for v in values)

    def kept_by_model(self, size: cst.BaseExpression) -> Refusal | None:
        """A refusal where a model that `fit` trains has the batch size in it."""
        handed_over = self._size_uses.handed_over(size)
        for use in self._size_uses.of(size):
            if use in handed_over:
                continue  # another call of the function that trains
            if self._size_uses.is_kept(use) and self._size_uses.makes_rows(use):
                return Refusal(
                    use,
                    "the model keeps the global batch size, but each worker has only its part of a batch",
                    "take the size from the batch itself, for instance tf.shape(x)[0]",
                    breaks_training=True,
                )
        return None

    def _step_bodies(self, consumption: Consumption) -> list[cst.CSTNode]:
        """The code that runs for each batch; for each of several that a loop takes by `next` where it makes updates
        behind these, too: those of a generator, after a few of its critic."""
        reader = consumption.reader
        if isinstance(reader, cst.Call):
            loops = list(self.tree.loops_around(reader))
            behind = [loop for loop, inner in zip(loops[1:], loops) if self._updates_behind(inner, loop)]
            return self.training.reached_from([*loops[:1], *behind][-1].body) if loops else []
        return self.training.reached_from(reader.body if isinstance(reader, cst.For) else self.tree.parent[reader])

    def _updates_behind(self, inner: Loop, loop: Loop) -> bool:
        """Whether the loop makes updates beside the inner one, and in no other loop that reads batches of its own."""
        loops: list[Loop] = [*self.tree.all_of(cst.For), *self.tree.all_of(cst.While)]
        others = [each for each in loops if self.tree.contains(loop.body, each)]
        reading = [each for each in others if each is inner or self._reads_batches(each)]
        inside = {update for each in reading for update in self._updates_in(each)}
        return bool(self._updates_in(loop) - inside)

    def _updates_in(self, loop: Loop) -> set[cst.CSTNode]:
        bodies, calls = self.training.reached_from(loop.body), (update.call for update in self.training.updates)
        return {call for call in calls if self.tree.is_in(call, bodies)}

    def _reads_batches(self, loop: Loop) -> bool:
        if isinstance(loop, cst.For) and any(map(self.kinds.is_dataset, self.resolver.values(loop.iter))):
            return True
        paths = {v for call in self.tree.calls if self.tree.contains(loop.body, call) for v in self._called(call)}
        return External("builtins.next") in paths

    def _called(self, call: cst.Call) -> tuple[Value, ...]:
        is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "get_next"
        return (External("builtins.next"),) if is_method else self.resolver.values(call.func)

    def _trains_in_loop(self, consumption: Consumption) -> bool:
        """Whether the code that runs for each batch makes its updates in a loop of its own."""
        loops = (
            loop
            for body in self._step_bodies(consumption)
            for loop in self.tree.all_of(cst.For, cst.While)
            if self.tree.contains(body, loop)
        )
        bodies = [body for loop in loops for body in self.training.reached_from(loop)]
        return any(self.tree.contains(body, site) for body in bodies for site in self.training.sites)

    def _is_own(self, use: cst.BaseExpression, batch: cst.Arg) -> bool:
        """The pipelines themselves: this one, and those of other data."""
        arg = self.tree.parent.get(use)
        call = self.tree.parent.get(arg) if isinstance(arg, cst.Arg) else None
        is_batching = isinstance(call, cst.Call) and method_called(call) == "batch"
        return is_batching or self.tree.contains(self._line_of(batch), use)

    def _line_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement that the node stands in; of a loop over it, what the loop goes through."""
        statement = self.tree.statement_of(node)
        if isinstance(statement, cst.SimpleStatementLine):
            return statement
        return next(owner for owner in self.tree.ancestors(node) if self.tree.parent.get(owner) is statement)


def _holds_several(value: Literal) -> bool:
    return isinstance(value.node, (cst.Dict, cst.DictComp, cst.List, cst.ListComp, cst.Tuple))
