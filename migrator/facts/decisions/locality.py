"""Which values differ from worker to worker, and in what way: what each worker's share of the batches reaches.

A value is local as soon as anything local reaches it through the graph of dependence/, whatever lies between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.data.run_on_elements import RunOnElements
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.called_alone import CalledAlone
from migrator.facts.decisions.consequences import Consequences
from migrator.facts.decisions.fed_metrics import FedMetrics
from migrator.facts.decisions.given_by_keras import GivenByKeras
from migrator.facts.decisions.interruptions import Interruptions
from migrator.facts.decisions.local_sources import LocalSources
from migrator.facts.decisions.marks import EVERY, PASSED, TAKEN, Mark
from migrator.facts.decisions.routes import Routes
from migrator.facts.dependence import DECIDING, Dependence, Key, Way
from migrator.facts.dependence.spreading import Marks, Spread
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.patterns import compared_by
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.gradients import sources_of
from migrator.facts.training.sites import Training
from migrator.worklist import Worklist


def _of_turns(marks: Marks) -> Marks:
    """How it is local how often a comprehension turns over this: what a container holds may be numbers of samples."""
    return marks & ~(Mark.WITHIN | Mark.COUNT if marks & Mark.INSIDE else Mark.WITHIN)


class Locality:
    """Follows what is local from where it comes from to all that it reaches."""

    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        consequences: Consequences,
        losses: Losses,
        computing: Collection[cst.CSTNode] = (),
    ) -> None:
        """`computing`: what is nothing but a value of the samples, by the user's word."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.consequences = consequences
        self._computing = computing
        self.losses = losses
        self.regions = consequences.regions
        self.metrics = FedMetrics(tree, resolver, training)
        self.interruptions = Interruptions(tree, resolver, training)
        given = GivenByKeras(tree, resolver, training, CalledAlone(tree, resolver, lambda: self.dependence))
        self.on_elements = RunOnElements(tree, resolver, training, sharding.pipelines)
        self._sources = LocalSources(
            tree, resolver, training, sharding, self.metrics, given, self.interruptions, self.on_elements
        )
        # Gradients are reduced before anything reads them.
        gradients = [g for update in training.updates for g in update.gradients]
        self._settled: set[Key] = {g.computed if g.holder is None else g.holder for g in gradients}
        self._reduced = {call for g in gradients for call in g.tape_calls}
        computed = map(training.computed, training.updates)
        self._settled |= {values for values in computed if values is not None}
        # The history of `fit` is that of averaged logs.
        self._settled |= {fit.call for fit in training.fits}
        self._spread: Spread | None = None
        self._changed: list[int] = []  # what has lost marks since, or part of them
        self._agreed: set[Key] = set()
        # By number.
        self._linked: set[int] = set()
        self._linked_uses: set[int] = set()
        self._open: dict[int, bool] = {}

    @cached_property
    def dependence(self) -> Dependence:
        computing = self._calls_behind(self._computing)
        kinds, unrun = self.training.kinds, self.training.unrun
        found = Dependence(self.tree, self.resolver, kinds, computing, unrun, self.losses.run_at, self.losses.met_at)
        for call in self.metrics.results:
            for given in self.metrics.fed_to(cast(cst.Attribute, call.func).value):
                found.link(given, call, Way.USED)
        for told in self.consequences.files.told_again():
            found.link(told.written, told.read, Way.INTO if told.is_inside else Way.USED)
        for match in self.tree.all_of(cst.Match):
            for case in match.cases:
                for part in compared_by(case.pattern, match.subject):
                    found.link(part, ("compared", match.subject), Way.USED)
            found.link(("compared", match.subject), match.subject, Way.WHOLE)
        return found

    def _calls_behind(self, computing: Collection[cst.CSTNode]) -> set[cst.CSTNode]:
        """The calls that compute these, also as names get them, and in functions."""
        queue, found = list(computing), set[cst.CSTNode]()
        while queue:
            node = queue.pop()
            if isinstance(node, cst.Name):
                bindings = self.resolver.reaching(node)
                queue += [b.value for b in bindings if b.kind == "assign" and not b.path and b.value is not None]
            for call in self.tree.calls:
                if call in found or not self.tree.contains(node, call):
                    continue
                found.add(call)
                queue += [v.node for v in self.resolver.values(call.func) if isinstance(v, Function)]
        return found

    def deciding(self, place: cst.BaseExpression) -> Marks:
        """How what the value decides is local: no sample does where a `match` asks for its form alone."""
        if self._is_of_turns(place):
            return _of_turns(self.of(place))
        parent = self.tree.parent.get(place)
        is_form = isinstance(parent, cst.Match) and parent.subject is place and self.losses.asks_for_form(parent)
        return self.of(place) & (Mark.CHOSEN | Mark.OWN) if is_form else self.of(place)

    def _is_of_turns(self, key: Key) -> bool:
        """Whether a comprehension goes through it, maybe through what `zip` makes of it."""
        parent = self.tree.parent.get(key) if isinstance(key, cst.CSTNode) else None
        while isinstance(parent, cst.Arg):
            parent = self.tree.parent.get(self.tree.parent[parent])
        return isinstance(parent, cst.CompFor)

    def settle(self, *agreed: Key) -> None:
        """From here on, what the bindings or expressions give counts as the same on all workers."""
        new = [key for key in agreed if key not in self._settled]
        if new:  # it takes long to take back what follows from them
            self._settled.update(new)
            self._take_back([key for key in new if key not in self.origins])

    def make(self, origin: Key, marks: Marks) -> None:
        """The value is each worker's own, whatever it is made of. Before any is asked for."""
        self.origins[origin] = marks
        self._spread = None

    def hold_statistics(self, call: cst.Call) -> None:
        """From here on, the model that is called gives a container, with as many values on all workers."""
        self.origins[call] = Mark.HELD
        self._take_back([call])

    def hold(self, call: cst.Call) -> None:
        """From here on, the call gives as many values on all workers, which hold what it is given."""
        if self.of(call) & (Mark.VALUE | Mark.STATISTIC):
            self._put_into(call.args, call)

    def hold_all(self, node: cst.BaseExpression) -> None:
        """From here on, the expression is as many values on all workers, which hold what it is made of."""
        if self.of(node) & (Mark.VALUE | Mark.STATISTIC) and self.origins.get(node, Mark.HELD) == Mark.HELD:
            self._put_into([key for key, _ in self.dependence.inputs(node)], node)

    def hand_on(self, call: cst.Call) -> None:
        """From here on, the method gives what its object holds, as many of them: `losses.items()`."""
        method = cst.ensure_type(call.func, cst.Attribute)
        if self.of(call) & (Mark.VALUE | Mark.STATISTIC):
            self._put_into([method.value], method, Way.WHOLE)
            self._put_into([method], call, Way.WHOLE)

    def _put_into(self, keys: Iterable[Key], node: cst.BaseExpression, by: Way = Way.INTO) -> None:
        self.dependence.put_into(keys, node, by)
        self._routes.forget()
        self._take_back([node])

    def forget(self, *keys: Key) -> None:
        """From here on, the values are each worker's own only where they are made of such ones."""
        for key in keys:
            self.origins.pop(key, None)
        self._take_back(keys)

    def expect(self, condition: cst.BaseExpression) -> None:
        """From here on, what the condition chooses counts as chosen alike: the workers are made to agree on it."""
        if condition not in self._agreed:
            self._agreed.add(condition)
            self._take_back(self.dependence.users(condition))

    @contextmanager
    def trying(self) -> Iterator[Callable[[], None]]:
        """What is settled or forgotten inside is as before afterwards, unless what this gives is called: it stays."""
        if self._changed and self._spread is not None:  # once, and not inside and afterwards
            _ = self._marks
        settled, agreed, origins, spread = set(self._settled), set(self._agreed), dict(self.origins), self._spread
        changed, self._changed = self._changed, list(self._changed)
        self._spread = spread and spread.copy()
        kept: list[bool] = []
        try:
            yield lambda: kept.append(True)
        finally:
            if not kept:
                self._settled, self._agreed, self.origins, self._spread = settled, agreed, origins, spread
                self._changed = changed

    def of(self, key: Key | None) -> Marks:
        """How the value is local; nothing where all workers agree."""
        if key is None or not self.origins:  # without these the graph, which takes long to make, tells nothing
            return Mark.NONE
        return self._marks.get(self.dependence.number(key), 0)

    def due(self, key: Key) -> Marks:
        """How the value is made local, be it settled or not."""
        marks = Mark.NONE
        for source, way in self.dependence.inputs(key):
            if way not in DECIDING or source not in self._agreed:
                marks |= PASSED[way][self.of(source)]
        return marks

    def is_made_by_others(self, key: Key, marks: Marks) -> bool:
        """Whether the value is made local, in one of these ways, by what it has not made so itself."""
        if key in self.origins or not self.of(key):
            return bool(self.due(key) & marks)
        number = self.dependence.number(key)
        ends = [
            (source, TAKEN[marks][way])
            for source, way in self.dependence.sources[number]
            if way not in DECIDING or self.dependence.keys[source] not in self._agreed
        ]
        return self._routes.lead("made", self.origins, ends, self._settled, self._agreed, self._marks, number)

    def feeds_itself(self, node: cst.BaseExpression) -> bool:
        """Whether this worker's samples in the value would come round to it, and not only what they have chosen."""
        ends = [(self.dependence.number(key), EVERY & ~Mark.CHOSEN) for key in self.inputs(node)]
        known = self._marks if self.of(node) & Mark.VALUE else None  # else they may reach what is not local yet
        return self._routes.lead(node, {node: Mark.VALUE}, ends, self._settled, self._agreed, known)

    @property
    def _marks(self) -> Mapping[int, Marks]:
        """Those of all values by their numbers, with what was settled since they were asked for."""
        if self._spread is None:
            self._spread = self._spread_from(self.origins)
        elif self._changed:
            origins = {self.dependence.number(key): mark for key, mark in self.origins.items()}
            self._spread.take_back(self._changed, origins, self._closed(self.origins), self._choosing_alike)
        self._changed = []
        return self._spread.marks

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.dependence, self._lets_in)

    def reached_from(self, node: cst.BaseExpression) -> Spread:
        """What would be local if this were."""
        return self._spread_from({node: Mark.VALUE})

    def spread_from(self, nodes: Iterable[Key]) -> Spread:
        """What would be local if these were."""
        return self._spread_from(dict.fromkeys(nodes, Mark.VALUE))

    def made_of(self, nodes: Iterable[cst.BaseExpression]) -> Spread:
        """All that is made of these, be it settled or not, or in as many turns of a loop as there are of them."""
        spread = Spread(self.dependence, PASSED, self._lets_in, self._link_turns)
        spread.add(((self.dependence.number(node), Mark.VALUE) for node in nodes), (), ())
        return spread

    def bindings_behind(self, nodes: Iterable[cst.CSTNode]) -> set[Binding]:
        """The assignments that these are computed from."""
        return {key for key in self.behind(nodes) if isinstance(key, Binding)}

    def behind(self, nodes: Iterable[cst.CSTNode]) -> set[Key]:
        """All that these are computed from, with themselves."""
        queue = Worklist[Key](node for node in nodes if isinstance(node, cst.BaseExpression))
        found: set[Key] = set()
        for key in queue:
            queue += [k for k, _ in self.dependence.inputs(key)]
            found.add(key)
        return found

    def inputs(self, key: Key) -> list[Key]:
        """What makes the value local."""
        keys, sources = self.dependence.keys, self.dependence.sources[self.dependence.number(key)]
        marks = self._marks
        return [keys[source] for source, way in sources if PASSED[way][marks.get(source, 0)]]

    def made_local_by(self, key: Key) -> Iterator[Key]:
        """The value, and what makes it local, on all the ways back to where that begins."""
        keys, sources = self.dependence.keys, self.dependence.sources
        marks, ends = self._marks, {self.dependence.number(origin) for origin in self.origins}
        queue = [self.dependence.number(key)]
        met = set(queue)
        while queue:
            number = queue.pop()
            yield keys[number]
            for source, way in sources[number] if number not in ends else ():
                if source not in met and PASSED[way][marks.get(source, 0)]:
                    met.add(source)
                    queue.append(source)

    def choosers(self, key: Key) -> list[cst.BaseExpression]:
        """The expressions that decide what the value is, and are local."""
        inputs = self.dependence.inputs(key)
        return [k for k, way in inputs if way in DECIDING and isinstance(k, cst.BaseExpression) and self.of(k)]

    def _spread_from(self, origins: dict[Key, Marks]) -> Spread:
        spread = Spread(self.dependence, PASSED, self._lets_in, self._link_choices)
        numbered = {self.dependence.number(key): mark for key, mark in origins.items()}
        spread.add(numbered.items(), self._closed(origins), self._choosing_alike)
        return spread

    def _take_back(self, keys: Iterable[Key]) -> None:
        """The values have lost what made them local, or part of it."""
        if self._spread is not None:
            self._changed += map(self.dependence.number, keys)

    def _closed(self, origins: Collection[Key]) -> set[int]:
        """What takes no marks from others: what is settled, unless it is local to begin with."""
        return {self.dependence.number(key) for key in self._settled if key not in origins}

    @property
    def _choosing_alike(self) -> set[int]:
        return set(map(self.dependence.number, self._agreed))

    def _lets_in(self, number: int) -> bool:
        """Gradients of weights come reduced to those who read them, be it out of what holds local numbers, too; those
        of a batch are of a worker's rows."""
        found = self._open.get(number)
        if found is None:
            user, flow = self.dependence.keys[number], self.training.flow
            if isinstance(user, cst.Call):
                found = not flow.is_tape_call(user) or self._is_of_rows(user)
            else:
                found = not (isinstance(user, (cst.Attribute, cst.Subscript)) and flow.gives_gradients(user))
            self._open[number] = found
        return found

    def _is_of_rows(self, call: cst.Call) -> bool:
        sources = sources_of(call)
        return call not in self._reduced and sources is not None and self.losses.is_rows(sources)

    def _link_choices(self, number: int, marks: Marks) -> None:
        """Once a condition is local, what is bound under it is chosen by it; unless consequences follow, for which
        workers are made to agree on it."""
        key = self.dependence.keys[number]
        if number not in self._linked and (_of_turns(marks) or not self._is_of_turns(key)):
            self._linked.add(number)
            if isinstance(key, cst.BaseExpression) and not self.consequences.follow(key):
                for chosen in self.regions.chosen_by(key, self.dependence):
                    self.dependence.link(key, chosen, Way.CHOICE)
        if marks & Mark.PICKED and number not in self._linked_uses and isinstance(key, cst.BaseExpression):
            self._linked_uses.add(number)
            uses = () if self.consequences.follow_picked(key) else self.regions.picked.get(key, ())
            for use in uses:
                for chosen in self.regions.chosen_at(use, self.dependence):
                    self.dependence.link(key, chosen, Way.IDENTITY)

    def _link_turns(self, number: int, marks: Marks) -> None:
        key = self.dependence.keys[number]
        loop = self.tree.parent.get(key) if isinstance(key, cst.BaseExpression) else None
        if isinstance(loop, cst.For) and key is loop.iter:
            for changed in self.regions.chosen_by(key, self.dependence):
                self.dependence.link(key, changed, Way.CHOICE)
        else:
            self._link_choices(number, marks)

    @cached_property
    def origins(self) -> dict[Key, Marks]:
        """The values that are each worker's own to begin with."""
        found = self._sources.marks()
        if self.interruptions.changing:  # when a worker sees what these change is a matter of chance
            flags = self._sources.of_flags  # each place that asks these is looked at by itself
            changed = self.regions.left_by(self.interruptions.changing, self.dependence, flags)
            given = filter(self.interruptions.contain, self.consequences.settings)
            found.update(dict.fromkeys((*changed, *given), Mark.OWN))
        return found

    def is_by_chance(self, key: Key) -> bool:
        """Whether the value is made local by what signal handlers and other threads change."""
        return bool(self.of(key) & Mark.OWN and self.interruptions.changing)

    @property
    def keeps_statistics(self) -> bool:
        """Whether a model may hold BatchNormalization: its statistics, and so inference, are each worker's own."""
        return self._sources.keeps_statistics

    def is_fed_locally(self, metric: cst.BaseExpression) -> bool:
        """Whether a Keras metric was updated with local values: `m(loss)`, `m.update_state(loss)`, or by `fit`."""
        return any(map(self.of, self.metrics.fed_to(metric))) or self.metrics.is_fed_by_fit(metric)
