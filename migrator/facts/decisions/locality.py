"""Which values differ from worker to worker, and in what way: what each worker's share of the batches reaches.

A value is local as soon as anything local reaches it through the graph of dependence/, whatever lies between.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.compiled_metrics import CompiledMetrics
from migrator.facts.decisions.consequences import Consequences
from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.dependence.spreading import Marks, Spread
from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Object, Result, Value, calls
from migrator.facts.program.tree import Binding, FunctionLike, Tree
from migrator.facts.training.sites import Training

_METRIC_STATES = frozenset({
    "total", "count", "variables", "weights", "true_positives", "true_negatives", "false_positives", "false_negatives",
    "total_cm",
})  # fmt: skip


class Mark:
    """How a value is local. Plain numbers: an enum's are slow, and the marks of all values are joined over and over."""

    NONE = 0
    VALUE = 1  # computed from this worker's samples
    COUNT = 2  # how many samples this worker has seen
    INSIDE = 4  # a container, alike on all workers but for local values in it
    CHOSEN = 8  # alike, or picked from what is alike, by a local choice
    OWN = 16  # has nothing to do with the data: the time, the process, the system's randomness
    STATISTIC = 32  # comes from a model whose BatchNormalization has seen this worker's samples alone


_METRICS_OF_MODELS = frozenset({"metrics", "compiled_metrics", "get_metrics_result"})
# No two workers read the same time, or draw the same from the system.
CLOCKS = frozenset({
    "time.time", "time.time_ns", "time.monotonic", "time.monotonic_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.process_time", "time.thread_time", "timeit.default_timer", "time.localtime", "time.gmtime", "time.strftime",
    "time.ctime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today", "datetime.date.today",
    "tensorflow.timestamp",
})  # fmt: skip
# Of these, what gives an object of Python's, and no number or text.
MOMENTS = frozenset({
    "time.localtime", "time.gmtime", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today",
    "datetime.date.today",
})  # fmt: skip
_OWN = CLOCKS | {
    "uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getpid", "os.getppid", "random.SystemRandom", "secrets.randbelow",
    "secrets.choice", "secrets.randbits", "secrets.token_bytes", "secrets.token_hex", "secrets.SystemRandom",
    "socket.gethostname", "platform.node", "os.getloadavg", "os.times", "resource.getrusage", "psutil.virtual_memory",
    "psutil.cpu_percent", "tensorflow.random.Generator.from_non_deterministic_state", "id",
}  # fmt: skip
# What somebody else may change while the script trains: each worker would see it at another step.
_FILES = re.compile(
    r"^os\.path\.(?:exists|lexists|isfile|isdir|islink|getmtime|getctime|getsize)$|^os\.(?:access|stat|listdir|scandir)$"
    r"|^glob\.i?glob$|^tensorflow\.io\.gfile\.(?:exists|isdir|glob|listdir|stat)$|^keras\.utils\.file_exists$"
)
_PATH_METHODS = frozenset({"exists", "is_file", "is_dir", "is_symlink", "stat", "glob", "rglob", "iterdir"})
_FLAGS = re.compile(
    r"^(?:threading|multiprocessing)\.(?:Event|Value|Array|Barrier)$|^(?:queue|multiprocessing)\.\w*Queue$"
)
_FLAG_METHODS = frozenset({"is_set", "isSet", "wait", "empty", "full", "qsize", "get", "get_nowait"})
_SCHEDULERS = frozenset({"keras.callbacks.LearningRateScheduler"})
# They call what they are given whenever it suits them.
_INTERRUPTING = frozenset({"signal.signal", "threading.Thread", "threading.Timer", "multiprocessing.Process"})
_STATISTICS = re.compile(r"^keras\.layers\.(?:experimental\.)?(?:Sync)?BatchNormalization$|^keras\.applications\.")
_INFERENCE = frozenset({"evaluate", "predict", "predict_on_batch", "test_on_batch"})


# What Keras calls with rows of the batches, and what it calls with weights.
_RUN_BY_MODELS = (
    (("keras.layers.", "keras.Model", "keras.models.", "keras.Sequential"), ("call",)),
    (("keras.losses.",), ("call", "__call__")),
    (("keras.metrics.",), ("update_state",)),
)
_TAKING_FUNCTIONS = ("keras.layers.", "keras.losses.", "keras.metrics.")
_STEPS = ("train_step", "compute_loss")
_OF_MODES = frozenset({"training", "mask"})


class Locality:
    """Follows what is local from where it comes from to all that it reaches."""

    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding, consequences: Consequences
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.consequences = consequences
        self.regions = consequences.regions
        self._iteration = Iteration(tree, resolver)
        self._compiled_metrics = CompiledMetrics(tree, resolver, training)
        # Gradients are reduced before anything reads them.
        gradients = [g for update in training.updates for g in update.gradients]
        self._settled: set[Key] = {g.computed if g.holder is None else g.holder for g in gradients}
        computed = map(training.computed, training.updates)
        self._settled |= {values for values in computed if values is not None}
        # The history of `fit` is that of averaged logs.
        self._settled |= {fit.call for fit in training.fits}
        self._spread: Spread | None = None
        self._agreed: set[Key] = set()
        # By number.
        self._linked: set[int] = set()
        self._open: dict[int, bool] = {}

    @cached_property
    def dependence(self) -> Dependence:
        found = Dependence(self.tree, self.resolver, self.training.kinds)
        for call in self._metric_results:
            for given in self.fed_to(cast(cst.Attribute, call.func).value):
                found.link(given, call, Way.USED)
        for written, read in self.consequences.files.told_again():
            found.link(written, read, Way.USED)
        return found

    def settle(self, *agreed: Key) -> None:
        """From here on, what the bindings or expressions give counts as the same on all workers."""
        new = [key for key in agreed if key not in self._settled]
        if new:  # it takes long to take back what follows from them
            self._settled.update(new)
            self._take_back(new)

    def make(self, origin: Key, marks: Marks) -> None:
        """The value is each worker's own, whatever it is made of. Before any is asked for."""
        self.origins[origin] = marks
        self._spread = None

    def hold(self, call: cst.Call) -> None:
        """From here on, the call gives as many values on all workers, which hold what it is given."""
        if self.of(call) & Mark.VALUE:
            self.dependence.put_into(call.args, call)
            self._take_back([call])

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
    def trying(self) -> Iterator[None]:
        """What is settled or forgotten inside is as before afterwards."""
        settled, agreed, origins, spread = set(self._settled), set(self._agreed), dict(self.origins), self._spread
        self._spread = spread and spread.copy()
        try:
            yield
        finally:
            self._settled, self._agreed, self.origins, self._spread = settled, agreed, origins, spread

    def of(self, key: Key | None) -> Marks:
        """How the value is local; nothing where all workers agree."""
        if key is None or not self.origins:  # without these the graph, which takes long to make, tells nothing
            return Mark.NONE
        if self._spread is None:
            self._spread = self._spread_from(self.origins)
        return self._spread.of(key)

    def due(self, key: Key) -> Marks:
        """How the value is made local, be it settled or not."""
        marks = Mark.NONE
        for source, way in self.dependence.inputs(key):
            if way is not Way.CHOICE or source not in self._agreed:
                marks |= _PASSED[way][self.of(source)]
        return marks

    def reached_from(self, node: cst.BaseExpression) -> Spread:
        """What would be local if this were."""
        return self._spread_from({node: Mark.VALUE})

    def made_of(self, nodes: Iterable[cst.BaseExpression]) -> Spread:
        """All that is made of these, be it settled or not, or in as many turns of a loop as there are of them."""
        spread = Spread(self.dependence, _PASSED, self._lets_in, self._link_turns)
        spread.add(((self.dependence.number(node), Mark.VALUE) for node in nodes), (), ())
        return spread

    def bindings_behind(self, nodes: Iterable[cst.CSTNode]) -> set[Binding]:
        """The assignments that these are computed from."""
        queue: list[Key] = [node for node in nodes if isinstance(node, cst.BaseExpression)]
        found: set[Key] = set()
        while queue:
            key = queue.pop()
            if key not in found:
                found.add(key)
                queue += [k for k, _ in self.dependence.inputs(key)]
        return {key for key in found if isinstance(key, Binding)}

    def inputs(self, key: Key) -> list[Key]:
        """What makes the value local."""
        return [k for k, way in self.dependence.inputs(key) if _PASSED[way][self.of(k)]]

    def choosers(self, key: Key) -> list[cst.BaseExpression]:
        """The expressions that decide what the value is, and are local."""
        inputs = self.dependence.inputs(key)
        return [k for k, way in inputs if way is Way.CHOICE and isinstance(k, cst.BaseExpression) and self.of(k)]

    def _spread_from(self, origins: dict[Key, Marks]) -> Spread:
        spread = Spread(self.dependence, _PASSED, self._lets_in, self._link_choices)
        numbered = {self.dependence.number(key): mark for key, mark in origins.items()}
        spread.add(numbered.items(), self._closed(origins), self._choosing_alike)
        return spread

    def _take_back(self, keys: Iterable[Key]) -> None:
        """The values have lost what made them local, or part of it."""
        if self._spread is not None:
            numbers = map(self.dependence.number, keys)
            origins = {self.dependence.number(key): mark for key, mark in self.origins.items()}
            self._spread.take_back(numbers, origins, self._closed(self.origins), self._choosing_alike)

    def _closed(self, origins: Collection[Key]) -> set[int]:
        """What takes no marks from others: what is settled, unless it is local to begin with."""
        return {self.dependence.number(key) for key in self._settled if key not in origins}

    @property
    def _choosing_alike(self) -> set[int]:
        return set(map(self.dependence.number, self._agreed))

    def _lets_in(self, number: int) -> bool:
        """Gradients come reduced to those who read them, be it out of what holds local numbers, too."""
        found = self._open.get(number)
        if found is None:
            user, flow = self.dependence.keys[number], self.training.flow
            if isinstance(user, cst.Call):
                found = not flow.is_tape_call(user)
            else:
                found = not (isinstance(user, (cst.Attribute, cst.Subscript)) and flow.gives_gradients(user))
            self._open[number] = found
        return found

    def _link_choices(self, number: int) -> None:
        """Once a condition is local, what is bound under it is chosen by it; unless consequences follow, for which
        workers are made to agree on it."""
        if number not in self._linked:
            self._linked.add(number)
            key = self.dependence.keys[number]
            if isinstance(key, cst.BaseExpression) and not self.consequences.follow(key):
                for chosen in self.regions.chosen_by(key, self.dependence):
                    self.dependence.link(key, chosen, Way.CHOICE)

    def _link_turns(self, number: int) -> None:
        key = self.dependence.keys[number]
        loop = self.tree.parent.get(key) if isinstance(key, cst.BaseExpression) else None
        if isinstance(loop, cst.For) and key is loop.iter:
            for changed in self.regions.chosen_by(key, self.dependence):
                self.dependence.link(key, changed, Way.CHOICE)
        else:
            self._link_choices(number)

    # -- where it comes from -------------------------------------------------------------------------------------

    @cached_property
    def origins(self) -> dict[Key, Marks]:
        """The values that are each worker's own to begin with."""
        found: dict[Key, Marks] = {}
        fits = {fit.call for fit in self.training.fits}
        split = [c for c in self.sharding.consumptions if not self.sharding.is_whole(c)]
        readers = {c.reader for c in split if c.reader not in fits}
        numbers = self.training.kinds.numbers_turns
        beside = self.sharding.read_beside
        for scope in self.tree.scopes.values():
            for bindings in scope.bindings.values():
                for binding in bindings:
                    if binding.kind != "for" or binding.node not in readers or binding.value is None:
                        continue
                    iterated, _ = self._iteration.narrowed(binding.value, binding.path)
                    if iterated not in beside and not numbers(binding.value, binding.path):
                        found[binding] = Mark.VALUE
        found.update({reader: Mark.VALUE for reader in readers if isinstance(reader, cst.Call)})
        for node in self.sharding.minibatches.nodes:
            found[node] = Mark.INSIDE if self._is_list(node) else Mark.VALUE
        found.update({fit.call: Mark.VALUE for fit in self.training.batch_fits})
        found.update(dict.fromkeys(self._given_by_fit(), Mark.VALUE))
        found.update(dict.fromkeys(self._given_by_models(), Mark.VALUE))
        found.update(dict.fromkeys(self._states_of_metrics(), Mark.VALUE))
        found.update(dict.fromkeys(self._metrics_of_models(), Mark.VALUE))
        found.update(dict.fromkeys(self._compiled_metrics.read_otherwise(), Mark.VALUE))
        asked = (call for call in self._metric_results if self.is_fed_by_fit(cast(cst.Attribute, call.func).value))
        found.update(dict.fromkeys(asked, Mark.VALUE))
        found.update(dict.fromkeys(self.training.keras_steps, Mark.VALUE))
        for call in self.tree.calls:
            paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
            if paths & _OWN or self._sees_others(call, paths):
                found[call] = Mark.OWN
            elif any(vocabulary.has_role(p, Role.SHARD) for p in paths) and not self._gives_dataset(call):
                found[call] = Mark.VALUE  # of a dataset it is the batches, where training reads them
            elif self.keeps_statistics and self._infers(call):
                found[call] = Mark.STATISTIC
        found.update(dict.fromkeys(self._set_by_interruptions(), Mark.OWN))
        return found

    def _sees_others(self, call: cst.Call, paths: Collection[str]) -> bool:
        """Whether it asks, while the script trains, for what may change meanwhile: a file, the flag of a thread."""
        asked = any(map(_FILES.match, paths))
        if not asked and isinstance(call.func, cst.Attribute):
            name, owners = call.func.attr.value, self.resolver.values(call.func.value)
            asked = (name in _FLAG_METHODS and any(_FLAGS.match(calls(v)) for v in owners)) or (
                name in _PATH_METHODS and any(origin(v).startswith("pathlib.") for v in owners)
            )
        return asked and self._runs_while_training(call)

    def _runs_while_training(self, node: cst.CSTNode) -> bool:
        running = (*self._training_loops, self._callbacks)
        return any(self.tree.contains(body, node) for bodies in running for body in bodies)

    @cached_property
    def _callbacks(self) -> list[cst.CSTNode]:
        """What callbacks of the script's do, with all that runs in it."""
        found: list[cst.CSTNode] = []
        for cls in self.tree.all_of(cst.ClassDef):
            if self.resolver.derives_from(Class(cls), lambda path: path.startswith("keras.callbacks.")):
                found += self.training.reached_from(cls.body)
        for call in self.tree.calls:
            if any(isinstance(v, External) and v.path in _SCHEDULERS for v in self.resolver.values(call.func)):
                functions = [f for arg in call.args for f in self._functions_in(arg.value)]
                found += [body for function in functions for body in self.training.reached_from(function)]
        return found

    @cached_property
    def _training_loops(self) -> list[list[cst.CSTNode]]:
        """The loops that train, each with all that runs in it."""
        found = []
        for loop in self.tree.all_of(cst.For, cst.While):
            bodies = self.training.reached_from(loop)
            if any(self.tree.contains(body, site) for body in bodies for site in self.training.sites):
                found.append(bodies)
        return found

    def interrupts(self, node: cst.CSTNode) -> bool:
        """Whether it runs in a signal handler or another thread, where no workers come together."""
        return any(self.tree.contains(body, node) for body in self._interruptions)

    @cached_property
    def _interruptions(self) -> list[cst.CSTNode]:
        """What signal handlers and other threads do."""
        found: list[cst.CSTNode] = []
        for call in self.tree.calls:
            if any(isinstance(v, External) and v.path in _INTERRUPTING for v in self.resolver.values(call.func)):
                handlers = [f for arg in call.args for f in self._functions_in(arg.value)]
                found += [body for handler in handlers for body in self.training.reached_from(handler)]
        return found

    def _set_by_interruptions(self) -> Iterator[cst.BaseExpression]:
        """What a signal handler, or another thread, sets: when a worker sees it is a matter of chance."""
        for node in self.tree.all_of(cst.Assign, cst.AnnAssign, cst.AugAssign):
            value = cast("cst.Assign | cst.AnnAssign | cst.AugAssign", node).value
            if value is not None and self.interrupts(node):
                yield value

    def _is_list(self, node: cst.CSTNode) -> bool:
        """Whether the node is a list of batches, written out, or such a dictionary: as long on all workers."""
        values = self.resolver.values(node)
        displays = (cst.List, cst.Tuple, cst.Dict)
        return bool(values) and all(isinstance(v, Literal) and isinstance(v.node, displays) for v in values)

    def _states_of_metrics(self) -> Iterator[cst.CSTNode]:
        """`metric.total`, `metric.count`: what a metric has added up on this worker."""
        for node in self.tree.all_of(cst.Attribute):
            if node.attr.value not in _METRIC_STATES:
                continue
            owners = self.resolver.values(node.value)
            if any(calls(v).startswith("keras.metrics.") for v in owners):
                yield node

    def _metrics_of_models(self) -> Iterator[cst.CSTNode]:
        """`model.metrics`, `self.model.get_metrics_result()`: what a model that `fit` trains has counted on this
        worker, read elsewhere than in its own class."""
        for node in self.tree.all_of(cst.Attribute):
            if node.attr.value not in _METRICS_OF_MODELS:
                continue
            if any(
                map(self.training.kinds.is_model, self.resolver.values(node.value))
            ) or self.training.is_model_of_callback(node.value):
                yield node
        for call, func in self.training.methods("result"):  # `self.model.tracker.result()`
            owner = func.value
            while isinstance(owner, (cst.Attribute, cst.Subscript)) and not self.training.is_model_of_callback(owner):
                owner = owner.value
            if self.training.is_model_of_callback(owner):
                yield call

    def _given_by_fit(self) -> Iterator[Binding]:
        """What `fit` gives a `train_step` of the script's own, or a `compute_loss`."""
        classes = [self.training.step_class(update) for update in self.training.updates]
        classes += [v.of for fit in self.training.fits for v in fit.values if isinstance(v, Object)]
        methods = [self.resolver.method(cls, name) for cls in dict.fromkeys(classes) if cls for name in _STEPS]
        for method in filter(None, methods):
            params = [*method.params.params[1:], *method.params.kwonly_params]
            for param in (p for p in params if p.name.value not in _OF_MODES):
                yield from (b for b in self.tree.scopes[method].bindings[param.name.value] if b.node is param)

    def _given_by_models(self) -> Iterator[Binding]:
        """What Keras gives the script's own layers, losses, metrics and activations in a model that is trained."""
        for function in dict.fromkeys(self._run_by_models()):
            params = [*function.params.posonly_params, *function.params.params, *function.params.kwonly_params]
            is_method = isinstance(function, cst.FunctionDef) and self.resolver.owner_class(function) is not None
            for param in params[is_method:]:
                if param.name.value not in _OF_MODES:
                    yield from (b for b in self.tree.scopes[function].bindings[param.name.value] if b.node is param)

    def _run_by_models(self) -> Iterator[FunctionLike]:
        fitted = [v for fit in self.training.fits for v in fit.values]
        are_seen = all(isinstance(v, (Object, Result)) for v in fitted)
        for node in self.tree.classes:
            cls = Class(node)
            is_fitted = any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in fitted)
            if self.training.kinds.is_keras_model_class(cls) and are_seen and not is_fitted:
                continue  # the script calls it itself
            for kind, names in _RUN_BY_MODELS:
                if self.resolver.derives_from(cls, lambda path, kind=kind: path.startswith(kind)):  # type: ignore[misc]
                    yield from (m for m in (self.resolver.method(cls, name) for name in names) if m is not None)
        for call in self.tree.calls:
            func = call.func
            compiles = isinstance(func, cst.Attribute) and func.attr.value == "compile"
            makes = any(
                isinstance(v, External) and v.path.startswith(_TAKING_FUNCTIONS) for v in self.resolver.values(func)
            )
            for arg in call.args if compiles or makes else ():
                keyword = arg.keyword.value if arg.keyword is not None else ""
                if not keyword.endswith("optimizer") and not api.takes_weights(keyword):
                    yield from self._functions_in(arg.value)

    def _functions_in(self, node: cst.BaseExpression) -> Iterator[FunctionLike]:
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
            for element in node.elements:
                yield from self._functions_in(element.value)
            return
        for value in self.resolver.values(node):
            if isinstance(value, Function):
                yield value.node
            elif isinstance(value, Object):
                method = self.resolver.method(value.of, "__call__")
                if method is not None:
                    yield method
            elif isinstance(value, Literal) and value.node is not node:
                yield from self._functions_in(value.node)

    def _gives_dataset(self, call: cst.Call) -> bool:
        return any(map(self.training.kinds.is_dataset, self.resolver.values(call)))

    @cached_property
    def keeps_statistics(self) -> bool:
        """Whether a model may hold BatchNormalization: its statistics, and so inference, are each worker's own."""
        return any(
            isinstance(value, External) and _STATISTICS.match(value.path)
            for call in self.tree.calls
            for value in self.resolver.values(call.func)
        )

    def _infers(self, call: cst.Call) -> bool:
        """Whether the call runs a model: `model(x)`, `model.evaluate(…)`."""
        func = call.func
        if any(self.training.kinds.has_weights(v) for v in self.resolver.values(func)):
            return True
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in _INFERENCE
            and any(self.training.kinds.is_model(v) for v in self.resolver.values(func.value))
        )

    # -- metrics -------------------------------------------------------------------------------------------------

    def is_metric(self, value: Value) -> bool:
        """A metric of Keras's, or of a class of the script's that derives from one."""
        return self._compiled_metrics.is_metric(value)

    @cached_property
    def _metric_results(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "result"
            and any(map(self.is_metric, self.resolver.values(call.func.value)))
        ]

    def is_fed_locally(self, metric: cst.BaseExpression) -> bool:
        """Whether a Keras metric was updated with local values: `m(loss)`, `m.update_state(loss)`, or by `fit`."""
        return any(map(self.of, self.fed_to(metric))) or self.is_fed_by_fit(metric)

    def is_fed_by_fit(self, metric: cst.BaseExpression) -> bool:
        """Whether a model is compiled with it that Keras trains on this worker's rows."""
        return self._compiled_metrics.holds(metric)

    def fed_to(self, metric: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a Keras metric is updated with."""
        metrics = {v for v in self.resolver.values(metric) if self.is_metric(v)}
        found: list[cst.BaseExpression] = []
        for call in self._metric_updates:
            target = call.func.value if isinstance(call.func, cst.Attribute) and _is_update(call) else call.func
            if metrics & set(self.resolver.values(target)):
                found.extend(a.value for a in call.args)
        return found

    @cached_property
    def _metric_updates(self) -> list[cst.Call]:
        return [
            call
            for call in self.tree.calls
            if _is_update(call) or (call.args and any(self.is_metric(v) for v in self.resolver.values(call.func)))
        ]


def _through(way: Way, mark: Marks) -> Marks:
    """How a value is local that another enters in this way."""
    if way is Way.WHOLE:
        return mark
    if way is Way.PRESENCE:
        return mark & Mark.CHOSEN
    if way is Way.CHOICE:
        return Mark.CHOSEN if mark & ~Mark.INSIDE else Mark.NONE
    if way in (Way.SIZE, Way.LENGTH):
        local = Mark.VALUE | Mark.COUNT if way is Way.LENGTH else Mark.VALUE
        sizes = Mark.COUNT if mark & local else Mark.NONE
        return (mark & (Mark.CHOSEN | Mark.OWN)) | sizes
    if way is Way.INTO:
        return (mark & ~Mark.VALUE) | Mark.INSIDE if mark & Mark.VALUE else mark
    return (mark & ~Mark.INSIDE) | Mark.VALUE if mark & Mark.INSIDE else mark


_PASSED = [[_through(way, mark) for mark in range(2 * Mark.STATISTIC)] for way in Way]


def _is_update(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "update_state"
