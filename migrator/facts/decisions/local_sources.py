"""Which values differ from worker to worker to begin with: its rows, what has counted them, what only it sees."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.data.batch_shapes import Made
from migrator.facts.data.run_on_elements import RunOnElements
from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.fed_metrics import FedMetrics
from migrator.facts.decisions.given_by_keras import GivenByKeras
from migrator.facts.decisions.interruptions import Interruptions, is_beside
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence import Key
from migrator.facts.dependence.spreading import Marks
from migrator.facts.files.commands import Commands
from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.listed import listed
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Function, Literal, Object, Result, Value, calls
from migrator.facts.program.syntax import dotted
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training

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
# They start what runs beside the script.
_STARTING = frozenset({"threading", "_thread", "multiprocessing", "concurrent", "asyncio", "signal", "joblib", "sched"})
_FLAG_METHODS = frozenset({"is_set", "isSet", "wait", "empty", "full", "qsize", "get", "get_nowait"})
_ENDED = frozenset({"is_alive", "done", "running", "poll", "ready"})
_SCHEDULERS = frozenset({"keras.callbacks.LearningRateScheduler"})
# All of Keras's ready-made models but these have such layers.
_STATISTICS = re.compile(
    r"^keras\.layers\.(?:experimental\.)?(?:Sync)?BatchNormalization$"
    r"|^keras\.applications\.(?:\w+\.)?(?!VGG|ConvNeXt)[A-Z]\w*$"
)
# They run what they are given.
_HOLDING = re.compile(
    r"\.(?:\w*Wrapper|\w*Layer|Bidirectional|Lambda|Pipeline|RNN|SpectralNormalization|StackedRNNCells|TimeDistributed)$"
)


class LocalSources:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        metrics: FedMetrics,
        given: GivenByKeras,
        interruptions: Interruptions,
        on_elements: RunOnElements,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self._metrics = metrics
        self._given = given
        self._interruptions = interruptions
        self._on_elements = on_elements
        self._iteration = Iteration(tree, resolver)
        self._commands = Commands(resolver)

    def marks(self) -> dict[Key, Marks]:
        """The values that are each worker's own to begin with."""
        found: dict[Key, Marks] = {}
        if self.sharding.cuts:
            found.update(self._of_parts())
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            if paths & _OWN or self._sees_others(call, paths) or self._commands.only_asks(call):
                found[call] = Mark.OWN
        found.update(dict.fromkeys(self._interruptions.sets(), Mark.OWN))
        return found

    def _of_parts(self) -> dict[Key, Marks]:
        """What is made of a worker's part of the data."""
        found = self._batches()
        found.update({fit.call: Mark.VALUE for fit in self.training.batch_fits})
        found.update(dict.fromkeys(self._given.by_fit(), Mark.VALUE))
        found.update(dict.fromkeys(self._given.by_models(), Mark.VALUE))
        found.update(dict.fromkeys(self._states_of_metrics(), Mark.VALUE))
        # As many metrics on all workers, whatever these have counted.
        found.update((n, Mark.INSIDE if _is_list_of_metrics(n) else Mark.VALUE) for n in self._metrics_of_models())
        found.update(dict.fromkeys(self._metrics.compiled.read_otherwise(), Mark.VALUE))
        found.update(dict.fromkeys(self._metrics.results_of_fit, Mark.VALUE))
        found.update(dict.fromkeys(self.training.keras_steps, Mark.VALUE))
        # What a dataset makes of a worker's own samples is told where their batches are read.
        own = self._on_elements.by(c for c in self.sharding.consumptions if not self.sharding.is_whole(c))
        parts = [key.node if isinstance(key, Binding) else key for key in found]
        parted = [*self.training.sites, *(node for node in parts if isinstance(node, cst.CSTNode))]
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            if any(vocabulary.has_role(p, Role.SHARD) for p in paths) and not self._gives_dataset(call):
                found[call] = Mark.VALUE  # of a dataset it is the batches, where training reads them
            elif self.keeps_statistics and self._infers(call) and not self.tree.is_in(call, own):
                found.update({} if self._surely_before(call, parted) else {call: Mark.STATISTIC})
        return found

    def _surely_before(self, call: cst.Call, parted: Sequence[cst.CSTNode]) -> bool:
        """Whether a line of the module is run, and never again, before the first part of a batch is seen: features that
        a model makes which is trained later, or never."""
        if self.tree.callable_of(call) is not None:
            return False
        place = next(reversed(list(self.tree.loops_around(call))), self.tree.statement_of(call))
        return all(self._runs_behind(node, place, frozenset()) for node in parted)

    def _runs_behind(self, node: cst.CSTNode, place: cst.CSTNode, passed: frozenset[cst.CSTNode]) -> bool:
        """Whether the node runs only behind the place, there or in what is named from there on."""
        if node not in self.tree.order or self.tree.module_of(node) is not self.tree.module_of(place):
            return False
        function = self.tree.function_of(node)
        if function is None:
            return self.tree.order[node] > self.tree.last_order_in(place)
        owner = self.tree.class_of(function) or function
        if owner in passed:
            return True
        decorators = [decorator for each in {function, owner} for decorator in each.decorators]
        if not all(self._is_of_tensorflow(decorator.decorator) for decorator in decorators):
            return False  # which may run what it gets at once
        named = [name for name in self.tree.names[owner.name.value] if name is not owner.name]
        return all(self._runs_behind(name, place, passed | {owner}) for name in named)

    def _is_of_tensorflow(self, decorator: cst.BaseExpression) -> bool:
        return any(origin(v).startswith(("tensorflow.", "keras.")) for v in self.resolver.values(decorator)) or any(
            path.startswith(("tensorflow.", "keras.")) for path in self.resolver.public(decorator)
        )

    def _batches(self) -> dict[Key, Marks]:
        """What gets a worker's part of each batch."""
        found: dict[Key, Marks] = {}
        fits = {fit.call for fit in self.training.fits}
        split = [c for c in self.sharding.consumptions if not self.sharding.is_whole(c)]
        readers = {c.reader for c in split if c.reader not in fits}
        # Whoever reads an iterator takes of the same batches.
        iterators = {call for reader in readers for call in self.sharding.reading.iterators_read_by(reader)}
        readers.update(self.sharding.reading.reading_along(iterators))
        numbers = self.training.kinds.numbers_turns
        beside = self.sharding.read_beside
        for binding in self.tree.bindings:
            if binding.kind != "for" or binding.node not in readers or binding.value is None:
                continue
            iterated, _ = self._iteration.narrowed(binding.value, binding.path)
            if iterated not in beside and not numbers(binding.value, binding.path):
                found[binding] = Mark.VALUE
        found.update(dict.fromkeys(iterators, Mark.INSIDE))
        found.update({reader: Mark.VALUE for reader in readers if isinstance(reader, cst.Call)})
        for node in self.sharding.minibatches.nodes:
            found[node] = Mark.INSIDE if self._is_list(node) else Mark.VALUE
        found.update((made.node, Mark.VALUE) for made in self.sharding.made if isinstance(made, Made))
        return found

    def _sees_others(self, call: cst.Call, paths: Collection[str]) -> bool:
        """Whether it asks, while the script trains, for what may change meanwhile: a file, the flag of a thread."""
        asked = any(map(_FILES.match, paths))
        if not asked and isinstance(call.func, cst.Attribute):
            name, owners = call.func.attr.value, self.resolver.values(call.func.value)
            asked = (name in _FLAG_METHODS and any(map(self._is_flag, owners))) or (
                name in _PATH_METHODS and any(origin(v).startswith("pathlib.") for v in owners)
            )
            asked |= name in _ENDED and any(map(is_beside, owners))
        return asked and self._runs_while_training(call)

    @property
    def of_flags(self) -> list[cst.Call]:
        """The calls of methods of flags and queues in signal handlers and other threads."""
        called = [(c, c.func.value) for c in self.tree.calls if isinstance(c.func, cst.Attribute)]
        inside = ((call, owner) for call, owner in called if self.tree.is_in(call, self._interruptions.changing))
        return [call for call, owner in inside if any(_FLAGS.match(calls(v)) for v in self.resolver.values(owner))]

    def _is_flag(self, value: Value) -> bool:
        """Whether others may change it: a queue they may only if there are any, or code that is not seen has it."""
        path = calls(value)
        is_own = path.startswith("queue.") and isinstance(value, Result)
        return bool(_FLAGS.match(path)) and not (is_own and self._is_filled_here(value))

    def _is_filled_here(self, queue: Value) -> bool:
        if self._starts_others:
            return False
        handed = (call for call in self.tree.calls for arg in call.args if queue in self.resolver.values(arg.value))
        return all(isinstance(v, Function) for call in handed for v in self.resolver.values(call.func) or (None,))

    @cached_property
    def _starts_others(self) -> bool:
        """Whether the program imports what starts something beside it."""
        names = [alias.name for node in self.tree.all_of(cst.Import) for alias in node.names]
        names += [node.module for node in self.tree.all_of(cst.ImportFrom) if node.module is not None]
        return any(dotted(name).partition(".")[0] in _STARTING for name in names)

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
            if any(name in _SCHEDULERS for name in self.resolver.public(call.func)):
                functions = [f for arg in call.args for f in functions_in(self.resolver, arg.value)]
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

    def _is_list(self, node: cst.CSTNode) -> bool:
        """Whether the node is a list of batches, written out, or such a dictionary: as long on all workers."""
        values = self.resolver.values(node)
        displays = (cst.List, cst.Tuple, cst.Dict)
        return bool(values) and all(isinstance(v, Literal) and isinstance(v.node, displays) for v in values)

    def _states_of_metrics(self) -> Iterator[cst.CSTNode]:
        """`metric.total`, `metric.variables`: what a metric has added up on this worker."""
        for node in self.tree.all_of(cst.Attribute):
            name = node.attr.value
            if name not in api.CALM_OF_METRICS and any(self._keeps(v, name) for v in self.resolver.values(node.value)):
                yield node

    def _keeps(self, owner: Value, name: str) -> bool:
        """Whether Keras keeps there what the metric has counted, and not the script in an attribute of its own."""
        if calls(owner).startswith("keras.metrics."):
            return True
        is_own = isinstance(owner, Object) and self.training.kinds.is_metric(owner)
        return is_own and name not in self.tree.attributes and name not in self.tree.methods

    def _metrics_of_models(self) -> Iterator[cst.CSTNode]:
        """`model.metrics`, `self.model.get_metrics_result()`: what a model that `fit` trains has counted on this
        worker, read elsewhere than in its own class."""
        for node in self.tree.all_of(cst.Attribute):
            if node.attr.value not in _METRICS_OF_MODELS or self._is_written_out(node):
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

    def _is_written_out(self, metrics: cst.Attribute) -> bool:
        """Whether a property of the script's own gives metrics that are seen: each tells of what it is given."""
        values = self.resolver.values(metrics) if self.resolver.properties(metrics) else ()
        lists = [v.node for v in values if isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Tuple))]
        if len(lists) < len(values):
            return False
        held = [self.resolver.values(element) for display in lists for element in listed(display)]
        return bool(held) and all(found and all(map(self.training.kinds.is_metric, found)) for found in held)

    def _gives_dataset(self, call: cst.Call) -> bool:
        return any(map(self.training.kinds.is_dataset, self.resolver.values(call)))

    @cached_property
    def keeps_statistics(self) -> bool:
        """Whether a model may hold BatchNormalization: its statistics, and so inference, are each worker's own."""
        return any(_STATISTICS.match(name) for call in self.tree.calls for name in self.resolver.public(call.func))

    def _infers(self, call: cst.Call) -> bool:
        """Whether the call runs a model: `model(x)`, `model.evaluate(…)`."""
        func = call.func
        if any(self.training.kinds.has_weights(v) and _may_have_statistics(v) for v in self.resolver.values(func)):
            return not self._is_made_there(func)
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in api.INFERENCE
            and any(self.training.kinds.is_model(v) for v in self.resolver.values(func.value))
        )

    def _is_made_there(self, layer: cst.BaseExpression) -> bool:
        """`BatchNormalization()(x)`: a layer of Keras's that has seen no batch yet, and holds no other that has."""
        return isinstance(layer, cst.Call) and all(
            isinstance(v, Result) and v.call is layer and calls(v).startswith("keras.layers.") and not _holds_layers(v)
            for v in self.resolver.values(layer)
        )


def _is_list_of_metrics(node: cst.CSTNode) -> bool:
    """`model.metrics`"""
    return isinstance(node, cst.Attribute) and node.attr.value == "metrics"


def _may_have_statistics(value: Value) -> bool:
    """Whether it is no layer of Keras's without any."""
    path = calls(value)
    return not path.startswith("keras.layers.") or bool(_STATISTICS.match(path) or _HOLDING.search(path))


def _holds_layers(layer: Result) -> bool:
    return bool(_HOLDING.search(calls(layer)))
