"""How each training dataset is split over the workers: where in its pipeline, or where it is read.

Where the pipeline cannot be cut in the script's text, or is repeated a number of times behind an unseeded shuffle, its
batches are cut where training reads them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.analysis.mapped import Mapped
from migrator.edits import Refusal
from migrator.facts.data.batch_cuts import Cut, CutExpressions
from migrator.facts.data.batch_shapes import Made, Shown, Size
from migrator.facts.data.begun_anew import BegunAnew
from migrator.facts.data.cache_files import CacheFiles
from migrator.facts.data.came_along import CameAlong
from migrator.facts.data.fit_arrays import FitArrays
from migrator.facts.data.minibatches import MinibatchFinder
from migrator.facts.data.obstacles import Obstacles
from migrator.facts.data.order import Order, UnseededFiles
from migrator.facts.data.order_flags import AnyOrder
from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.pipeline_cuts import CutPipeline, PipelineCuts
from migrator.facts.data.reading import Consumption, Reading
from migrator.facts.data.unseen_options import HiddenFlag
from migrator.facts.objects.keywords import Keywords
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Object
from migrator.facts.program.syntax import argument, method_called
from migrator.facts.program.tree import Statement, Tree
from migrator.facts.training.sites import Fit, Training, Update
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class CutBatches:
    """Cut each global batch where training reads the dataset.

    `before`, where given, is the loop in front of which the name can be given its share once, for all that read it
    from there on.
    """

    dataset: cst.BaseExpression
    before: Statement | None = None


def _place(plan: CutBatches | Refusal) -> cst.CSTNode:
    return plan.node if isinstance(plan, Refusal) else plan.dataset


_AS_COMPLETED = frozenset({"concurrent.futures.as_completed", "asyncio.as_completed"})

Plan = Union[CutPipeline, CutBatches, Refusal]


class Sharding:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        reading: Reading,
        minibatches: MinibatchFinder,
        keywords: Keywords,
        mapped: Mapped,
        trained_with: Callable[[], str],
        *,
        cuts: bool = True,
    ) -> None:
        """`trained_with` names the package that nobody knows of which something comes into the training, or none;
        `cuts`: whether anything is split, or every worker trains on all of the data."""
        self.cuts = cuts
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.reading = reading
        self.minibatches = minibatches
        self._trained_with = trained_with
        self.pipelines = reading.pipelines
        self._order = Order(tree, resolver)
        self._ordered: list[tuple[Pipeline, cst.BaseExpression | None]] = []
        kinds, ranks = training.kinds, reading.pipelines.ranks
        self.cache_files = CacheFiles(tree, resolver, training, ranks)
        sources, forms = reading.pipelines.sources, minibatches.forms
        self.obstacles = Obstacles(tree, resolver, training, sources, self.cache_files, mapped, forms)
        self.fit_arrays = FitArrays(tree, resolver, kinds, ranks, keywords, self.obstacles)
        self._cuts = PipelineCuts(tree, resolver, reading.pipelines, lambda: self.consumptions, mapped)
        self._begun_anew = BegunAnew(training, reading)

    # -- plans ---------------------------------------------------------------------------------------------------

    @property
    def consumptions(self) -> list[Consumption]:
        """Each place where training reads a dataset that is to be split, once."""
        return self.read if self.cuts else []

    @cached_property
    def read(self) -> list[Consumption]:
        """Each place where training reads a dataset, once."""
        found: dict[cst.CSTNode, Consumption] = {}
        for update in self.training.updates:
            for consumption in self.reading.consumptions(update):
                found.setdefault(consumption.dataset, consumption)
        for fit in self.training.fits:
            arg = argument(fit.call, "x", 0)
            if arg is not None and (
                self.pipelines.is_dataset(arg.value) or self.pipelines.sources.is_source(arg.value)
            ):
                found.setdefault(arg.value, Consumption(arg.value, fit.call))
        return list(found.values())

    @property
    def shuffled_by_time(self) -> Iterator[tuple[cst.BaseExpression, cst.Call]]:
        """The datasets that are read again and again while how far they are read ahead decides what is shuffled next,
        with the shuffle."""
        for consumption in self.read:
            pipeline = self.pipelines.history(consumption.dataset)
            shuffle = self._begun_anew.shuffle_of(pipeline, consumption)
            if shuffle is not None and not self._is_behind_cut(shuffle, pipeline, consumption):
                yield consumption.dataset, shuffle

    def _is_behind_cut(self, shuffle: cst.Call, pipeline: Pipeline, consumption: Consumption) -> bool:
        """Whether each worker shuffles its own share."""
        plan = self._planned.get(consumption.dataset)
        ends = [plan.prefix] if isinstance(plan, CutPipeline) else [way.cut for way in pipeline.ways if way.cut]
        base, line = cst.ensure_type(shuffle.func, cst.Attribute).value, self.tree.statement_of(shuffle)
        return any(
            self.tree.contains(base, end) or self.tree.order[self.tree.statement_of(end)] < self.tree.order[line]
            for end in ends
        )

    @cached_property
    def plans(self) -> list[Plan]:
        """What to do for each training dataset that is not sharded yet; one plan for each place of the text."""
        if not self.cuts:
            return list(self._unlike)
        found: dict[cst.CSTNode, Plan] = {}
        for consumption in self.consumptions:
            plan = self._plan(consumption)
            if plan is not None and consumption.dataset not in self._served:
                key = plan.prefix if isinstance(plan, CutPipeline) else _place(plan)
                found.setdefault(key, plan)
        return [*found.values(), *self._updates_without_data, *self._refused_order]

    @cached_property
    def trained_whole(self) -> list[Update]:
        """The updates that every worker makes on all of their data, as the last resort: no batches are seen that could
        be split. What else is split in the program must not come into them."""
        return self._unseen if self.cuts and not self._updates_without_data else []

    @cached_property
    def minibatch_plans(self) -> list[Cut | Refusal]:
        """What to do for the batches that loops make by themselves, where they are surely seen; one for each place."""
        found = {cut.place: self._obstacle(cut) or cut for cut in self.minibatches.all}
        return list(found.values())

    def feeding(self, plan: CutPipeline | CutBatches) -> list[Consumption]:
        """The places where training reads what the plan cuts."""
        found = []
        for consumption in self.consumptions:
            other = self._plan(consumption)
            if isinstance(plan, CutPipeline) and isinstance(other, CutPipeline):
                same = other.prefix is plan.prefix
            else:
                same = isinstance(plan, CutBatches) and consumption.dataset is plan.dataset
            if same:
                found.append(consumption)
        return found

    @cached_property
    def cut_readers(self) -> set[cst.CSTNode]:
        """The loops and calls that read each worker's part of the batches."""
        return {c.reader for c in self.consumptions if not isinstance(self._plan(c), Refusal)}

    @cached_property
    def cut_datasets(self) -> set[cst.CSTNode]:
        """The expressions that are datasets of each worker's parts of the batches, as they are read."""
        return {c.dataset for c in self.consumptions if not isinstance(self._plan(c), Refusal)}

    @cached_property
    def read_beside(self) -> set[cst.BaseExpression]:
        """What loops read turn by turn beside the batches, and each worker has as it is: `zip(dataset, rates)`."""
        loops = {c.reader for c in self.consumptions if isinstance(c.reader, (cst.For, cst.CompFor))}
        read = {c.dataset for c in self.consumptions}
        zipped = [call for loop in loops for call in self.reading.zips(loop) if call not in read]
        return {
            arg.value
            for call in zipped
            for arg in call.args
            if not arg.star and self.pipelines.core(arg.value) not in read and arg.value not in zipped
        }

    @cached_property
    def cut_rows(self) -> set[cst.CSTNode]:
        """The expressions that are a worker's rows of batches which loops make by themselves."""
        refused = {cut for cut in self.minibatches.all if self._obstacle(cut) is not None}
        return self.minibatches.nodes if not refused else set()

    @cached_property
    def whole_beside(self) -> set[cst.CSTNode]:
        """Where what came with such batches is read as a whole, outside of the steps that work on the rows."""
        if not self.cut_rows:
            return set()
        steps = {code for cut in self.minibatches.all for code in self.minibatches.steps(cut)}
        return CameAlong(self.tree, self.resolver, self.minibatches.forms).with_rows(self.cut_rows, steps)

    @property
    def loose_ends(self) -> list[AnyOrder | HiddenFlag | UnseededFiles]:
        """What must be tied up for the split datasets to come in one order on all workers."""
        is_read = any(not isinstance(plan, Refusal) for plan in self.plans) or not self.cuts
        fits = (*self.training.fits, *self.training.batch_fits)
        is_taken = self._unseen or self.minibatches.all or any(self.fit_arrays.are_cut(fit.call) for fit in fits)
        return list(self._order.loose_ends(self._ordered)) if is_read or is_taken else []

    @property
    def _refused_order(self) -> list[Refusal]:
        """What leaves open the order of datasets of which batches come to a step in a way that is not seen."""
        return list(self._order.refusals()) if self._unseen or self.minibatches.all else []

    @cached_property
    def made(self) -> list[Made | Size | Shown]:
        """What training steps make with the size of batches that are going to be split."""
        return list({shape.node: shape for _, shape in self._shapes}.values())

    @cached_property
    def read_with(self) -> dict[cst.CSTNode, set[cst.CSTNode]]:
        """The datasets whose batches these come with."""
        found: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
        for consumption, shape in self._shapes:
            found[shape.node].add(consumption.dataset)
        return found

    @cached_property
    def _shapes(self) -> list[tuple[Consumption, Made | Size | Shown]]:
        found: list[tuple[Consumption, Made | Size | Shown]] = []
        for consumption in self.consumptions:
            plan = self._plan(consumption)
            if plan is not None and not isinstance(plan, Refusal):
                for way in self.pipelines.history(consumption.dataset).ways:
                    shapes = self.obstacles.shapes(way, consumption)
                    found += [] if isinstance(shapes, Refusal) else [(consumption, shape) for shape in shapes]
        return found

    def splits(self, update: Update) -> bool | None:
        """Whether the update sees batches that are split, only then may gradients be summed; None where it may or
        may not."""
        if not self.cuts or update in self.trained_whole:
            return False
        cuts = self.minibatches.of(update)
        if cuts is not None:
            return all(self._obstacle(cut) is None for cut in cuts)
        found = {not isinstance(self._plan(c), Refusal) for c in self.feeding_update(update)}
        found |= {self.fit_arrays.are_cut(fit.call) for fit in self._fits_of(update) if self._takes_arrays(fit)}
        return found.pop() if len(found) == 1 else None

    def is_whole(self, consumption: Consumption) -> bool:
        """Whether every worker gets all of these batches, since they cannot be split."""
        return isinstance(self._plan(consumption), Refusal)

    def may_split(self, update: Update) -> bool:
        """Whether some of the batches that the update sees are split."""
        if not self.cuts:
            return False
        cuts = self.minibatches.of(update)
        if cuts is not None:
            return any(self._obstacle(cut) is None for cut in cuts)
        return any(not isinstance(self._plan(c), Refusal) for c in self.feeding_update(update))

    def feeding_update(self, update: Update) -> list[Consumption]:
        """The datasets that are split whose batches reach the update, also through `fit` and a `train_step` of the
        script's."""
        if not self.cuts:
            return []
        if self.training.step_class(update) is None:
            return self.reading.consumptions(update)
        fits = {fit.call for fit in self._fits_of(update) if not self._takes_arrays(fit)}
        found = [c for c in self.consumptions if c.reader in fits]
        return found if len(found) == len(fits) else []

    @cached_property
    def cut_together(self) -> list[set[cst.CSTNode]]:
        """The calls that take gradients, those together of which one cut shares out the batches; without those of which
        not all cuts are known."""
        found: list[tuple[set[cst.CSTNode], set[cst.CSTNode]]] = []
        for update in self.training.updates:
            cuts = [self._cut_places(c) for c in self.feeding_update(update)]
            if cuts and all(cuts):
                places = {place for several in cuts for place in several}
                calls: set[cst.CSTNode] = {update.call}
                calls.update(call for gradients in update.gradients for call in gradients.tape_calls)
                for other in [group for group in found if not places.isdisjoint(group[0])]:
                    found.remove(other)
                    places, calls = places | other[0], calls | other[1]
                found.append((places, calls))
        return [calls for _, calls in found]

    def _cut_places(self, consumption: Consumption) -> set[cst.CSTNode]:
        """Where the batches are cut, or are cut already; nothing where that is not seen."""
        plan = self._plan(consumption)
        if plan is None:
            cuts = {way.cut for way in self.pipelines.history(consumption.dataset).ways}
            return {cut for cut in cuts if cut is not None} if None not in cuts else set()
        if isinstance(plan, Refusal) or consumption.dataset in self._served:
            return set()
        return {plan.prefix if isinstance(plan, CutPipeline) else plan.dataset}

    def _fits_of(self, update: Update) -> list[Fit]:
        """The calls of `fit` that come to the `train_step` in which the update stands."""
        cls = self.training.step_class(update)
        return [
            fit
            for fit in self.training.fits
            if any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in fit.values)
        ]

    def _takes_arrays(self, fit: Fit) -> bool:
        x = argument(fit.call, "x", 0)
        return x is None or not self.pipelines.is_read_in_batches(x.value)

    @cached_property
    def _unseen(self) -> list[Update]:
        """The updates of which no batches are seen, the first of each function."""
        found: dict[cst.FunctionDef | None, Update] = {}
        for update in self.training.updates:
            is_read = self.training.step_class(update) is not None or self.reading.consumptions(update)
            if not is_read and self.minibatches.of(update) is None:
                found.setdefault(self.tree.function_of(update.call), update)
        return list(found.values())

    @cached_property
    def _updates_without_data(self) -> list[Refusal]:
        """Why updates of which no batches are seen are not migrated."""
        found: list[Refusal] = []
        for update in self._unseen:
            undecided = self.reading.undecided(update)
            if self._has_no_data(update):
                why = "this objective is worked out from its variables alone: there are no data to share out"
                found.append(_refuse(update.call, why, "run it on one device, as it is"))
            elif undecided is not None:
                unseen = self.pipelines.history(undecided.dataset).unseen
                why = f"whether training reads this dataset, or evaluation, cannot be seen: {unseen}"
                found.append(_refuse(undecided.dataset, why, "use a function of its own for training"))
            elif self._trained_with():
                beside = f"and what {self._trained_with()} gives may differ from worker to worker"
                found.append(unseen_batches(update, beside))
            elif self._unordered is not None:
                found.append(_unordered(self._unordered))
            elif self.obstacles.own_randomness is not None:
                found.append(self.obstacles.own_randomness)
        return found

    @cached_property
    def _unlike(self) -> list[Refusal]:
        """Why workers that all train on all of the data would not train on the same."""
        found: list[Refusal | None] = [self.obstacles.own_randomness, *self._refused_order]
        for site in self.training.sites if self._trained_with() else ():
            why = f"what {self._trained_with()} gives may differ from worker to worker, and with it what they train on"
            found.append(_refuse(site, why, "train on what this file reads"))
        if self._unordered is not None:
            found.append(_unordered(self._unordered))
        for consumption in self.read:
            pipeline = self.pipelines.history(consumption.dataset)
            plan = self._tied(pipeline, CutBatches(consumption.dataset))
            found += [plan if isinstance(plan, Refusal) else None, self.obstacles.to_equality(pipeline, consumption)]
        return [refusal for refusal in found if refusal is not None]

    @cached_property
    def splits_any(self) -> bool:
        """Whether anything that the program trains on is split, or may be."""
        return bool(self.consumptions or self.minibatches.all or self.training.fits or self.training.batch_fits) or any(
            self.training.step_class(update) is not None for update in self.training.updates
        )

    @cached_property
    def _unordered(self) -> cst.Call | None:
        """A call that gives results as they come: `as_completed(…)`, `pool.imap_unordered(…)`."""
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            method = method_called(call)
            if paths & _AS_COMPLETED or method == "imap_unordered":
                return call
        return None

    def _has_no_data(self, update: Update) -> bool:
        """Whether nothing but variables, numbers and functions enters what the gradients are taken of."""
        tapes = [self.training.tape_of(call) for g in update.gradients for call in g.tape_calls]
        if not tapes or None in tapes:
            return False
        bodies = [body for tape in tapes if tape is not None for body in self.training.run_by(tape)]
        names = [n for body in bodies for n in self.tree.names_in(body) if not self._is_label(n)]
        return bool(names) and all(self._is_no_data(name, bodies) for name in names)

    def _is_label(self, name: cst.Name) -> bool:
        """Whether it is the name of an attribute or of a keyword, and no variable's."""
        owner = self.tree.parent[name]
        return getattr(owner, "attr", None) is name or getattr(owner, "keyword", None) is name

    def _is_no_data(self, name: cst.Name, bodies: Sequence[cst.CSTNode]) -> bool:
        bindings = self.resolver.reaching(name)
        if bindings and all(any(self.tree.contains(body, b.node) for body in bodies) for b in bindings):
            return True
        kinds = self.training.kinds
        values = self.resolver.values(name)
        return bool(values) and all(
            kinds.is_variable(v) or kinds.is_optimizer(v) or isinstance(v, (External, Function, Class))
            or (isinstance(v, Literal) and isinstance(v.node, (cst.Integer, cst.Float, cst.SimpleString)))
            for v in values
        )  # fmt: skip

    def _obstacle(self, cut: Cut) -> Refusal | None:
        made = cut.expressions if isinstance(cut, CutExpressions) else ()
        return self.obstacles.to_rows(self.minibatches.sizes(cut), self.minibatches.steps(cut), made)

    def _plan(self, consumption: Consumption) -> Plan | None:
        """How the dataset is cut; None where it is cut already."""
        return self._planned[consumption.dataset]

    @cached_property
    def _planned(self) -> dict[cst.CSTNode, Plan | None]:
        """The plans by the datasets that training reads. Nothing is cut twice on its way."""
        pipelines = {c: self.pipelines.history(c.dataset) for c in self.consumptions}
        found = {c: self._first_plan(pipeline, c) for c, pipeline in pipelines.items()}
        for cut in [plan for plan in found.values() if isinstance(plan, CutPipeline)]:
            readers = [
                c for c, p in pipelines.items() if any(s.base is cut.prefix for way in p.ways for s in way.steps)
            ]
            plans = [found[c] for c in readers]
            if any(not isinstance(plan, CutPipeline) or plan.prefix is not cut.prefix for plan in plans):
                found.update((c, CutBatches(c.dataset)) for c in readers if isinstance(found[c], CutPipeline))
        cuts = [c for c, plan in found.items() if isinstance(plan, CutBatches)]
        found.update(self._placed(sorted(cuts, key=lambda c: self.tree.order[c.dataset])))
        return {c.dataset: self._tied(pipelines[c], plan) for c, plan in found.items()}

    def _first_plan(self, pipeline: Pipeline, consumption: Consumption) -> Plan | None:
        if pipeline.is_sharded:
            return None
        is_list = self.pipelines.core(consumption.dataset) is not consumption.dataset
        return (
            self.obstacles.to(pipeline, consumption)
            or (None if is_list else self._cuts.of(pipeline))
            or CutBatches(consumption.dataset)
        )

    def _tied(self, pipeline: Pipeline, plan: Plan | None) -> Plan | None:
        """The plan, unless the workers may see the elements in several orders, or all write one file."""
        if plan is None or isinstance(plan, Refusal):
            return plan
        prefix = plan.prefix if isinstance(plan, CutPipeline) else None
        refusals = [*self._order.refusals(), *filter(None, map(self.obstacles.file, pipeline.ways))]
        if refusals:
            return refusals[0]
        self._ordered += [(way, prefix) for way in pipeline.ways]
        return plan

    # -- where it is read ----------------------------------------------------------------------------------------

    @cached_property
    def _served(self) -> set[cst.CSTNode]:
        """The datasets that hold a share already where training reads them: the name is cut for an earlier reader."""
        found: set[cst.CSTNode] = set()
        for plan in self._planned.values():
            if isinstance(plan, CutBatches) and plan.before is not None:
                found.update(set(self._later_readers(plan.dataset, plan.before) or ()) - {plan.dataset})
        return found

    def _placed(self, cuts: list[Consumption]) -> Iterator[tuple[Consumption, CutBatches]]:
        """The cuts with their places, in source order: one in front of a loop serves the readers that follow."""
        served: set[cst.CSTNode] = set()
        for consumption in cuts:
            loop = self._outermost_loop(consumption) if consumption.dataset not in served else None
            later = self._later_readers(consumption.dataset, loop) if loop is not None else None
            if later is not None and all(any(c.dataset is read for c in cuts) for read in later):
                served.update(later)
                yield consumption, CutBatches(consumption.dataset, loop)

    def _outermost_loop(self, consumption: Consumption) -> Statement | None:
        """The loop around the reader in front of which the dataset has its name already."""
        dataset, reader = consumption.dataset, consumption.reader
        is_read_there = isinstance(reader, cst.For) and self.tree.contains(reader.iter, dataset)  # not kept before
        if isinstance(dataset, cst.Name) and is_read_there:
            scope = self.tree.scope_of(reader)
            loops = list(self.tree.loops_around(reader))
            if loops and scope.lookup(dataset.value) is scope:
                bindings = self.resolver.reaching(dataset)
                if not any(self.tree.contains(loops[-1], b.node) for b in bindings):
                    return loops[-1]
        return None

    def _later_readers(self, dataset: cst.BaseExpression, loop: Statement) -> list[cst.CSTNode] | None:
        """Where training reads the name from the loop on; None where anything else may read it then, or its value may
        be another one."""
        reads = {id(c.dataset) for c in self.consumptions}
        function, block = self.tree.function_of(loop), self.tree.block_of(loop)
        bindings = self.resolver.reaching(cst.ensure_type(dataset, cst.Name))
        later: list[cst.CSTNode] = []
        for use in (use for binding in bindings for use in self.pipelines.loads.of(binding)):
            in_line = self.tree.function_of(use) is function and self._runs_in_line(use)
            if self._cuts.is_harmless(use) or (in_line and self.tree.order[use] < self.tree.order[loop]):
                continue
            same = isinstance(use, cst.Name) and set(self.resolver.reaching(use)) <= set(bindings)
            if not (in_line and same and id(use) in reads and self.tree.contains(block, use)):
                return None
            later.append(use)
        return later

    def _runs_in_line(self, node: cst.CSTNode) -> bool:
        """Whether the node runs where it stands, and not when a lambda of its function is called."""
        owners = itertools.takewhile(lambda owner: not isinstance(owner, cst.FunctionDef), self.tree.ancestors(node))
        return not any(isinstance(owner, cst.Lambda) for owner in owners)


def _unordered(call: cst.Call) -> Refusal:
    why = "what this gives comes in an order of its own on each worker, and every worker trains on all of it"
    return _refuse(call, why, "take the results in the order in which they are asked for")


def unseen_batches(update: Update, beside: str) -> Refusal:
    return _refuse(
        update.call,
        f"no batches are surely seen that this update trains on, {beside}",
        "iterate over a tf.data.Dataset in this file, or give each worker its rows of every batch by hand with "
        "lockstep.shard_batch",
    )


def _refuse(node: cst.CSTNode, reason: str, advice: str) -> Refusal:
    return Refusal(node, reason, advice, breaks_training=True)
