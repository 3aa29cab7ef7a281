"""Where training is steered by what only one worker has seen: a loss or metric of its share of the batches.

Workers that decide differently part ways: the one that leaves a loop first lets the others wait for ever, and one
that changes its learning rate alone trains another model. What steers must be the same on all workers: conditions that
consequences follow, what sets the optimizer or a random state, what enters an update. Where a local value reaches such
a place, the way back from it is gone until numbers are met that may be averaged: the losses themselves, most often.
What was picked or counted by them on the way then agrees by itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.analysis.losses import MEAN, SUM, Losses
from migrator.analysis.placing import MEETS
from migrator.analysis.values import Repair
from migrator.facts import api
from migrator.facts.consequences import Consequences
from migrator.facts.dependence import Key, Way
from migrator.facts.draws import draws
from migrator.facts.files import Files
from migrator.facts.gathering import Gathering
from migrator.facts.kinds import calls, origin
from migrator.facts.locality import Locality, Mark
from migrator.facts.means import Means, Rows
from migrator.facts.metrics import MetricResult, Metrics
from migrator.facts.reductions import GATHER
from migrator.facts.regions import Regions
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.spreading import Marks
from migrator.facts.training import Minimization, Training
from migrator.facts.tree import Binding, Tree
from migrator.facts.values import Class, External, Function, Literal, Object, Value

_SEEDS = api.NUMPY_GENERATORS | {
    "random.seed",
    "numpy.random.seed",
    "tensorflow.random.set_seed",
    "keras.utils.set_random_seed",
    "random.Random",
    "tensorflow.set_random_seed",
}
# Methods of datasets, and arguments of `fit`, that tell how much is trained on.
_COUNTING = frozenset({"take", "skip", "repeat", "batch", "padded_batch", "window", "range", "shard"})
_LENGTHS = frozenset({"epochs", "initial_epoch", "steps_per_epoch", "batch_size", "class_weight"})
# Classes of what is trained, and of what trains it.
_MAKING = re.compile(r"keras\.(?:layers|regularizers|constraints|initializers|optimizers|losses)\.(?:\w+\.)*[A-Z]\w*$")
_OF_WEIGHTS = ("_initializer", "_regularizer", "_constraint")
# Functions of Python's that ask a function when to stop.
_STOPPING = ("itertools.takewhile", "itertools.dropwhile", "builtins.iter")
_EXITS = frozenset({"sys.exit", "os._exit"})
# They give a number as it is; methods that put one into a variable.
_TOLD_BY_THREADS = frozenset({"threading.Event", "multiprocessing.Event"})
_NUMBERS = frozenset({"builtins.float", "builtins.int", "tensorflow.cast", "numpy.float32", "numpy.float64"})
_SETTING = frozenset({"assign", "assign_add", "assign_sub"})
_DECIDING = (Way.CHOICE, Way.SIZE, Way.LENGTH, Way.PRESENCE)


@dataclass(frozen=True, eq=False)
class LocalNumber:
    """A number of this worker's own that steers training.

    `binding`, where given, is the statement right after which it can be averaged for all that follows; else it is
    averaged where the expression stands. `reduction`: "mean" or "sum"; "chief" where the workers take what the chief
    has (the time); "gather" where they take the rows of all, see Gathering; empty where nothing makes the workers
    agree. The number of samples seen cannot be averaged.
    `metric`, where given, says that the expression is a metric's result, whether or not it steers. `cause`: the first
    expression behind one that nothing makes the workers agree on, which is not followed any further.
    """

    expression: cst.BaseExpression
    binding: Binding | None = None
    reduction: str = ""
    is_count: bool = False
    metric: MetricResult | None = None
    cause: cst.BaseExpression | None = None

    @property
    def place(self) -> cst.CSTNode:
        """Where it is combined: the expression, or the statement that binds it."""
        return self.expression if self.binding is None else self.binding.node

    @property
    def is_settled(self) -> bool:
        """Whether something makes the workers agree on it."""
        return bool(self.reduction) or (self.metric is not None and not self.is_count)


class Decisions:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        losses: Losses,
        repaired: Collection[Repair] = (),
        agreed: Iterable[cst.BaseExpression] = (),
        rows: Rows = Rows.ANY,
        gathered: Collection[cst.BaseExpression] | None = None,
        taken: Iterable[cst.CSTNode] = (),
    ) -> None:
        """`repaired`: what is put together for the losses. `agreed`: what is the same on all workers, by the user's
        word. `gathered`: where the losses are known with all rows put together for what steers; others are looked for
        where it is given. `taken`: single samples that enter losses."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.files = files
        regions = Regions(tree, resolver, training)
        self.consequences = Consequences(tree, resolver, training, sharding, files, regions, gathered or ())
        self.locality = Locality(tree, resolver, training, sharding, self.consequences)
        self.metrics = Metrics(tree, resolver, training, sharding, files, self.locality, parts_differ=rows is Rows.ONCE)
        self.losses = losses
        self.means = Means(tree, resolver, self.locality, losses, rows)
        self.agreed_by_word = self._settled_by_word(agreed)
        for key, mark in list(self.locality.origins.items()):
            if mark == Mark.STATISTIC and isinstance(key, cst.CSTNode) and losses.is_symbolic(key):
                self.locality.forget(key)
        self._settle_draws(repaired)
        self._settle_whole_calls()
        self._taken = [node for node in taken if isinstance(node, cst.BaseExpression)]
        self.gathering = Gathering(tree, files, losses, self.locality)
        self._may_gather = gathered is not None
        self.repairs = self._settled_by_repair(frozenset(repaired), rows)
        self.puts_rows_together = bool(gathered)
        if gathered:
            self.repairs |= losses.gathers

    @cached_property
    def local_numbers(self) -> list[LocalNumber]:
        """The local numbers that steer training, in source order."""
        if not self.training.sites or not self.locality.origins:
            return []
        # Metrics first: what is asked of them is settled then.
        found: dict[cst.CSTNode, LocalNumber] = {
            r.call: LocalNumber(r.call, metric=r, reduction="mean") for r in self._results if not r.is_own
        }
        for numbers in self.steering.values():
            for number in numbers:
                found.setdefault(number.expression, number)
        for result in self._results:
            found.setdefault(result.call, LocalNumber(result.call, metric=result))
        return sorted(found.values(), key=lambda number: self.tree.order[number.expression])

    @cached_property
    def steering(self) -> dict[cst.BaseExpression, list[LocalNumber]]:
        """The places where local numbers steer training, with these numbers."""
        found: dict[cst.BaseExpression, list[LocalNumber]] = {}
        if self.locality.origins:
            for place in self._places:
                if self._is_steering(place):
                    found[place] = self._agree_on(place)
            for place in self._fed_back():
                found.setdefault(place, self._agree_on(place))
        for place in self._taken:
            found.setdefault(place, self._agree_on(place))
        return found

    @property
    def are_settled(self) -> bool:
        """Whether something makes the workers agree on all that steers."""
        return all(number.is_settled for number in self.local_numbers)

    def steers_by(self, place: cst.CSTNode) -> bool:
        """Whether training is steered by a number that is combined there, and is no metric's result."""
        return any(number.place is place and number.metric is None for number in self.local_numbers)

    def _settled_by_word(self, agreed: Iterable[cst.BaseExpression]) -> set[cst.BaseExpression]:
        """Takes these for the same on all workers; gives those of which it would not be known otherwise."""
        apart = {node for node in agreed if self.locality.of(node)}
        for node in apart:
            self.locality.settle(node)
        return apart

    def _settle_draws(self, repaired: Iterable[Repair]) -> None:
        """Generators that all workers ask for as many numbers stay alike, though each takes others of them."""
        for repair in repaired:
            call = repair.node
            if not isinstance(call, cst.Call) or not any(map(draws, self.resolver.values(call.func))):
                continue
            for arg in call.args:
                if any(self.tree.contains(arg, operand.node) for operand in repair.operands):
                    self.locality.settle(arg)
            if repair.form == "drawn":
                self.locality.make(call, Mark.VALUE)

    def _settle_whole_calls(self) -> None:
        """What is made of values that all workers have is the same on all, though the same function also runs on parts
        of batches. But not what is read from files, into which a worker may have written what it has seen."""
        read = [node for _, node in self.files.told_again()]
        found = [call for call in self.tree.calls if self._may_be_whole(call, read)]
        while found:
            # They may be made of each other: a word is fed back to the model that gave it. What differs first would do
            # so by something else.
            with self.locality.trying():
                self._settle_with_parts(found)
                kept = [call for call in found if self._is_made_of_whole(call)]
            if len(kept) == len(found):
                break
            found = kept
        self._settle_with_parts(found)

    def _settle_with_parts(self, found: Iterable[cst.Call]) -> None:
        for call in found:
            self.locality.settle(call)
            for binding in self._parts_bound.get(call, ()):
                self.locality.settle(binding)

    @cached_property
    def _parts_bound(self) -> dict[cst.CSTNode, list[Binding]]:
        """The names that get a part of what a call returns: `word, state = model(word, state)`."""
        found: dict[cst.CSTNode, list[Binding]] = defaultdict(list)
        for scope in self.tree.scopes.values():
            for binding in (b for bindings in scope.bindings.values() for b in bindings):
                if binding.kind == "assign" and binding.path and isinstance(binding.value, cst.Call):
                    found[binding.value].append(binding)
        return found

    def _may_be_whole(self, call: cst.Call, read: Collection[cst.CSTNode]) -> bool:
        """Whether all workers have it as long as they have what it is given."""
        marks = self.locality.of(call)
        if not marks or marks & (Mark.OWN | Mark.STATISTIC) or call in self.locality.origins:
            return False
        if not self.losses.is_same(call):
            return False
        reached = self.training.reached_from(call)
        return not any(self.tree.contains(body, node) for body in reached for node in read) and (
            self._is_local_by_parameters(reached)
        )

    def _is_made_of_whole(self, call: cst.Call) -> bool:
        """Whether all workers have what the call is given; and it is not picked by a local value (a counter of bad
        steps), which looks like any other number."""
        given = [arg.value for arg in call.args]
        given += [call.func.value] if isinstance(call.func, cst.Attribute) else []
        made = (call, *self._parts_bound.get(call, ()))
        return not any(self.locality.due(key) & Mark.CHOSEN for key in made) and not any(map(self.locality.of, given))

    def _is_local_by_parameters(self, reached: Iterable[cst.CSTNode]) -> bool:
        """Whether what these functions return is local by what other calls hand them, and by nothing else they read."""
        functions = [node for node in reached if isinstance(node, cst.FunctionDef)]
        returned = [node for function in functions for node in self.resolver.returned_by_itself(function)]
        with self.locality.trying():
            for function in functions:
                for bindings in self.tree.scopes[function].bindings.values():
                    for binding in bindings:
                        if binding.kind == "param":
                            self.locality.settle(binding)
            return bool(returned) and not any(map(self.locality.of, returned))

    def _settled_by_repair(self, repaired: frozenset[Repair], rows: Rows) -> set[Repair]:
        """Takes what is put together for the losses for the same on all workers, and where rows are not repeated, what
        can be put together besides; gives the repairs that what steers needs besides."""
        found: dict[frozenset[Repair], list[cst.BaseExpression]] = defaultdict(list)
        losses = set(self._differentiated_losses())
        for node, repairs in self.losses.put_together:
            missing = repairs - repaired
            # Means and sums are put together further on, most often of several batches at once.
            can_be = rows is Rows.ONCE and all(operand.how == "gather" for r in missing for operand in r.operands)
            # A ratio of counts over several batches is each worker's own; a loss is of one.
            allowed = Mark.VALUE | Mark.COUNT if node in losses else Mark.VALUE
            if self.losses.is_array(node):  # into which values are put in place
                allowed |= Mark.INSIDE
            if (can_be or not missing) and not self.locality.of(node) & ~allowed:
                found[missing].append(node)
        missing_in = [(repairs, nodes) for repairs, nodes in found.items() if repairs]
        needed = {r for repairs, nodes in missing_in if any(map(self.first_steered_by, nodes)) for r in repairs}
        for nodes in found.values():
            for node in nodes:
                self.locality.settle(node)
        # What is gathered where it meets all rows, in a metric, is all rows there.
        for operand in (o for r in repaired if r.why == MEETS for o in r.operands if o.how == "gather"):
            if isinstance(operand.node, cst.BaseExpression) and not self.locality.of(operand.node) & ~Mark.VALUE:
                self.locality.settle(operand.node)
        return needed

    def _differentiated_losses(self) -> Iterator[cst.CSTNode]:
        """The losses that tapes are asked for, where they are made and where they are used."""
        for call in filter(self.training.flow.is_tape_call, self.tree.calls):
            for arg in call.args[:1]:
                yield arg.value
                bindings = self.resolver.reaching(arg.value) if isinstance(arg.value, cst.Name) else ()
                yield from (b.value for b in bindings if b.kind == "assign" and b.value is not None and not b.path)

    @cached_property
    def kinds(self) -> set[str]:
        """How the numbers that training is steered by are combined; empty where that is not known."""
        kinds = set()
        local = self.local_numbers  # what metrics settle is settled first
        steering = {number.expression for numbers in self.steering.values() for number in numbers}
        for number in local:
            if number.is_count:
                kinds.add(SUM)
            elif number.metric is None:
                kinds.add(number.reduction)
            elif number.expression in steering or self.first_steered_by(number.metric.call) is not None:
                fed = {self.losses.of_number(node).reduction for node in self.locality.fed_to(number.metric.metric)}
                kinds |= fed if fed in ({MEAN}, {SUM}) and number.metric.is_mean else {SUM}
        return kinds - {"chief"}

    @cached_property
    def _results(self) -> list[MetricResult]:
        """The results of metrics that are combined where they are asked for, and settled by that."""
        found = list(self.metrics.results())
        for result in found:
            if not result.is_own:
                self.locality.settle(result.call)
        return found

    def first_steered_by(self, number: cst.BaseExpression) -> cst.BaseExpression | None:
        """The first place that steers training by the number, such as what a call returned."""
        reached = self.locality.reached_from(number)
        for place in self._places:
            marks = reached.of(place)
            if (marks and place in self._inputs) or (marks & ~Mark.INSIDE and self.consequences.follow(place)):
                return place
        return None

    # -- places that steer ---------------------------------------------------------------------------------------

    @cached_property
    def _places(self) -> list[cst.BaseExpression]:
        found = dict.fromkeys([*self._conditions(), *self._inputs])
        return sorted(found, key=self.tree.order.__getitem__)

    def _is_steering(self, place: cst.BaseExpression) -> bool:
        marks = self.locality.of(place)
        if place not in self._inputs:
            marks &= ~Mark.INSIDE
        if not marks or self.files.is_chief_only(place):
            return False
        return place in self._inputs or self.consequences.follow(place)

    def _conditions(self) -> Iterator[cst.BaseExpression]:
        all_of = self.tree.all_of
        for tests in (all_of(cst.If), all_of(cst.While), all_of(cst.IfExp), all_of(cst.Assert), all_of(cst.CompIf)):
            yield from (node.test for node in tests)
        yield from (node.left for node in all_of(cst.BooleanOperation))
        readers = {consumption.reader for consumption in self.sharding.consumptions}
        yield from (node.iter for node in all_of(cst.For) if node not in readers)
        yield from (node.subject for node in all_of(cst.Match))
        yield from (node.guard for node in all_of(cst.MatchCase) if node.guard is not None)
        for call in self.tree.calls:
            yield call.func
            yield from (arg.value for arg in call.args[:1])
        yield from (node.value for node in all_of(cst.Return) if node.value is not None)

    @cached_property
    def _inputs(self) -> set[cst.BaseExpression]:
        """What sets the optimizer or a random state, or enters an update."""
        found = {*self.consequences.settings, *self._chosen_rows}
        for update in self.training.updates:
            if not isinstance(update, Minimization):
                found.update(arg.value for arg in update.call.args)
        for site in self.training.sites:  # which optimizer or model does it
            if isinstance(site, cst.Call) and isinstance(site.func, cst.Attribute):
                found.add(site.func.value)
        for call in self.tree.calls:
            if call in self.files.copies or self._decides(call):
                found.update(arg.value for arg in call.args)
            found.update(self._settled_by(call))
            if self._picks_trainer(call):
                found.add(cst.ensure_type(call.func, cst.Attribute).value)
        found.update(self.consequences.repeated)
        for function in self.tree.functions:
            if function.name.value == "__exit__":  # says whether an exception goes on
                found.update(self.resolver.returned_by_itself(function))
        return found

    def _picks_trainer(self, call: cst.Call) -> bool:
        """Whether it is a method, of an object that a local value has picked, that trains."""
        func = call.func
        if not isinstance(func, cst.Attribute) or not self.locality.of(func.value) & Mark.CHOSEN:
            return False
        reached = self.training.reached_from(call)
        return any(self.tree.contains(body, site) for body in reached for site in self.training.sites)

    @property
    def _chosen_rows(self) -> Iterator[cst.BaseExpression]:
        """What batches are made of that workers have to hold alike before they take their rows of them."""
        for consumption in self.sharding.consumptions:
            if isinstance(consumption.dataset, cst.BaseExpression):
                yield consumption.dataset
        for node in self.sharding.cut_rows:
            for key in self.locality.inputs(node):
                made_of = key.value if isinstance(key, Binding) else key
                if isinstance(made_of, cst.BaseExpression):
                    yield made_of

    def _settled_by(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What the call settles of the training to come: how many batches there are, how long it goes on, and what an
        optimizer, a layer or a penalty is made of, be that a number or a function or object of the script that gives
        one."""
        func = call.func
        kinds = self.training.kinds
        if isinstance(func, cst.Attribute):
            owners = self.resolver.values(func.value)
            if func.attr.value in _COUNTING and any(map(kinds.is_dataset, owners)):
                yield from (arg.value for arg in call.args)
            if func.attr.value == "fit" and any(map(kinds.is_model, owners)):
                yield from (arg.value for arg in call.args if arg.keyword and arg.keyword.value in _LENGTHS)
        makes = any(map(kinds.is_optimizer, self.resolver.values(call))) or _is_from_config(func)
        if makes or any(isinstance(v, External) and _MAKING.match(v.path) for v in self.resolver.values(call.func)):
            for arg in call.args:
                runs_on_samples = self._runs_on_samples(call, arg)
                if runs_on_samples and isinstance(arg.value, cst.Lambda):
                    yield from self._closed_over(arg.value)
                    continue
                if runs_on_samples and isinstance(arg.value, cst.Call) and self._makes_lambda(arg.value):
                    continue
                yield arg.value
                if not runs_on_samples:
                    yield from self._given_by(arg.value)
        elif self._calls_one_of(call, _STOPPING):
            for arg in call.args:
                yield from self._given_by(arg.value)

    def _makes_lambda(self, call: cst.Call) -> bool:
        """Whether the call gives one lambda, which reads nothing that is local but what it is called with."""
        values = self.resolver.values(call)
        made = values[0].node if len(values) == 1 and isinstance(values[0], Function) else None
        return isinstance(made, cst.Lambda) and not any(map(self.locality.of, self._closed_over(made)))

    def _closed_over(self, function: cst.Lambda) -> Iterator[cst.BaseExpression]:
        """What the function reads besides what it is called with."""
        for name in self.tree.names_in(function.body):
            if not any(
                b.kind == "param" and self.tree.contains(function, b.node) for b in self.resolver.reaching(name)
            ):
                yield name

    def _runs_on_samples(self, call: cst.Call, arg: cst.Arg) -> bool:
        """Whether what is given is a loss, or what a layer does with its inputs (an activation), and not with its
        weights."""
        if self._calls_one_of(call, ("keras.layers.",)):
            return arg.keyword is None or not arg.keyword.value.endswith(_OF_WEIGHTS)
        return self._calls_one_of(call, ("keras.losses.",))

    def _calls_one_of(self, call: cst.Call, prefixes: tuple[str, ...]) -> bool:
        return any(isinstance(v, External) and v.path.startswith(prefixes) for v in self.resolver.values(call.func))

    def _given_by(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What functions and objects of the script give whoever calls them."""
        for value in self.resolver.values(node):
            function: cst.FunctionDef | cst.Lambda | None = None
            if isinstance(value, Function):
                function = value.node
            elif isinstance(value, Object):
                function = self.resolver.method(value.of, "__call__")
            if isinstance(function, cst.Lambda):
                yield function.body
            elif function is not None:
                yield from self.resolver.returned_by_itself(function)

    def _decides(self, call: cst.Call) -> bool:
        """Whether training goes on by what the call is given: it seeds, ends the process, raises what is caught, or is
        one of Keras's callbacks, called by hand."""
        paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
        if paths & (_SEEDS | _EXITS):
            return True
        if any("debugging." in path or path.startswith("numpy.testing.") for path in paths):
            return self._is_tried(call)
        owners = self.resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) else ()
        return any(calls(v).startswith("keras.callbacks.") for v in owners)

    def _is_tried(self, call: cst.Call) -> bool:
        """Whether an exception of the call may be caught."""
        return any(
            self.tree.contains(reached, call) for body in self._tried for reached in self.training.reached_from(body)
        )

    @cached_property
    def _tried(self) -> list[cst.CSTNode]:
        return [node.body for node in self.tree.all_of(cst.Try) if node.handlers]

    def _fed_back(self) -> Iterator[cst.BaseExpression]:
        """What enters the losses that are differentiated otherwise than as samples: numbers of batches before, and what
        such a number has picked."""
        for key in sorted(self._behind_losses | self._sizing_losses, key=self._order):
            if self.locality.of(key) & Mark.CHOSEN:
                for chooser in list(self._choosers(key)):
                    if self.locality.of(chooser):
                        self.locality.expect(chooser)
                        yield chooser
            if key not in self._behind_losses:
                continue
            is_read = isinstance(key, (cst.Name, cst.Attribute)) and self.locality.of(key) & Mark.VALUE
            if is_read and self._comes_from_outside(key) and self._is_number(cast(cst.BaseExpression, key)):
                yield cast(cst.BaseExpression, key)
            elif isinstance(key, cst.BaseExpression) and self._is_overlooked(key):
                yield key

    def _choosers(self, key: Key) -> Iterator[cst.BaseExpression]:
        """The expressions that decide what this is, also by deciding which of its returns a function comes to."""
        queue = [k for k, way in self.locality.dependence.inputs(key) if way is Way.CHOICE]
        seen: set[Key] = set()
        while queue:
            chooser = queue.pop()
            if isinstance(chooser, cst.BaseExpression):
                yield chooser
            elif chooser not in seen:
                seen.add(chooser)
                queue += [k for k, _ in self.locality.dependence.inputs(chooser)]

    def _is_overlooked(self, node: cst.BaseExpression) -> bool:
        """Whether the code under the tape reads there what samples that came before have left behind (how many are in a
        set of them), and nothing is known to put together for that."""
        if not self.locality.of(node) & ~Mark.CHOSEN or not self._is_under_tape(node):
            return False
        is_number = self.losses.is_array(node) and not self.losses.is_constant(node)
        if not is_number or not self.losses.is_same(node):
            return False
        if isinstance(node, cst.Call) and self.metrics.result(node) is not None:
            return True
        # Of a batch itself it is known what becomes of it.
        held = [part for part in self._parts(node) if not self.losses.is_array(part)]
        reads = [node, *(part for part in held if not self.losses.is_same(part) or self._is_apart(part))]
        return any(isinstance(k, (cst.Name, cst.Attribute)) and self._comes_from_outside(k) for k in reads)

    def _is_apart(self, container: cst.BaseExpression) -> bool:
        """Whether what the container holds settles how many it holds: keys of a dictionary."""
        return bool(self.locality.of(container) & Mark.VALUE)

    def _parts(self, node: Key) -> Iterator[cst.BaseExpression]:
        """The expressions that make the expression local which stand in it."""
        for key in self.locality.inputs(node):
            if isinstance(key, cst.BaseExpression):
                yield key
            elif isinstance(key, cst.CSTNode):  # an argument, an element
                yield from self._parts(key)

    def _comes_from_outside(self, key: Key) -> bool:
        """Whether the code under the tape reads here what was made outside of it."""
        if not self._is_under_tape(key):
            return any(map(self._is_under_tape, self.locality.dependence.users(key)))
        bindings = [k[-1] if isinstance(k, tuple) else k for k in self.locality.inputs(key)]
        return any(isinstance(b, Binding) and b.kind != "param" and not self._is_under_tape(b) for b in bindings)

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Whether all that makes the value local are numbers that can be combined, and no samples."""
        may_gather, self._may_gather = self._may_gather, False
        with self.locality.trying():
            found = list(self._numbers(node, set()))
        self._may_gather = may_gather
        return bool(found) and all(number.reduction for number in found)

    # -- what to average -----------------------------------------------------------------------------------------

    def _agree_on(self, place: cst.BaseExpression) -> list[LocalNumber]:
        """The numbers to combine so that the place is the same on all workers; where that cannot be, the place."""
        found = []
        for number in self._numbers(place, set()):
            if not number.reduction:
                expression = number.expression if number.is_count else place
                self.locality.settle(place)
                return [LocalNumber(expression, is_count=number.is_count, cause=number.expression)]
            found.append(number)
        return found

    def _numbers(
        self,
        node: Key,
        seen: set[Key],
        near: cst.BaseExpression | None = None,
        count: cst.BaseExpression | None = None,
    ) -> Iterator[LocalNumber]:
        """The numbers behind a value; `near` is the last expression on the way to it, `count` the first one that is
        how many samples there are."""
        marks = self.locality.of(node)
        if not marks or node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.BaseExpression):
            near = node
            if count is None and self._counts(node, marks):
                count = node
            number = self._number(node, marks)
            if number is not None:
                self.locality.settle(number.binding or number.expression)
                if number.reduction:
                    self.locality.settle(number.expression)
                yield number
                return
            leaf = self.gathering.leaf(node) if self._may_gather else None
            if leaf is not None:
                self.locality.settle(node)
                self.locality.settle(leaf)
                yield LocalNumber(leaf, reduction=GATHER)
                return
        inputs = self.locality.inputs(node)
        if node in self.locality.origins or not inputs:
            if near is not None:
                yield LocalNumber(count or near, is_count=count is not None)
            return
        for key in sorted(inputs, key=self._order):
            yield from self._numbers(key, seen, near, count)

    def _counts(self, node: cst.BaseExpression, marks: Marks) -> bool:
        only = bool(marks & Mark.COUNT) and not marks & (Mark.VALUE | Mark.INSIDE)
        return only and not isinstance(node, (cst.Comparison, cst.BooleanOperation))

    def _order(self, key: Key) -> int:
        node = key.node if isinstance(key, Binding) else key
        return self.tree.order.get(node, 0) if isinstance(node, cst.CSTNode) else 0

    def _number(self, node: cst.BaseExpression, marks: Marks) -> LocalNumber | None:
        """The expression as a number to combine where it stands or is bound; None where its parts are to be."""
        result = self.metrics.result(node) if isinstance(node, cst.Call) else None
        if result is not None and not result.is_own:
            return LocalNumber(node, metric=result, reduction="mean")
        if not marks & (Mark.VALUE | Mark.INSIDE | Mark.COUNT | Mark.STATISTIC):
            return self._chiefs(node, marks)
        if node in self._differentiated or not self._is_atom(node) or self._is_list(node):
            return None
        if any(gradients.tape_calls for gradients in self.training.flow.sources(node)):
            return None  # they are reduced where they are taken; here it is what they are scaled by
        if isinstance(node, (cst.Name, cst.Attribute)):
            bindings = self.locality.dependence.bindings_of(node) if isinstance(node, cst.Name) else []
            if bindings and all(b.kind == "param" for b in bindings) and self._is_given(bindings):
                return None  # what its callers give, where it is made
            if isinstance(node, cst.Attribute) and self._is_kept(node):
                return None  # where it is put there
            if self._is_handed_over(node):
                return None  # where the variable gets it
        reduction = self.means.of(node)
        if not reduction or (isinstance(node, (cst.Name, cst.Subscript)) and self._feeds_itself(node)):
            return None
        if not marks & (Mark.VALUE | Mark.INSIDE | Mark.STATISTIC):
            # By its name other code may ask how many rows there are here.
            return LocalNumber(node, None, reduction) if self._is_counted_with(node) else None
        return LocalNumber(node, self._bound_nearby(node), reduction)

    def _feeds_itself(self, node: cst.BaseExpression) -> bool:
        """Whether the next value is made of this one: combined there, it would be combined in each step again."""
        reached = self.locality.reached_from(node)
        return any(reached.of(key) & ~Mark.CHOSEN for key in self.locality.inputs(node))

    def _is_counted_with(self, node: cst.BaseExpression) -> bool:
        """Whether the number of rows enters arithmetic or a comparison where it stands, and not the size of data."""
        parent = self.tree.parent.get(node)
        while isinstance(parent, cst.Arg):
            call = cst.ensure_type(self.tree.parent[parent], cst.Call)
            if not any(isinstance(v, External) and v.path in _NUMBERS for v in self.resolver.values(call.func)):
                return isinstance(call.func, cst.Attribute) and call.func.attr.value in _SETTING
            parent = self.tree.parent.get(call)
        return isinstance(parent, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.AugAssign))

    def _is_given(self, params: Iterable[Binding]) -> bool:
        return any(self.resolver.given(cast(cst.Param, b.node)) for b in params)

    def _is_handed_over(self, node: cst.BaseExpression) -> bool:
        """Whether the name is that of a variable which an object or a function of the script is given as such."""
        argument = self.tree.parent.get(node)
        call = self.tree.parent.get(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or not any(
            isinstance(v, (Class, Object, Function)) for v in self.resolver.values(call.func)
        ):
            return False
        values = self.resolver.values(node)
        return bool(values) and all(map(self.training.kinds.is_variable, values))

    def _is_kept(self, node: cst.Attribute) -> bool:
        """Whether the attribute only keeps a number that was made elsewhere, and does not add up several."""
        bindings = [k for k in self.locality.inputs(node) if isinstance(k, Binding)]
        return bool(bindings) and all(b.kind == "assign" for b in bindings)

    def _chiefs(self, node: cst.BaseExpression, marks: Marks) -> LocalNumber | None:
        """What the chief has in the place of what is each worker's own: a truth, or a number that is compared."""
        if not marks & Mark.OWN or isinstance(node, cst.BooleanOperation):
            return None
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return None
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            truth = len(bindings) == 1 and bindings[0].value is not None and _is_number_or_truth(bindings[0].value)
            binding = self._bound_nearby(node) if truth else None
            if binding is not None:
                return LocalNumber(node, binding, "chief")
        if isinstance(node, cst.Comparison) or (self._is_asked(node) and self._is_truth(node)):
            return LocalNumber(node, None, "chief")
        if self.tree.parent.get(node) is not None and (node in self._inputs or _is_number_or_truth(node)):
            outside = isinstance(node, cst.Call) and any(
                isinstance(v, External) for v in self.resolver.values(node.func)
            )
            return LocalNumber(node, None, "chief") if outside or not isinstance(node, cst.Call) else None
        return None

    def _is_asked(self, node: cst.BaseExpression) -> bool:
        """Whether all that is asked of the value there is whether it is true."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.BooleanOperation) or (
            isinstance(parent, cst.UnaryOperation) and isinstance(parent.operator, cst.Not)
        ):
            return self._is_asked(parent)
        return isinstance(parent, (cst.If, cst.While, cst.IfExp)) and node is parent.test

    def _is_truth(self, node: cst.BaseExpression) -> bool:
        """Whether it is true or false, or a number, on all ways there: what the chief can send."""
        values = self.resolver.values(node)
        if isinstance(node, cst.Call):
            return bool(values) and all(origin(v) in _TOLD_BY_THREADS for v in values)
        return bool(values) and all(map(_is_flag, values))

    def _is_atom(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a name, an attribute or a result, and not arithmetic or a function around one."""
        if isinstance(node, cst.Call):
            if any(isinstance(v, External) for v in self.resolver.values(node.func)):
                return self.means.condenses(node) or not self.locality.of(node) & (Mark.VALUE | Mark.INSIDE)
            return not (isinstance(node.func, cst.Attribute) and self.locality.of(node.func.value)) or (
                node.func.attr.value == "result"
            )
        if isinstance(node, cst.Subscript):
            return True
        return isinstance(node, (cst.Name, cst.Attribute))

    def _is_list(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a container of numbers and no number."""
        return bool(self.locality.of(node) & Mark.INSIDE)

    def _bound_nearby(self, expression: cst.BaseExpression) -> Binding | None:
        """The one assignment of a plain name, where each of its turns comes to the condition: averaged there, what is
        derived from it (the best so far) agrees as well."""
        if not isinstance(expression, cst.Name):
            return None
        bindings = self.locality.dependence.bindings_of(expression)
        if len(bindings) != 1 or bindings[0].kind != "assign":
            return None
        node = bindings[0].node
        alike = list(self.tree.loops_around(node)) == list(self.tree.loops_around(expression))
        same = self.tree.function_of(node) is self.tree.function_of(expression)
        if not (alike and same and isinstance(node, cst.Assign)) or self._is_differentiated(bindings[0]):
            return None
        return bindings[0]

    @cached_property
    def _differentiated(self) -> set[Key]:
        """What tapes go back through: it must stay this worker's until then."""
        return {key for key in self._behind_losses if self._is_under_tape(key)}

    @cached_property
    def _behind_losses(self) -> set[Key]:
        """All that the losses which are differentiated are computed from."""
        queue: list[Key] = [
            arg.value for call in self.tree.calls if self.training.flow.is_tape_call(call) for arg in call.args[:1]
        ]
        found: set[Key] = set()
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue += [k for k, way in self.locality.dependence.inputs(key) if way not in _DECIDING]
        return found

    @cached_property
    def _sizing_losses(self) -> set[Key]:
        """What losses are computed from the size of, and what that holds: `len(failures)`."""
        inputs = self.locality.dependence.inputs
        queue = [k for key in self._behind_losses for k, way in inputs(key) if way in (Way.SIZE, Way.LENGTH)]
        found: set[Key] = set()
        while queue:
            key = queue.pop()
            if key not in found and key not in self._behind_losses:
                found.add(key)
                queue += [k for k, way in inputs(key) if way not in (Way.CHOICE, Way.PRESENCE)]
        return found

    def _is_under_tape(self, key: Key) -> bool:
        node = key.node if isinstance(key, Binding) else key
        return isinstance(node, cst.CSTNode) and any(self.tree.contains(body, node) for body in self._taped)

    @cached_property
    def _taped(self) -> list[cst.CSTNode]:
        """The code that runs under tapes."""
        blocks = [
            node.body
            for node in self.tree.all_of(cst.With)
            if any(self.training.kinds.is_tape(v) for item in node.items for v in self.resolver.values(item.item))
        ]
        found = dict.fromkeys(body for block in blocks for body in self.training.reached_from(block))
        for function in self.tree.functions:  # called in a way that is not seen
            if self._behind_losses.intersection(self.resolver.returned_by_itself(function)) and not any(
                self.tree.contains(body, block) for body in self.training.reached_from(function) for block in blocks
            ):
                found[function] = None
        return list(found)

    def _is_differentiated(self, binding: Binding) -> bool:
        """Whether a tape goes back through the name: the loss itself must stay this worker's until then."""
        return any(
            name.value == binding.name and self.tree.order[name] > self.tree.order[binding.node]
            for call in self.tree.calls
            if self.training.flow.is_tape_call(call)
            for arg in call.args
            for name in self.tree.names_in(arg.value)
        )


def _is_flag(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.node, cst.BaseNumber)
    return value in (External("builtins.True"), External("builtins.False"))


def _is_number_or_truth(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Comparison, cst.BinaryOperation, cst.Call, cst.UnaryOperation))


def _is_from_config(func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Attribute) and func.attr.value == "from_config"
