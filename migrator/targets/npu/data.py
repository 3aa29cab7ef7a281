"""The workers' shares of the data: `npu.distribute.shard_and_rebatch_dataset`, and plain slices for all else."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Edit, InsertBefore, Refusal, Replace, Wrap
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.pipeline_cuts import CutPipeline
from migrator.facts.data.sharding import CutBatches
from migrator.facts.objects.values import Literal
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.script import Facts
from migrator.targets.npu.refusing import refuse
from migrator.targets.npu.setup import Setup
from migrator.targets.npu.sites import Site, is_primary

_ORDER = "by chance, each worker would have other data here, or the same in another order"
_SEED = "set a seed (np.random.seed, tf.random.set_seed, random_state=...)"
# These know how many elements they have; the methods keep it known.
_COUNTED_SOURCES = ("tensorflow.data.Dataset.from_tensor_slices", "tensorflow.data.Dataset.range")
_COUNTING_METHODS = frozenset({"map", "with_options", "prefetch", "shuffle", "cache", "take", "skip", "enumerate"})


class Data:
    def __init__(self, facts: Facts, setup: Setup) -> None:
        self._facts = facts
        self._setup = setup

    # -- datasets ------------------------------------------------------------------------------------------------

    def shard_and_rebatch_dataset(self, site: Site) -> Iterator[Edit | Refusal]:
        """The guide's call, of as many samples as all workers get alike: without, they would make other numbers of
        steps."""
        plans = self._facts.sharding.plans
        plan = next((p for p in plans if isinstance(p, CutPipeline) and p.statement is site.node), None)
        if plan is None:
            yield refuse(site.node, "what this dataset is made of cannot be seen")
            return
        pipeline = self._facts.pipelines.history(plan.prefix)
        refusal = self._own_order(site, pipeline)
        if refusal is not None:
            yield refusal
            return
        dataset, batch_size = site.arguments
        function = f"{self._setup.npu}.distribute.shard_and_rebatch_dataset"
        even = self._even(dataset, pipeline, plan)
        if not even:
            yield site.written(f"{function}({dataset}, {batch_size})")
            return
        # A condition may stand above the call: then above the line before it as well.
        condition, _, head = site.head.rpartition("\n")
        indent = head[: len(head) - len(head.lstrip())]
        name = head.split(",")[0].strip()
        lines = [f"{indent}{name} = {even}", f"{head}{function}({name}, {batch_size})"]
        yield InsertBefore(site.node, ("\n".join([condition, *lines] if condition else lines),))

    def _even(self, dataset: str, pipeline: Pipeline, plan: CutPipeline) -> str:
        """The dataset without the last samples that not every worker would get one of; empty where it never ends."""
        if self._is_endless(pipeline) or any(self._goes_on(p) for p in self._pipelines_through(plan)):
            return ""
        size = self._setup.size
        if self._is_counted(pipeline):
            return f"{dataset}.take(len({dataset}) // {size} * {size})"
        return f"{dataset}.batch({size}, drop_remainder=True).unbatch()"

    def _pipelines_through(self, plan: CutPipeline) -> Iterator[Pipeline]:
        for consumption in self._facts.sharding.consumptions:
            pipeline = self._facts.pipelines.history(consumption.dataset)
            if any(step.base is plan.prefix for step in pipeline.steps):
                yield pipeline

    def _goes_on(self, pipeline: Pipeline) -> bool:
        """Whether a source of unknown length is repeated without end: no worker is done before the others."""
        return not self._is_counted(pipeline) and self._is_endless(pipeline)

    @staticmethod
    def _is_endless(pipeline: Pipeline) -> bool:
        for step in pipeline.steps:
            count = argument(step.call, "count", 0)
            if step.method == "repeat" and (count is None or is_none(count.value)):
                return True
        return False

    @staticmethod
    def _is_counted(pipeline: Pipeline) -> bool:
        before = []
        for step in pipeline.steps:
            if step.method in ("batch", "padded_batch", "repeat"):
                break
            before.append(step.method)
        return not pipeline.unseen and pipeline.source_path in _COUNTED_SOURCES and set(before) <= _COUNTING_METHODS

    def shard_batches(self, site: Site) -> Iterator[Edit | Refusal]:
        """A `map` that splits each batch; one that does not divide is an error, as with `np.split` in the guide."""
        plan = next(
            (
                p
                for p in self._facts.sharding.plans
                if isinstance(p, CutBatches) and (p.before is site.node or p.dataset is site.node)
            ),
            None,
        )
        if plan is None or not self._facts.pipelines.is_dataset(plan.dataset):
            yield refuse(site.node, "what hands out these batches is not seen to be a tf.data.Dataset")
            return
        refusal = self._own_order(site, self._facts.pipelines.history(plan.dataset))
        if refusal is not None:
            yield refusal
            return
        setup, indent = self._setup, self._facts.indent(site.node)
        share = f"{setup.tensorflow}.split(x, {setup.size})[{setup.rank}]"
        cut = f"lambda _, batch: {setup.tensorflow}.nest.map_structure(lambda x: {share}, batch)"
        after = f".enumerate().map(\n{indent}{cut}\n)"
        if not isinstance(site.edit, Wrap):
            yield site.written(site.arguments[0] + after)
            return
        # In a line of its own: it is too long for one more argument.
        node, name = site.edit.node, setup.named_anew("local_batches")
        opening, closing = ("", "") if is_primary(node) else ("(", ")")
        yield InsertBefore(node, (f"{name} = {opening}", node, closing + after))
        yield Replace(node, (name,))

    def _own_order(self, site: Site, pipeline: Pipeline) -> Refusal | None:
        """A refusal where chance would give each worker other data, or the same in another order."""
        if pipeline.unseen and not self._facts.chance.seeds_datasets:
            return refuse(
                site.node, f"whether all workers read these data in one order cannot be seen: {pipeline.unseen}"
            )
        order = self._facts.chance.unseeded_order(pipeline)
        source = pipeline.source.args if pipeline.source is not None else ()
        return refuse(order, _ORDER, _SEED) if order is not None else self._own_data(*(arg.value for arg in source))

    def _own_data(self, *data: cst.CSTNode) -> Refusal | None:
        """A refusal where the data are drawn by chance, or were put in an order by it."""
        drawn = self._facts.chance.data_draw or self._facts.chance.drawn_tensor(*data)
        return refuse(drawn, _ORDER, _SEED) if drawn is not None else None

    # -- arrays --------------------------------------------------------------------------------------------------

    def shard_arrays(self, site: Site) -> Iterator[Edit | Refusal]:
        """Every N-th sample of each array, as many on all workers."""
        edit = site.edit
        if not isinstance(edit, Wrap):
            yield refuse(site.node, "these arrays are cut in a place that is not an argument")
            return
        if "validation_split" in site.keywords:
            yield refuse(
                edit.node,
                "`fit` would cut each worker's share for validation by itself, in another place than that of the whole",
                "pass validation_data=... instead of validation_split",
            )
            return
        arrays = self._arrays_in_one_order(edit)
        if isinstance(arrays, Refusal):
            yield arrays
        else:
            yield from self._slices(edit, arrays)

    def shard_batch(self, site: Site) -> Iterator[Edit | Refusal]:
        """Every N-th row of a batch. N must divide the rows, unless the loss is their sum."""
        setup, facts = self._setup, self._facts
        edit, share = site.edit, f"[{setup.rank}::{setup.size}]"
        if isinstance(edit, Wrap) and any(made.node is edit.node for made in facts.sharding.made):
            yield site.around("", share)  # made with the size that the batches of the dataset have
            return
        if not isinstance(edit, Wrap):
            own = self._own_data()
            if own is not None:
                yield own
                return
            yield from self._whole_rows(site, site.arguments[0])
            yield site.written(", ".join(name + share for name in site.arguments))
            return
        arrays = self._arrays_in_one_order(edit)
        if isinstance(arrays, Refusal):
            yield arrays
            return
        first = next(iter(self._all_arrays(edit)), None) or arrays[0]
        yield from self._whole_rows(site, facts.source(_as_long_as(first)))
        for array in arrays:
            opening, closing = ("", "") if is_primary(array) else ("(", ")")
            yield Wrap(array, opening, closing + share)

    def _whole_rows(self, site: Site, batch: str) -> Iterator[Edit]:
        if site.keywords.get("loss") != '"sum"':
            statement = self._facts.tree.statement_of(site.node)
            yield InsertBefore(statement, (f"assert len({batch}) % {self._setup.size} == 0",))

    def _arrays_in_one_order(self, edit: Wrap) -> list[cst.CSTNode] | Refusal:
        """The arrays that the edit wraps; a refusal where chance would give each worker others."""
        if edit.before.endswith("*"):
            return refuse(
                edit.node, "the arrays that this unpacks cannot be cut here", "pass each by itself, as x and y"
            )
        arrays: list[cst.CSTNode] = []
        for node in [edit.node] if edit.last is None else [edit.node, edit.last]:
            found = self._arrays(node)
            if isinstance(found, Refusal):
                return found
            arrays.extend(found)
        return self._own_data(*arrays) or arrays

    def _slices(self, edit: Wrap, arrays: list[cst.CSTNode]) -> Iterator[Edit]:
        setup, facts = self._setup, self._facts
        statement = facts.tree.statement_of(edit.node)
        samples = setup.named("samples")
        first = next(iter(self._all_arrays(edit)), None) or arrays[0]
        length = f"len({facts.source(_as_long_as(first))}) // {setup.size} * {setup.size}"
        yield InsertBefore(statement, (f"{samples} = {length}",))
        for array in arrays:
            opening, closing = ("", "") if is_primary(array) else ("(", ")")
            yield Wrap(array, opening, f"{closing}[{setup.rank}:{samples}:{setup.size}]")

    def _all_arrays(self, edit: Wrap) -> list[cst.CSTNode]:
        """The arrays of the first data argument of the call, of which all others have the length."""
        call = next((o for o in self._facts.tree.ancestors(edit.node) if isinstance(o, cst.Call)), None)
        x = argument(call, "x", 0) if call is not None else None
        found = self._arrays(x.value) if x is not None else []
        return [] if isinstance(found, Refusal) else found

    def _arrays(self, node: cst.CSTNode) -> list[cst.CSTNode] | Refusal:
        """The arrays in an argument: itself, or the members of a display of several inputs."""
        if is_none(node):
            return []
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
            members: list[cst.CSTNode] = []
            for element in node.elements:
                found = self._arrays(element.value)
                if isinstance(found, Refusal):
                    return found
                members.extend(found)
            return members
        if any(isinstance(part, (cst.Call, cst.NamedExpr, cst.Lambda)) for part in self._below(node)):
            return refuse(node, "an array that is made in this call cannot be cut there", "give it a name first")
        values = self._facts.resolver.values(node)
        if any(isinstance(v, Literal) for v in values):
            return refuse(
                node, "whether this is one array or a list of several cannot be seen", "write the list in the call"
            )
        return [node]

    def _below(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        yield node
        for child in node.children:
            yield from self._below(child)

    # -- batch sizes ---------------------------------------------------------------------------------------------

    def local_batch_size(self, site: Site) -> Iterator[Edit | Refusal]:
        """The batch size over the number of workers, which must divide it."""
        size = self._setup.size
        node = site.edit.node if isinstance(site.edit, Wrap) else None
        text = self._facts.source(node) if node is not None else site.arguments[0]
        plain = is_primary(node) if node is not None else is_primary(cst.parse_expression(text))
        text = text if plain else f"({text})"
        yield InsertBefore(site.node, (f"assert {text} % {size} == 0",))
        if isinstance(site.edit, Wrap):
            yield site.around("" if plain else "(", f"{'' if plain else ')'} // {size}")
        else:
            yield site.written(f"{text} // {size}")


def _as_long_as(array: cst.CSTNode) -> cst.CSTNode:
    """A shorter expression for something with as many samples: `x` for `x / 255.0` and `x[:, :, None]`."""
    if isinstance(array, cst.BinaryOperation) and isinstance(array.right, cst.BaseNumber):
        return _as_long_as(array.left)
    if isinstance(array, cst.Subscript) and len(array.slice) > 1:
        first = array.slice[0].slice
        if isinstance(first, cst.Slice) and first.lower is first.upper is first.step is None:
            return _as_long_as(array.value)
    return array
