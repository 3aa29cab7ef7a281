"""What each process has by itself: unseeded generators, the system's randomness, clocks, names of processes.

What of it comes into the data, the model or the number of steps makes the workers train on different things.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.files.commands import Commands
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.met_alike import places_met_alike
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# They draw from the system where they are not given a seed.
_GENERATORS = frozenset({
    *api.NUMPY_GENERATORS, *api.BIT_GENERATORS, "random.Random", "random.SystemRandom",
    "tensorflow.random.Generator.from_non_deterministic_state",
})  # fmt: skip
# Without a seed, they take one from the system, too, for what all of the script draws.
_SEEDING = frozenset({"numpy.random.seed", "random.seed"})
_ALWAYS = frozenset({
    "tensorflow.random.Generator.from_non_deterministic_state", "tensorflow.random.get_global_generator",
    "random.SystemRandom",
})  # fmt: skip
_CLOCK = r"time\.|timeit\.default_timer$|datetime\.(?:datetime|date)\.(?:now|utcnow|today)$"
_OWN = (
    r"uuid\.(?:uuid1|uuid4|getnode)$|os\.(?:urandom|getrandom|getpid|getppid|times|uname)$|secrets\."
    r"|socket\.(?:gethostname|getfqdn)$|platform\.(?:node|uname)$|threading\.(?:get_ident|get_native_id)$"
    r"|builtins\.(?:id|hash)$"
)
_SOURCES = re.compile(f"(?:{_CLOCK}|{_OWN})")
_SOURCES_BUT_CLOCKS = re.compile(f"(?:{_OWN})")
# What `lockstep.broadcast` sends of these: a state that can be set, a number, text.
_SENDABLE = frozenset({
    *(_GENERATORS - {"random.SystemRandom", "numpy.random.SeedSequence", "numpy.random.Generator"}),
    "tensorflow.random.get_global_generator", "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns",
    "time.monotonic", "time.monotonic_ns", "time.strftime", "time.ctime", "timeit.default_timer", "os.getpid",
    "os.getppid", "os.urandom", "secrets.randbelow", "secrets.randbits", "secrets.token_bytes", "secrets.token_hex",
    "socket.gethostname", "platform.node", "builtins.hash", "subprocess.check_output", "subprocess.getoutput",
})  # fmt: skip
# What is given to these is trained, or trained on.
_STEERED = re.compile(
    r"(?:keras\.(?:layers|optimizers|initializers|regularizers|applications|models|Model|Sequential|Input|random)"
    r"|tensorflow\.(?:data|random|Variable|keras|io\.read_file)|tensorflow_datasets|numpy\.random|random|sklearn"
    r"|keras\.utils\.(?:set_random_seed|\w+_dataset_from_\w+|split_dataset))(?:\.|$)"
)
_FIT = ("x", "y", "batch_size", "epochs", "initial_epoch", "steps_per_epoch", "sample_weight", "class_weight",
        "validation_split")  # fmt: skip
_SEEDS = ("seed", "random_state", "shuffle_seed")


def is_own(path: str) -> bool:
    """Whether what this function gives differs from worker to worker, whatever it is given."""
    return path in _ALWAYS or _SOURCES.match(path) is not None


def is_unseeded(call: cst.Call, path: str) -> bool:
    """Whether the call makes a generator, or begins one anew, whose first state the system draws."""
    return path in _ALWAYS or (path in _GENERATORS | _SEEDING and (not call.args or is_none(call.args[0].value)))


class Entropy:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self._origins = Origins(resolver)
        self._commands = Commands(resolver)

    @cached_property
    def shared(self) -> list[cst.Call]:
        """What all workers can take from the chief where it is made: generators, and numbers or text."""
        return list(filter(self._can_be_shared, self._sources))

    def refusal(self) -> Refusal | None:
        """A refusal where workers would train on what each draws or knows by itself."""
        source = next((source for source in self._sources if source not in self.shared), None)
        if source is None:
            return None
        if self._is_unseeded(source):
            why = "these random numbers differ from worker to worker, and with them what the workers train on"
            return Refusal(source, why, "give it a fixed seed", breaks_training=True)
        why = "this differs from worker to worker, and with it what the workers train, or train on"
        return Refusal(source, why, "use a fixed value, or one that all workers are given alike", breaks_training=True)

    @cached_property
    def _sources(self) -> list[cst.Call]:
        """The calls that make workers train on something of their own, but for those that the chief's is sent from."""
        found = dict.fromkeys([*filter(self._is_unseeded, self.tree.calls), *self._steering()])
        return [call for call in found if not self._is_sent(call)]

    def _is_sent(self, call: cst.Call) -> bool:
        """`lockstep.broadcast(np.random.default_rng())`"""
        around = (owner for owner in self.tree.ancestors(call) if isinstance(owner, cst.Call))
        return any(has_role(path, Role.BROADCAST) for owner in around for path in self._paths(owner))

    def _can_be_shared(self, call: cst.Call) -> bool:
        paths = self._paths(call)
        is_sendable = bool(paths) and all(path in _SENDABLE for path in paths)
        if not is_sendable or len(self.resolver.values(call.func)) != len(paths):
            return False
        runs_elsewhere = self.tree.is_in(call, self._bodies())
        return not runs_elsewhere and places_met_alike(self.tree, self.resolver, call) is not None

    def _is_unseeded(self, call: cst.Call) -> bool:
        return any(is_unseeded(call, path) for path in self._paths(call))

    def _paths(self, call: cst.Call) -> list[str]:
        return self.resolver.public(call.func)

    # -- what steers ---------------------------------------------------------------------------------------------

    def _steering(self) -> Iterator[cst.Call]:
        """The calls for what a process has by itself of which data, models or numbers of steps are made."""
        if not any(self._is_source(call, _SOURCES) for call in self.tree.calls):
            return
        for part in self._origins.behind_all(list(self._steered())):
            if isinstance(part, cst.Call) and self._is_source(part, _SOURCES):
                yield part
        for body in self._bodies():
            for call in self.tree.calls:
                if self.tree.contains(body, call) and self._is_source(call, _SOURCES_BUT_CLOCKS):
                    yield call

    def _is_source(self, call: cst.Call, sources: re.Pattern[str]) -> bool:
        if self._commands.only_asks(call):
            return True
        for path in self._paths(call):
            if path == "builtins.hash" and call.args and isinstance(call.args[0].value, cst.BaseNumber):
                continue
            if sources.match(path):
                return True
        return False

    def _steered(self) -> Iterator[cst.BaseExpression]:
        for call in self.tree.calls:
            is_steered = any(_STEERED.match(p) for p in self._paths(call)) or self._is_step(call)
            for arg in call.args:
                name = arg.keyword.value if arg.keyword is not None else ""
                if name in _SEEDS or (is_steered and name != "name"):
                    yield arg.value
        for fit in self.training.fits:
            given = (argument(fit.call, name, {"x": 0, "y": 1}.get(name)) for name in _FIT)
            yield from (arg.value for arg in given if arg is not None)
            yield from (arg.value for arg in fit.call.args if arg.star)
        for fit in self.training.batch_fits:
            yield from (arg.value for arg in fit.call.args)
        for update in self.training.updates:
            yield from (loop.iter for loop in self.tree.loops_around(update.call) if isinstance(loop, cst.For))

    def _is_step(self, call: cst.Call) -> bool:
        """A method of a dataset, as `batch` or `shuffle`."""
        func = call.func
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in api.DATASET_METHODS
            and any(map(self.training.kinds.is_dataset, self.resolver.values(func.value)))
        )

    def _bodies(self) -> list[cst.CSTNode]:
        """The functions that are given to datasets, with all that they call."""
        given = [a.value for c in self.tree.calls if self._is_step(c) or self._makes_dataset(c) for a in c.args]
        functions = [v.node for node in given for v in self.resolver.values(node) if isinstance(v, Function)]
        return [body for function in functions for body in self.training.reached_from(function)]

    def _makes_dataset(self, call: cst.Call) -> bool:
        return any(map(api.is_dataset_source, self._paths(call)))
