"""All facts of one program, each worked out when a rule first asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.mapped import Mapped
from migrator.analysis.packages.sources import Sources
from migrator.analysis.values import Repair
from migrator.analysis.verdicts import MEAN, NOT_RUN, SUM
from migrator.facts.data.batch_shapes import Made, Size
from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.minibatches import MinibatchFinder
from migrator.facts.data.pipelines import Pipelines
from migrator.facts.data.reading import Reading
from migrator.facts.data.rows import RowFinder
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions import Decisions, LocalNumber
from migrator.facts.decisions.foreign import Foreign
from migrator.facts.decisions.left_behind import LeftBehind
from migrator.facts.decisions.means import Rows
from migrator.facts.files.meetings import Meetings
from migrator.facts.files.paths import Paths
from migrator.facts.files.read_again import ReadAgain
from migrator.facts.files.still_read import StillRead
from migrator.facts.files.worker_paths import WorkerPaths
from migrator.facts.files.writes import Files
from migrator.facts.names import api
from migrator.facts.objects.contents import Contents
from migrator.facts.objects.holders import Origin
from migrator.facts.objects.keywords import Keywords
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object
from migrator.facts.ports.broadcasts import Broadcasts
from migrator.facts.ports.ported import Ports
from migrator.facts.ports.ranks import Ranks
from migrator.facts.ports.reduced import Reduced
from migrator.facts.ports.scale import Scale
from migrator.facts.ports.shares import Shares
from migrator.facts.ports.shuffles import Shuffles
from migrator.facts.ports.step_counts import StepCounts
from migrator.facts.program.modules import Modules, Script
from migrator.facts.program.stated import Stated
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.randomness.chance import Chance
from migrator.facts.randomness.drawing import Drawing
from migrator.facts.startup.joining import Joining
from migrator.facts.startup.standard_imports import StandardImports
from migrator.facts.training.apart import Apart
from migrator.facts.training.built import Built
from migrator.facts.training.by_hand import ByHand
from migrator.facts.training.early_reads import EarlyReads
from migrator.facts.training.looked_at import LookedAt
from migrator.facts.training.optimizers import Optimizers
from migrator.facts.training.plain_tensors import PlainTensors
from migrator.facts.training.reductions import GATHER, Reductions
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import Trained
from migrator.facts.training.unbuilt import Unbuilt
from migrator.facts.training.unsupported import Unsupported
from migrator.lines import line_and_column, line_starts
from migrator.results import Defect
from migrator.spans import Spans
from migrator.words import Word, words_of

# What is gathered for a decision may show what others need: so many rounds at most.
_MOST_GATHERINGS = 6


class Facts:
    """What the rules may ask of the files that make up a program: most often one script."""

    def __init__(
        self,
        scripts: Sequence[Script],
        package: str = api.RUNTIME,
        site_packages: Sequence[Path] = (),
        *,
        cuts: bool = True,
        before: Facts | None = None,
    ) -> None:
        """`scripts` in the order in which Python would run them; `package` is what the migrated ones import;
        `site_packages`: where the packages lie whose code is read; `cuts`: whether the workers share out the data, or
        each trains on all of them; `before`: what was asked of the same scripts."""
        self.package = package
        self.cuts = cuts
        self.scripts = {script.module: script for script in scripts}
        self.scripts_at = {script.path: script for script in scripts}
        self.tree: Tree = before.tree if before is not None else Tree(tuple(self.scripts))
        modules = Modules(scripts)
        self.sources = Sources(site_packages, self.tree)
        self.resolver = Resolver(self.tree, modules)
        self.kinds = Kinds(self.resolver, self.sources.has)
        self.joining = Joining(self.tree, self.resolver, modules)
        self._spans: dict[cst.Module, Spans] = before._spans if before is not None else {}
        self._known_losses: dict[tuple[frozenset[cst.CSTNode], ...], Losses] = {}
        self._combined: set[Binding] = set()
        self._places: dict[Binding, frozenset[cst.CSTNode]] = {}
        self._not_combined: set[Binding] = set()
        # The name by which the edited files call the runtime; where a file has its own, the engine asks again with it.
        self.runtime = api.RUNTIME

    @cached_property
    def training(self) -> Training:
        return Training(self.tree, self.resolver, self.kinds)

    @cached_property
    def drawing(self) -> Drawing:
        alike = self.trains_whole
        return Drawing(self.tree, self.resolver, self.kinds, self.training, layers_draw_alike=alike)

    @cached_property
    def optimizers(self) -> Optimizers:
        return Optimizers(self.resolver, self.kinds, self.training)

    @cached_property
    def contents(self) -> Contents:
        return Contents(self.tree, self.resolver)

    @cached_property
    def keywords(self) -> Keywords:
        return Keywords(self.tree, self.resolver)

    @cached_property
    def pipelines(self) -> Pipelines:
        sources = BatchSources(self.tree, self.resolver, RowFinder(self.tree, self.resolver))
        return Pipelines(self.tree, self.resolver, self.kinds, self.ranks, sources)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.tree, self.resolver, self.kinds, self.training, self.pipelines)

    @cached_property
    def unsupported(self) -> Unsupported:
        return Unsupported(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def trained(self) -> Trained:
        return Trained(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def untrained(self) -> list[Origin]:
        """Where models get their names that the script runs from random weights without training them."""
        return self.trained.made_by(self.losses.standalone_models)

    @cached_property
    def words(self) -> list[Word]:
        """What the user says in comments. Raises UnknownWord."""
        return [word for module in self.scripts for word in words_of(self.tree, self.spans(module))]

    @cached_property
    def stated(self) -> Stated:
        return Stated(self.tree, self.words, self.training.flow.is_tape_call)

    @cached_property
    def losses(self) -> Losses:
        return self.decisions.losses

    def _losses(self, numbers: Collection[cst.CSTNode] = (), gathered: Collection[cst.CSTNode] = ()) -> Losses:
        """`numbers`, `gathered`: see Losses. For the same ones the program is run once."""
        asked = frozenset(numbers), frozenset(gathered), frozenset(self._combined_places)
        if asked not in self._known_losses:
            self._known_losses[asked] = self._run_losses(numbers, gathered)
        return self._known_losses[asked]

    def _run_losses(self, numbers: Collection[cst.CSTNode], gathered: Collection[cst.CSTNode]) -> Losses:
        sites = [*(c for c in self.tree.calls if self.training.flow.is_tape_call(c)), *self.training.sites]
        made = self.sharding.made
        rows = {*self.sharding.cut_rows, *(m.node for m in made if isinstance(m, Made))}
        sizes = {m.node for m in made if isinstance(m, Size)}
        reduced = {call for u in self.training.updates for gradients in u.gradients for call in gradients.tape_calls}
        return Losses(
            self.tree,
            tuple(self.scripts.values()),
            self.sharding.cut_readers,
            rows,
            sizes,
            reduced,
            self._watched,
            sites,
            self.kinds.models_of_packages,
            self.stated.values,
            numbers,
            gathered,
            self.sharding.cut_datasets,
            self._combined_places,
            self.sources,
            self._written_for,
            self.sharding.cut_together,
            self.cuts,
        )

    @cached_property
    def _watched(self) -> set[cst.Call]:
        """The calls that give gradients which are reduced right there, while another tape watches."""
        applied = [(u, given, c) for u in self.training.updates for given in u.gradients for c in given.tape_calls]
        elsewhere = {
            call
            for update, given, call in applied
            if not given.is_at(call) or self.reduced.may_be_wrapped(update) or self.optimizers.will_reduce(update)
        }
        return {call for *_, call in applied if call not in elsewhere and self.training.is_watched(call)}

    @cached_property
    def _written_for(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """The calls that may read a file, by what is written into it before."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for written, read in self.files.told_again():
            found[written].append(read)
        return found

    @property
    def _combined_names(self) -> set[cst.CSTNode]:
        return {binding.target for binding in self._combined if binding.target is not None}

    @property
    def _combined_places(self) -> set[cst.CSTNode]:
        """Where that is put together: the names, or what stands in that which they get."""
        return {place for binding in self._combined for place in self._places[binding]}

    def _combine(self, bindings: Collection[Binding], numbers: Sequence[LocalNumber]) -> None:
        self._combined = self._combined | set(bindings)
        for binding in bindings:
            self._places[binding] = _places_of(binding, numbers, self.tree)

    @cached_property
    def repairs(self) -> list[Repair]:
        """What has to be put together in the losses that are trained on, in source order."""
        return sorted(self._repairs(self.decisions), key=lambda repair: self.tree.order[repair.node])

    def _repairs(self, decisions: Decisions) -> set[Repair]:
        losses = decisions.losses
        found = Reductions(self.training, losses, self.sharding).repairs_of_updates | decisions.repairs
        for fit in (*self.training.fits, *self.training.batch_fits):
            found |= losses.of_forward(fit.call).repairs | losses.of_fit(fit.call).repairs
        for call in self.tree.calls:
            found |= losses.of_added(call).repairs
        return found

    @cached_property
    def minibatches(self) -> MinibatchFinder:
        return MinibatchFinder(
            self.tree, self.resolver, self.kinds, self.training, self.trained, self.reading, self.ranks, cuts=self.cuts
        )

    def is_put_together(self, node: cst.CSTNode | None) -> bool:
        """Whether the number is what all workers have, by what the script puts together, or is going to."""
        verdict = self.losses.of_number(node) if node is not None else NOT_RUN
        missing = {repair for repair in verdict.repairs if repair.form != "done"}.difference(self.repairs)
        return verdict.is_agreed and bool(verdict.repairs) and not missing and not verdict.meets_unknown

    @cached_property
    def looked_at(self) -> LookedAt:
        return LookedAt(self.tree, self.resolver, self.losses, self.decisions.locality)

    @cached_property
    def reductions(self) -> Reductions:
        return Reductions(self.training, self.losses, self.sharding, in_order=self.decisions.puts_rows_together)

    @cached_property
    def sharding(self) -> Sharding:
        return Sharding(
            self.tree,
            self.resolver,
            self.training,
            self.reading,
            self.minibatches,
            self.keywords,
            self.mapped,
            lambda: self.foreign.trained_with,
            cuts=self.cuts,
        )

    @cached_property
    def foreign(self) -> Foreign:
        return Foreign(self.tree, self.resolver, self.training, self.sharding, self.files)

    @cached_property
    def mapped(self) -> Mapped:
        return Mapped(self.tree, tuple(self.scripts.values()))

    @cached_property
    def decisions(self) -> Decisions:
        """Asked anew where a loss would put together again what a name holds that is put together where it gets it.
        Raises Defect where that comes to no end, in a program that is not refused anyway."""
        decisions = self._decided()
        for _ in range(_MOST_GATHERINGS):
            again = self._combined_twice(decisions) - self._combined
            numbers = _combined_in(decisions)
            lost = {b for b in self._combined if _places_of(b, numbers, self.tree) != self._places[b]}
            if not again and not lost:
                return decisions
            # What is put together for the losses has made it the same: asked without it, that stays so.
            self._not_combined |= lost
            kept = again & self._not_combined
            if kept:
                return self._decided_with(kept, numbers)
            self._combine(again, numbers)
            self._combined = self._combined - self._not_combined
            decisions = self._decided()
        if not decisions.are_settled:
            return decisions  # what is left over is refused, whatever is combined
        raise Defect("whether a number is put together where it gets its name, or in the losses, cannot be told apart")

    def _decided_with(self, bindings: set[Binding], numbers: Sequence[LocalNumber]) -> Decisions:
        """The decisions once the names get a number of all workers, which the losses need, while what steers is put
        together further on by then."""
        self._combine(bindings, numbers)
        self._not_combined -= bindings
        decisions = self._decided()
        decisions.combine(n for n in numbers if any(_is_given(binding, [n], self.tree) for binding in bindings))
        return decisions

    def _combined_twice(self, decisions: Decisions) -> set[Binding]:
        """Where names get a number of all workers, and enter what is put together for a loss, or what nothing makes the
        workers agree on: a mean times the number of samples."""
        numbers = _combined_in(decisions)
        entered = [o.node for repair in self._repairs(decisions) for o in repair.operands] if numbers else []
        entered += [n.expression for n in decisions.local_numbers if not n.is_settled] if numbers else []
        locality = decisions.locality
        return {
            binding
            for binding in locality.bindings_behind(entered)
            if isinstance(binding.target, cst.Name)
            and not locality.of(binding)
            and _is_given(binding, numbers, self.tree)
        }

    def _decided(self) -> Decisions:
        decisions = self._reduced_decisions()
        for _ in range(_MOST_GATHERINGS):
            again = set() if decisions.are_settled else self._combined_twice(decisions) - self._combined
            again -= self._not_combined
            if not again:
                break
            self._combine(again, _combined_in(decisions))
            decisions = self._reduced_decisions()
        if self.training.batch_fits or not self._makes_own_steps:
            return decisions
        taken = Reductions(self.training, decisions.losses, self.sharding).single_samples
        if decisions.are_settled and not taken:
            return decisions
        return self._gathered_decisions(decisions) or decisions

    @property
    def _makes_own_steps(self) -> bool:
        """Whether each `fit` trains by a step of the script's: rows that Keras's own takes come in no order."""
        classes = {self.training.step_class(update) for update in self.training.updates} - {None}
        return all(
            any(isinstance(v, Object) and classes.intersection(self.resolver.lineage(v.of)) for v in fit.values)
            for fit in self.training.fits
        )

    def _gathered_decisions(self, decisions: Decisions) -> Decisions | None:
        """The decisions with all rows put together where they enter what steers, or are taken one by one for a loss;
        None where that settles not all."""
        gathered: set[cst.BaseExpression] = set()
        numbers: set[cst.CSTNode] = set()  # what is put together for one of them is none of the next ones
        for _ in range(_MOST_GATHERINGS):
            numbers |= {*decisions.steering, *(number.expression for number in decisions.local_numbers)}
            losses = self._losses(numbers, gathered)
            reductions = Reductions(self.training, losses, self.sharding)
            decisions = self._decisions(losses, reductions, Rows.ONCE, gathered, reductions.single_samples)
            if not decisions.are_settled:
                return None
            more = {n.expression for n in decisions.local_numbers if n.reduction == GATHER}
            needed = {node for node in gathered if any(repair.node is node for repair in losses.gathers)}
            if not more and needed == gathered:
                is_right = reductions.are_right and not any(map(losses.obstacle, losses.gathers))
                return decisions if is_right and not decisions.gathering.meets_unseen(gathered) else None
            gathered = needed | more
        return None

    def _reduced_decisions(self) -> Decisions:
        losses = self._losses()
        reductions = Reductions(self.training, losses, self.sharding)
        decisions = self._decisions(losses, reductions)
        cuts = {reductions.cut_for(update) for update in self.training.updates}
        if decisions.ratios and not self.training.batch_fits:
            return self._decisions_with_rows_once(decisions)
        if not decisions.kinds or (len(cuts | decisions.kinds) == 1 and cuts != {GATHER}):
            has_means = any(n.reduction == MEAN and decisions.decides(n) for n in decisions.local_numbers)
            if cuts == {SUM} and not has_means and any(number.is_count for number in decisions.local_numbers):
                return self._decisions(losses, reductions, Rows.ONCE)  # so that rows can be counted
            if cuts != {SUM} or not has_means or self.training.batch_fits:
                return decisions
        if self.training.batch_fits:  # of which nothing can be put together that a batch has to be
            return self._decisions(losses, reductions, Rows.REPEATED)
        return self._decisions_with_rows_once(decisions)

    def _decisions_with_rows_once(self, decisions: Decisions) -> Decisions:
        """No row may be computed twice where some numbers are sums, and then means of parts are none of the batch."""
        numbers = {*decisions.steering, *(n.expression for n in decisions.local_numbers), *decisions.ratios}
        losses = self._losses(numbers)
        return self._decisions(losses, Reductions(self.training, losses, self.sharding), Rows.ONCE)

    def _decisions(
        self,
        losses: Losses,
        reductions: Reductions,
        rows: Rows = Rows.ANY,
        gathered: Collection[cst.BaseExpression] | None = None,
        taken: Collection[cst.CSTNode] = (),
    ) -> Decisions:
        return Decisions(
            self.tree, self.resolver, self.training, self.sharding, self.files, losses, reductions.repairs_of_updates,
            self.stated, rows, gathered, taken, self._combined_names, self.sent,
        )  # fmt: skip

    @cached_property
    def broadcasts(self) -> Broadcasts:
        return Broadcasts(
            self.tree, self.resolver, self.kinds, self.training, self.trained, self.files, self.ports, self.origins,
            self.ranks,
        )  # fmt: skip

    @cached_property
    def by_hand(self) -> ByHand:
        return ByHand(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def plain_tensors(self) -> PlainTensors:
        return PlainTensors(self.tree, self.resolver, self.training, self.training.flow)

    @cached_property
    def unbuilt(self) -> Unbuilt:
        return Unbuilt(self.tree, self.resolver, self.kinds, self.training, self.trained)

    @cached_property
    def apart(self) -> Apart:
        return Apart(self.tree, self.resolver, self.training)

    @cached_property
    def early_reads(self) -> EarlyReads:
        return EarlyReads(self.tree, self.resolver, self.kinds, self.training, self.trained)

    @cached_property
    def shares(self) -> Shares:
        return Shares(self.tree, self.resolver, self.kinds, self.ports, self.ranks, self.pipelines, self.origins)

    @cached_property
    def step_counts(self) -> StepCounts:
        return StepCounts(self.tree, self.resolver, self.training, self.reading, self.ports, self.shares, self.origins)

    @cached_property
    def scale(self) -> Scale:
        sizes = self.step_counts.batch_sizes
        return Scale(self.tree, self.resolver, self.kinds, self.ranks, self.origins, self.shares, sizes)

    @cached_property
    def shuffles(self) -> Shuffles:
        return Shuffles(self.tree, self.resolver, self.ranks, self.pipelines, self.origins)

    @cached_property
    def reduced(self) -> Reduced:
        return Reduced(self.tree, self.resolver, self.kinds, self.training, self.ports, self.origins)

    @cached_property
    def files(self) -> Files:
        return Files(self.tree, self.resolver, self.kinds, self.ranks)

    @cached_property
    def left_behind(self) -> LeftBehind:
        return LeftBehind(self.tree, self.resolver, self.training, self.sharding, self.files)

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.tree, self.resolver)

    @cached_property
    def read_again(self) -> ReadAgain:
        return ReadAgain(self.tree, self.resolver, self.files, self.paths)

    def still_read(self, barriers: Collection[cst.CSTNode]) -> StillRead:
        """What may still be read where something is written, with barriers at these statements or behind them."""
        meetings = Meetings(self.tree, self.resolver, self.files, self.training, self.trained, self.sent, barriers)
        return StillRead(self.tree, self.resolver, self.files, self.paths, meetings)

    @cached_property
    def standard_imports(self) -> StandardImports:
        return StandardImports(self.tree, self.resolver)

    @cached_property
    def worker_paths(self) -> WorkerPaths:
        return WorkerPaths(self.tree, self.resolver, self.files, self.training)

    @cached_property
    def sent(self) -> list[cst.BaseExpression]:
        """What all workers take from the chief where it is made, of what each would have its own."""
        folders = (item.item for block in self.worker_paths.chiefs_folders for item in block.items)
        return [*self.worker_paths.chiefs, *folders, *self.sharding.obstacles.entropy.shared]

    @cached_property
    def ports(self) -> Ports:
        return Ports(self.tree, self.resolver, self.package)

    @cached_property
    def ranks(self) -> Ranks:
        return Ranks(self.tree, self.resolver, self.origins)

    @cached_property
    def origins(self) -> Origins:
        return Origins(self.resolver)

    @cached_property
    def built(self) -> Built:
        return Built(self.tree, self.resolver, self.kinds)

    @cached_property
    def chance(self) -> Chance:
        return Chance(self.tree, self.resolver, self.origins, self.training, self.sharding)

    @property
    def trains(self) -> bool:
        return bool(self.training.sites)

    @cached_property
    def trains_whole(self) -> bool:
        """Whether every worker trains on all of the data, so that all draw the same random numbers for them."""
        return not self.cuts or (bool(self.sharding.trained_whole) and not self.sharding.splits_any)

    # -- text ----------------------------------------------------------------------------------------------------

    def spans(self, module: cst.Module) -> Spans:
        """Where the nodes of a file stand. Raises UnprintableSource, see there."""
        if module not in self._spans:
            self._spans[module] = Spans(module, self.scripts[module].text)
        return self._spans[module]

    def position(self, node: cst.CSTNode) -> tuple[int, int]:
        """Line and column of the node in its file, both counted from 1."""
        module = self.tree.module_of(node)
        return self.positions(module, self.spans(module).span(node)[:1])[0]

    def positions(self, module: cst.Module, offsets: Sequence[int]) -> list[tuple[int, int]]:
        """Lines and columns of places in the text of a file."""
        script = self.scripts[module]
        if not script.moved:
            return [self.spans(module).place(offset) for offset in offsets]
        starts = line_starts(script.written)
        return [line_and_column(starts, script.written_offset(offset)) for offset in offsets]

    def source(self, node: cst.CSTNode) -> str:
        """The node as the script writes it; a node that a rule made prints itself."""
        if node in self.tree.order:
            return self.spans(self.tree.module_of(node)).source(node)
        return self.tree.modules[0].code_for_node(node)

    def indent(self, node: cst.CSTNode) -> str:
        """One step of indentation in the node's file."""
        return self.tree.module_of(node).default_indent

    def call(self, function: str, *args: str) -> str:
        """A call of the runtime's function; the target spells it in its own API."""
        return f"{self.runtime}.{function}({', '.join(args)})"

    def fresh_variable(self, wanted: str, node: cst.CSTNode) -> str:
        """The same for a variable: attributes, keywords and methods of that name are something else, and so are the
        variables of other functions."""
        name, number = wanted, 2
        while any(self._may_clash(other, node) for other in self.tree.names.get(name, ())):
            name, number = f"{wanted}_{number}", number + 1
        return name

    def _may_clash(self, name: cst.Name, node: cst.CSTNode) -> bool:
        module = self.tree.module_of(node)
        if self.tree.module_of(name) is not module or not self.tree.is_variable(name):
            return False
        around = [owner for owner in self.tree.ancestors(node) if isinstance(owner, cst.FunctionDef)]
        is_inside = bool(around) and self.tree.contains(around[-1], name)
        scope = self.tree.scope_of(name).lookup(name.value)
        return is_inside or scope is None or scope.node is module

    def fresh_name(self, wanted: str, node: cst.CSTNode) -> str:
        """The wanted name, or one derived from it that the node's file does not use."""
        return self.tree.fresh_name(wanted, self.tree.module_of(node))


def _combined_in(decisions: Decisions) -> list[LocalNumber]:
    """The numbers of which the workers' mean or sum is taken."""
    return [n for n in decisions.local_numbers if n.metric is None and n.reduction in (MEAN, SUM)]


def _is_given(binding: Binding, numbers: Sequence[LocalNumber], tree: Tree) -> bool:
    """Whether one of the numbers is what the name gets, or stands in it."""
    return bool(_places_of(binding, numbers, tree))


def _places_of(binding: Binding, numbers: Sequence[LocalNumber], tree: Tree) -> frozenset[cst.CSTNode]:
    """Where the workers put together what the name gets: all of it, or those of the numbers that stand in it."""
    value = binding.value
    if not isinstance(value, cst.CSTNode):
        return frozenset()
    if any(n.binding is binding for n in numbers) and binding.target is not None:
        return frozenset((binding.target,))
    return frozenset(n.expression for n in numbers if n.binding is None and tree.contains(value, n.expression))
