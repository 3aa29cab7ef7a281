"""Batches that a loop of the script cuts out of arrays by itself, and where each worker takes its rows of them.

They are the same on all workers, which draw from one common seed. Two places: the arguments of the training step that
the loop calls, see BatchArguments, or what the code under the tape reads where it stands in the loop itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis.uncut import Uncut
from migrator.facts.data.batch_arguments import BatchArguments
from migrator.facts.data.batch_cuts import Cut, CutArguments, CutExpressions, CutNames
from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.data.data_reads import DataReads
from migrator.facts.data.earlier_cuts import EarlierCuts
from migrator.facts.data.full_batches import FullBatches
from migrator.facts.data.made_before import MadeBefore
from migrator.facts.data.made_by_models import MadeByModels
from migrator.facts.data.read_beside import ReadBeside
from migrator.facts.data.reading import Reading
from migrator.facts.data.rows import RowFinder
from migrator.facts.data.worker_shares import WorkerShares
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Result
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import takes_all
from migrator.facts.program.tree import FunctionLike, Statement, Tree
from migrator.facts.training.sites import Fit, Minimization, Training, Update
from migrator.facts.training.trained import Trained

_MANY_NAMES = 50


class MinibatchFinder:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, trained: Trained, reading: Reading,
        ranks: Ranks, uncut: Uncut, *, cuts: bool = True,
    ) -> None:  # fmt: skip
        """`cuts`: whether anything is split."""
        self.cuts = cuts
        self.tree = tree
        self.ranks = ranks
        self.resolver = resolver
        self.training = training
        self.reading = reading
        self.rows = RowFinder(tree, resolver, uncut)
        self.earlier = EarlierCuts(tree, resolver, self.rows)
        self.shares = WorkerShares(tree, resolver, ranks, self.earlier)
        self.before = MadeBefore(tree, resolver, uncut)
        self.forms = BatchForms(tree, resolver, kinds, self.rows, uncut)
        self.reads = DataReads(tree, resolver, kinds, trained, self.forms, self.shares.is_share)
        self.by_models = MadeByModels(tree, resolver, kinds, training, self.reads)
        self.full = FullBatches(tree, resolver, training, self.reads, self.before, self.forms, self.shares.is_share)
        self.beside = ReadBeside(tree, resolver, self.earlier, lambda: self._tape_blocks)
        self.arguments = BatchArguments(
            tree, resolver, kinds, training, self.reads, self.before, self.forms, self.earlier, self.shares, self.beside
        )
        self._cut_for_fits: set[cst.BaseExpression] = set()

    def of(self, update: Update) -> list[Cut] | None:
        """Where to cut the batches of an update that reads no dataset; None where they are not surely seen.

        Empty where all of them are cut already.
        """
        return self._by_update.get(update)

    @cached_property
    def _by_update(self) -> dict[Update, list[Cut]]:
        return self._found() if self.cuts else {}

    def _found(self) -> dict[Update, list[Cut]]:
        """First what reads the batches of its own loop, in source order: what follows it there reads rows."""
        found: dict[Update, list[Cut]] = {}
        at: dict[cst.CSTNode, Cut] = {}
        updates = [
            update
            for update in self.training.updates
            if self.training.step_class(update) is None and not self.reading.consumptions(update)
        ]
        failed: set[Update] = set()
        sites = [site for update in updates for site in self._sites(update)]
        for place, body, update in sorted(sites, key=lambda site: self.tree.order[site[0]]):
            cuts = self._read_by(body, place, update) if update not in failed else None
            if cuts is not None:
                found.setdefault(update, []).extend(_shared(cut, at) for cut in cuts)
            else:
                failed.add(update)
                found.pop(update, None)
        for update in updates:
            if update not in found:
                cuts = self._around_tape(update)
                if cuts is None and isinstance(update, Minimization):
                    cuts = self._in_minimized(update)
                if cuts is not None:
                    found[update] = [_shared(cut, at) for cut in cuts]
        for fit in self.training.batch_fits:
            self._cut_before_fit(fit)
        return found

    @cached_property
    def all(self) -> list[Cut]:
        return list(dict.fromkeys(cut for cuts in self._by_update.values() for cut in cuts))

    @cached_property
    def nodes(self) -> set[cst.CSTNode]:
        """The expressions that stand for a worker's rows: as each is read by the training step."""
        found: set[cst.CSTNode] = set()
        for cut in self.all:
            if isinstance(cut, CutArguments):
                found.update(arg.value for arg in cut.batches)
            elif isinstance(cut, CutExpressions):
                found.update(cut.expressions)
            else:
                found.update(self.reads_behind(cut))
        return found

    def reads_behind(self, cut: CutNames) -> Iterator[cst.Name]:
        """Where the names are read from the cut on."""
        start = self.tree.order[cut.before]
        for name in cut.names:
            bindings = set(self.resolver.reaching(name))
            for read in self.tree.names[name.value]:
                if self.tree.order[read] > start and bindings & set(self.resolver.reaching(read)):
                    yield read

    @property
    def cut_for_fits(self) -> set[cst.BaseExpression]:
        """What `train_on_batch` is given of names that are cut in front of an earlier step."""
        return self._cut_for_fits if self.all else set()

    # -- finding them --------------------------------------------------------------------------------------------

    def _tape_block(self, update: Update) -> cst.With | None:
        """The one `with` statement whose tape gives the update all of its gradients."""
        blocks = {
            owner
            for gradients in update.gradients
            for call in gradients.tape_calls
            for value in self.resolver.values(cst.ensure_type(call.func, cst.Attribute).value)
            if isinstance(value, Result)
            for owner in self._blocks_of(value)
        }
        return next(iter(blocks)) if len(blocks) == 1 else None

    def _blocks_of(self, tape: Result) -> list[cst.With]:
        """The `with` statement that makes the tape, or those that enter it by its name: `with tape:` in a helper."""
        entered = [
            block
            for block in self.tree.all_of(cst.With)
            for item in block.items
            if isinstance(item.item, (cst.Name, cst.Attribute)) and tape in self.resolver.values(item.item)
        ]
        around = [owner for owner in self.tree.ancestors(tape.call) if isinstance(owner, cst.With)][:1]
        is_entered = any(item.item is tape.call for block in around for item in block.items)
        return [*around, *entered] if is_entered or not entered else entered

    # -- in the loop itself --------------------------------------------------------------------------------------

    def _sites(self, update: Update) -> list[tuple[Statement, cst.CSTNode, Update]]:
        """The code that reads the batches for the update and stands in their loop, each behind the statement in front
        of which they would be cut: that under the tape, or functions that it is given to call."""
        block = self._tape_block(update)
        if block is not None and self.reads.any_in(block.body, block):
            return [(block, block.body, update)]
        closures = self._minimized(update) if isinstance(update, Minimization) else self._called_under(block)
        places = {closure: self._place_of(closure) for closure in closures}
        if any(self._hides_batches(*each) for each in places.items()):
            return []
        return [(place, c.body, update) for c, place in places.items() if self.reads.any_in(c.body, place)]

    def _around_tape(self, update: Update) -> list[Cut] | None:
        """Where to cut what the code under the tape is given by the callers of its function, or takes of full ones."""
        block = self._tape_block(update)
        if block is None:
            return None
        cuts = self.arguments.behind(block.body, block, update)
        return self.full.of(block.body, block, update) if cuts is None else cuts

    def _read_by(self, body: cst.CSTNode, block: Statement, update: Update) -> list[Cut] | None:
        """Where to cut what the code reads that runs under the tape, in front of the statement that it stands in."""
        names: dict[str, cst.Name] = {}
        reads: list[cst.BaseExpression] = []
        direct: list[cst.BaseExpression] = []
        cut_before: dict[cst.BaseExpression, CutNames] = {}
        is_cut = False
        for node in self.reads.of(body, block):
            node = self._all_rows_of(node, block)
            if self.shares.is_share_at(node, block):
                is_cut = True
            elif (cut := self.earlier.behind(node, block)) is not None:
                cut_before[node] = cut
            elif isinstance(node, cst.Name) and self.earlier.is_bound_beside(node, block):
                names.setdefault(node.value, node)
                reads.append(node)
            elif self.rows.of(node) is not None and not isinstance(node, cst.Name):
                direct.append(node)
            elif not self.before.stays_whole(node, block):
                return None
        # Items of what is cut itself, or that are picked by it: `batch[:, :3]`, `centers[labels]`.
        direct = [node for node in direct if not any(n.value in names for n in self.tree.names_in(node))]
        found = [*names.values(), *direct]
        if is_cut:
            return [] if not found else None
        shared = self.earlier.shared_by(update, block, cut_before)
        if not found:
            return [*shared] or None
        together = [*found, *cut_before]
        if not (all(map(self.rows.several, together)) and self.forms.are_samples(together, block)):
            in_front = self._in_front_of_models([*reads, *direct], block, update) if not shared else None
            if in_front is not None or not self.forms.are_batches(together, self.training.reached_from(body)):
                return in_front
        return self._cuts([*names.values()], reads, direct, shared, block, update)

    def _cuts(
        self, names: Sequence[cst.Name], reads: Sequence[cst.BaseExpression], direct: Sequence[cst.BaseExpression],
        shared: Sequence[CutNames], block: Statement, update: Update,
    ) -> list[Cut] | None:  # fmt: skip
        beside = self.beside
        if (
            names
            and not shared
            and (beside.asks_for_sizes_behind(names, block) or beside.are_read_beside(names, block))
        ):
            return [CutExpressions((*reads, *direct), [update])]
        cuts: list[Cut] = [*shared]
        late = [name for name in names if not self.earlier.join_any(name, shared)]
        if any(self.earlier.may_have_cut(name, block) for name in late):
            return None
        if late:
            cut = CutNames(sorted(late, key=self.earlier.bound_at), block, [update])
            self.earlier.found.append(cut)
            cuts.append(cut)
        if direct:
            cuts.append(CutExpressions(tuple(direct), [update]))
        return cuts

    def _in_front_of_models(
        self, given: Sequence[cst.BaseExpression], block: Statement, update: Update
    ) -> list[Cut] | None:
        """Where to cut the batches that a model has made a part of the data of, in front of the first such model."""
        around = next(iter(self.tree.loops_around(block)), None)
        turn = around.body if around is not None else self.tree.function_of(block)
        made = self.by_models.of(given, turn, block) if turn is not None else None
        if made is None:
            return None
        found = [node for node in made.reads if not self.before.stays_whole(node, block)]
        names = [node for node in found if isinstance(node, cst.Name)]
        direct = [node for node in found if not isinstance(node, cst.Name)]
        users = [code for part in (*made.steps, block) for code in self.training.reached_from(part)]
        are_rows = all(map(self.rows.several, found)) and any(self.forms.are_samples(found, user) for user in users)
        if (
            not all(self.earlier.is_bound_beside(n, block) and self._is_made_above(n, made.first) for n in names)
            or any(self.rows.of(node) is None for node in direct)
            or not (are_rows or self.forms.are_batches(found, users))
        ):
            return None
        return self._cuts([*{name.value: name for name in names}.values()], names, direct, [], made.first, update)

    def _is_made_above(self, name: cst.Name, place: Statement) -> bool:
        return all(
            binding.node not in self.tree.order
            or self.tree.contains(binding.node, place)  # the loop that both stand in
            or (self.tree.order[binding.node] < self.tree.order[place] and not self.tree.contains(place, binding.node))
            for binding in self.resolver.reaching(name)
        )

    def _all_rows_of(self, node: cst.BaseExpression, block: Statement) -> cst.BaseExpression:
        """The batch that an item has all rows of, `labels[:, None]`, where that is made in the same turn."""
        batch = node.value if isinstance(node, cst.Subscript) and takes_all(node.slice[0].slice) else node
        is_batch = isinstance(batch, cst.Name) and self.rows.of(batch) is not None
        return batch if is_batch and self.earlier.is_bound_beside(cst.ensure_type(batch, cst.Name), block) else node

    def _cut_before_fit(self, fit: Fit) -> None:
        """Lets a `train_on_batch` read what earlier steps have cut, and what else it reads be cut there."""
        given = [arg.value for arg in fit.call.args]
        cuts = {node: cut for node in given if (cut := self.earlier.behind(node, fit.call)) is not None}
        for cut in dict.fromkeys(cuts.values()):
            self.earlier.share(cut, fit.call)
            cut.fits.append(fit)
        self._cut_for_fits.update(cuts)
        self._cut_for_fits.update(n for n in given if n not in cuts and self.earlier.join_any(n, cuts.values()))

    @cached_property
    def _tape_blocks(self) -> list[cst.With]:
        return [block for update in self.training.updates if (block := self._tape_block(update)) is not None]

    # -- in what the step is given to call -----------------------------------------------------------------------

    def _called_under(self, block: cst.With | None) -> list[FunctionLike]:
        """Of a tape in a helper that calls what it is given, `minimize(lambda: loss(model(x), y), variables)`: the
        functions that are called."""
        calls = [call for call in self.tree.calls if block is not None and self.tree.contains(block.body, call)]
        called = [v for call in calls for v in self.resolver.values(call.func)]
        return [v.node for v in called if isinstance(v, Function) and not _takes_arguments(v.node)]

    def _minimized(self, update: Minimization) -> list[FunctionLike]:
        """Of `optimizer.minimize(lambda: loss(model(x), y), variables)`, which calls what it is given by itself: that;
        none where not all of it is seen."""
        values = self.resolver.values(update.loss) if update.loss is not None else ()
        closures = [v.node for v in values if isinstance(v, Function) and not _takes_arguments(v.node)]
        return closures if len(closures) == len(values) else []

    def _in_minimized(self, update: Minimization) -> list[Cut] | None:
        """Where to cut what the one function that is minimised takes of the function that it is made in."""
        closures = self._minimized(update)
        if len(closures) != 1:
            return None
        body, place = closures[0].body, self._place_of(closures[0])
        if self._hides_batches(closures[0], place):
            return None
        cuts = self.arguments.behind(body, place, update)
        return self.full.of(body, place, update) if cuts is None else cuts

    def _place_of(self, closure: FunctionLike) -> Statement:
        return closure if isinstance(closure, cst.FunctionDef) else self.tree.statement_of(closure)

    def _hides_batches(self, closure: FunctionLike, place: Statement) -> bool:
        """Whether functions that the closure calls read what the turn of the loop has made, too, or the closure reads
        by a name that has got something else until it runs."""
        turn, end = self.earlier.turn_of(place), self.tree.last_order_in(place)
        if any(
            self.tree.order[binding.node] > end and turn is not None and self.tree.contains(turn, binding.node)
            for name in self.tree.names_in(closure.body)
            if self.tree.is_read(name)
            for binding in self.resolver.reaching(name)
        ):
            return True
        bodies = self.training.reached_from(closure.body)[1:]
        names = [name for body in bodies if body is not closure for name in self.tree.names_in(body)]
        return any(
            self.tree.is_read(name)
            and self.earlier.is_bound_beside(name, place)
            and not self.reads.is_number_or_constant(name)
            for name in names
            if self.resolver.reaching(name)
        )

    # -- sizes ---------------------------------------------------------------------------------------------------

    def sizes(self, cut: Cut) -> list[cst.Name]:
        """The names of which the batches are made, down to arrays and numbers: that of their size is among them."""
        if isinstance(cut, CutArguments):
            queue: list[cst.CSTNode] = [arg.value for arg in cut.batches]
        else:
            queue = [*(cut.names if isinstance(cut, CutNames) else cut.expressions)]
        found: dict[cst.Name, None] = {}
        for node in queue:
            for name in self.tree.names_in(node):
                if name not in found and len(found) < _MANY_NAMES:
                    found[name] = None
                    queue.extend(b.value for b in self.resolver.reaching(name) if b.kind == "assign" and b.value)
        return list(found)

    def steps(self, cut: Cut) -> list[cst.CSTNode]:
        """The code that runs for each batch."""
        if isinstance(cut, CutArguments):
            return self.training.reached_from(cut.call)[1:]
        blocks = [body for update in cut.updates for body in self._steps_of(update)]
        called = self.training.reached_from(cut.before)[1:] if isinstance(cut, CutNames) else []
        return list(dict.fromkeys([*(code for block in blocks for code in self.training.run_by(block)), *called]))

    def _steps_of(self, update: Update) -> list[cst.CSTNode]:
        """The code of which the update takes gradients."""
        if isinstance(update, Minimization):
            values = self.resolver.values(update.loss) if update.loss is not None else ()
            return [value.node.body for value in values if isinstance(value, Function)]
        block = self._tape_block(update)
        return [block.body] if block is not None else []


def _takes_arguments(function: FunctionLike) -> bool:
    params = function.params
    return bool(params.posonly_params or params.params or params.kwonly_params or params.star_kwarg) or isinstance(
        params.star_arg, cst.Param
    )


def _shared(cut: Cut, at: dict[cst.CSTNode, Cut]) -> Cut:
    """The cut of that place, which then serves the updates of both."""
    first = at.setdefault(cut.place, cut)
    if first is not cut:
        first.updates.extend(cut.updates)
    return first
