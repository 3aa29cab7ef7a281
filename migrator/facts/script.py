"""All facts of one program, each worked out when a rule first asks for it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cached_property, partial
from pathlib import Path

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.analysis.mapped import Mapped
from migrator.analysis.packages.sources import Sources
from migrator.analysis.uncut import Uncut
from migrator.analysis.values import Repair
from migrator.analysis.verdicts import NOT_RUN
from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.minibatches import MinibatchFinder
from migrator.facts.data.pipelines import Pipelines
from migrator.facts.data.reading import Reading
from migrator.facts.data.rows import RowFinder
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions import Decisions
from migrator.facts.decisions.deciding import Deciding
from migrator.facts.decisions.foreign import Foreign
from migrator.facts.decisions.kept_rows import KeptRows
from migrator.facts.decisions.left_behind import LeftBehind
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
from migrator.facts.program.tree import Tree
from migrator.facts.randomness.chance import Chance
from migrator.facts.randomness.drawing import Drawing
from migrator.facts.randomness.layer_noise import LayerNoise
from migrator.facts.startup.joining import Joining
from migrator.facts.startup.sessions import Sessions
from migrator.facts.startup.standard_imports import StandardImports
from migrator.facts.training.apart import Apart
from migrator.facts.training.built import Built
from migrator.facts.training.by_hand import ByHand
from migrator.facts.training.compiled_by_xla import CompiledByXla
from migrator.facts.training.early_reads import EarlyReads
from migrator.facts.training.entries import entries, makers
from migrator.facts.training.looked_at import LookedAt
from migrator.facts.training.optimizers import Optimizers
from migrator.facts.training.plain_tensors import PlainTensors
from migrator.facts.training.put_by_name import PutByName
from migrator.facts.training.reductions import Reductions
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import Trained
from migrator.facts.training.unbuilt import Unbuilt
from migrator.facts.training.unsupported import Unsupported
from migrator.findings.words import Word, words_of
from migrator.text.lines import line_and_column, line_starts
from migrator.text.spans import Spans

_COMMENT = re.compile(r"[ \t]*#[^\r\n]*")


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
        self.sessions = Sessions(self.tree, self.resolver)
        self._spans: dict[cst.Module, Spans] = before._spans if before is not None else {}
        # Conditions of which abstract runs leave out one way, see LeftOut: however the data are split.
        self.branches: set[cst.CSTNode] = set(before.branches) if before is not None else set()
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
    def layer_noise(self) -> LayerNoise:
        return LayerNoise(self.tree, self.resolver, self.kinds)

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
        sources = BatchSources(self.tree, self.resolver, RowFinder(self.tree, self.resolver, self.uncut))
        return Pipelines(self.tree, self.resolver, self.kinds, self.ranks, sources)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.tree, self.resolver, self.training, self.pipelines)

    @cached_property
    def unsupported(self) -> Unsupported:
        return Unsupported(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def compiled_by_xla(self) -> CompiledByXla:
        return CompiledByXla(
            self.tree, self.resolver, self.keywords, self.training, self.ports, self.ranks, lambda: self.repairs
        )

    @cached_property
    def trained(self) -> Trained:
        return Trained(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def untrained(self) -> list[Origin]:
        """Where models get their names that the script runs from random weights without being seen to train them. A
        training that is not seen to run, or is given what is not seen, may run any that the program makes."""
        bodies = {b for function in self.losses.given_unseen for b in self.training.reached_from(function)}
        any_made = any(self.tree.contains(body, site) for body in bodies for site in self.training.sites)
        return self.trained.made_by(self.losses.standalone_models(self.trained.made, any_made=any_made))

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

    @cached_property
    def decisions(self) -> Decisions:
        """Raises Defect, see Deciding."""
        return self._deciding.decisions

    @cached_property
    def _deciding(self) -> Deciding:
        return Deciding(self)

    @cached_property
    def repairs(self) -> list[Repair]:
        """What has to be put together in the losses that are trained on, in source order."""
        return sorted(self._deciding.repairs(self.decisions), key=lambda repair: self.tree.order[repair.node])

    def is_put_together(self, node: cst.CSTNode | None) -> bool:
        """Whether the number is what all workers have, by what the script puts together, or is going to."""
        verdict = self.losses.of_number(node) if node is not None else NOT_RUN
        missing = {repair for repair in verdict.repairs if repair.form != "done"}.difference(self.repairs)
        return verdict.is_agreed and bool(verdict.repairs) and not missing and not verdict.meets_unknown

    @cached_property
    def minibatches(self) -> MinibatchFinder:
        return MinibatchFinder(
            self.tree,
            self.resolver,
            self.kinds,
            self.training,
            self.trained,
            self.reading,
            self.ranks,
            self.uncut,
            cuts=self.cuts,
        )

    @cached_property
    def looked_at(self) -> LookedAt:
        return LookedAt(self.tree, self.resolver, self.losses, self.decisions.locality)

    @cached_property
    def kept_rows(self) -> list[cst.BaseExpression]:
        """Of the rows that the training keeps for a report, those that nothing else puts together."""
        if self.sharding.consumptions or not self.minibatches.all:
            return []
        put = [o.node for repair in self.repairs for o in repair.operands]
        put += [number.expression for number in self.decisions.local_numbers]
        kept = KeptRows(self.tree, self.resolver, self.kinds, self.decisions.gathering, put)
        return list(dict.fromkeys(kept.all()))

    @cached_property
    def reductions(self) -> Reductions:
        return Reductions(self.training, self.losses, self.sharding, in_order=self.decisions.puts_rows_together)

    @cached_property
    def put_together_at_once(self) -> dict[cst.CSTNode, str]:
        """Where all rows are put together for the losses, and why, if none of these needs a worker's own and nothing
        that may be trained works on them before: then every worker has all of the work. The first of each statement."""
        updates = self.training.updates
        if not self.cuts or self.losses.works_apart or not all(map(self.reductions.are_agreed, updates)):
            return {}
        needed = {repair for update in updates for repair in self.reductions.repairs(update) if repair.form != "done"}
        found: dict[cst.CSTNode, Repair] = {}
        for repair in self.repairs:
            if repair in needed and repair.node in self.tree.order:
                found.setdefault(self.tree.statement_of(repair.node), repair)
        if not any(operand.how == "gather" for repair in needed for operand in repair.operands):
            return {}
        return {repair.node: repair.why for repair in found.values()}

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
        return Mapped(self.tree, self.uncut)

    @cached_property
    def uncut(self) -> Uncut:
        models, scripts = self.kinds.models_of_packages, tuple(self.scripts.values())
        entered = partial(self.entries, ())
        return Uncut(self.tree, scripts, entered, self.sites, models, self.sources, self.branches)

    @cached_property
    def sites(self) -> list[cst.CSTNode]:
        """Where the script trains, and takes gradients."""
        return [*(c for c in self.tree.calls if self.training.flow.is_tape_call(c)), *self.training.sites]

    def entries(self, cut: Collection[cst.CSTNode]) -> dict[cst.FunctionDef, bool]:
        """By which functions the training is entered, those that are handed to a library included; `cut`: see there."""
        found = entries(self.tree, self.training, self.sites, cut)
        makes = makers(self.tree, self.resolver, self.kinds, self.training, found)
        return {**found, **dict.fromkeys(makes, True)}

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
        return PlainTensors(self.tree, self.resolver, self.training, self.uncut)

    @cached_property
    def put_by_name(self) -> PutByName:
        return PutByName(self.tree, self.resolver, self.kinds)

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

    def comment_behind(self, node: cst.CSTNode) -> str:
        """The comment that ends the node's last line, with the white space before it; empty where there is none."""
        spans = self.spans(self.tree.module_of(node))
        found = _COMMENT.match(spans.text, spans.outer_span(node)[1])
        return found[0] if found else ""

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
