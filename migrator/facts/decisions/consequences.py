"""What all workers must do alike: where a condition decides about it, the condition has to be the same everywhere."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.dependence.picking import GIVING_ONE
from migrator.facts.dependence.regions import Region, Regions
from migrator.facts.files.writes import Files
from migrator.facts.names import api
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    File,
    Function,
    Literal,
    Member,
    Object,
    Result,
    Value,
    calls,
)
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training

SETTINGS = frozenset({"learning_rate", "lr", "momentum", "weight_decay", "_learning_rate", "_lr"})
# What a library's function may do without any worker's training being another one.
HARMLESS = (
    "builtins.", "logging.", "warnings.", "math.", "numpy.", "tensorflow.", "keras.", "time.", "json.", "os.path.",
    "datetime.", "matplotlib.", "pandas.", "collections.", "itertools.", "functools.", "copy.", "pprint.", "tqdm",
    "absl.logging.", "statistics.", "operator.", "sys.std", "wandb.", "mlflow.", "csv.", "io.", "string.", "re.",
    "heapq.", "bisect.", "textwrap.", "dataclasses.", "traceback.", "gc.", "pathlib.", "IPython.", "lockstep.",
    "mpl_toolkits.", "seaborn.", "plotly.", "PIL.",
    "shutil.get_terminal_size", "os.getcwd", "os.fspath", "sys.getsizeof", "psutil.", "typing.",
)  # fmt: skip
_REPEATING = ("builtins.", "functools.", "itertools.", "numpy.", "heapq.")
_EXITS = (
    "sys.exit", "os._exit", "builtins.exit", "builtins.quit", "os.abort", "os.kill", "signal.", "builtins.exec",
    "builtins.eval", "_thread.interrupt_main",
)  # fmt: skip
# They make what is trained, or what trains it.
_BUILDING = ("keras.layers.", "keras.models.", "keras.Sequential", "keras.Model", "keras.optimizers.")
_OF_TRAINING = ("keras.", "tensorflow.", "functools.partial")  # a loss, say, with its settings
_RECORDS = ("argparse.", "types.", "threading.")  # what they hold is followed to where the script reads it
_CALM = frozenset({"summary", "get_config", "count_params", "get_weights", "get_layer", "to_json", "numpy", "predict"})
_OF_PROPERTIES = frozenset({"fset", "__set__"})
_SETTING_WEIGHTS = frozenset({"set_weights", "load_weights"})


class Consequences:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        regions: Regions,
        exchanges: Iterable[cst.CSTNode] = (),
        harmless: Iterable[str] = (),
    ) -> None:
        """`exchanges`: where all workers put together what each of them has; `harmless`: packages of which any call
        may be left out on some."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.files = files
        self.regions = regions
        self._exchanges = list(exchanges)
        self._harmless = (*HARMLESS, *(f"{package}." for package in harmless))
        self._known: dict[cst.CSTNode, bool] = {}
        self._asked: list[cst.Call] = []

    def exchange(self, nodes: Iterable[cst.CSTNode]) -> None:
        """From here on, all workers have to come to these as well."""
        new = [node for node in nodes if node not in self._exchanges]
        if new:
            self._exchanges += new
            self._sites += new
            self._known = {condition: True for condition, known in self._known.items() if known}

    def follow(self, condition: cst.CSTNode) -> bool:
        """Whether workers that decide the condition differently would train differently, or part."""
        known = self._known.get(condition)
        if known is None:
            known = not self.files.is_chief_only(condition) and (
                any(map(self._follow, self.regions.of(condition)))
                or any(map(self._follows_use, self.regions.picks.get(condition, ())))
            )
            self._known[condition] = known
        return known

    def follow_picked(self, picked: cst.CSTNode) -> bool:
        """Whether workers would train differently, or part, that have others of several functions or objects there."""
        uses = self.regions.picked.get(picked, ())
        return not self.files.is_chief_only(picked) and any(map(self._follows_use, uses))

    def _follows_use(self, use: cst.CSTNode) -> bool:
        """Whether it matters which function is called, of which object a method is, or an attribute that is set."""
        if not isinstance(use, cst.Call) or not isinstance(use.func, cst.Attribute):
            return self._matters(use)
        name, values = use.func.attr.value, self.resolver.values(use.func)
        if values and all(isinstance(v, (Function, Class)) for v in values):
            return self._matters(use)
        if (name in api.TRAINING_METHODS or name in api.SETTING_VARIABLES) and self.call_matters(use):
            return True
        return any(map(self._matters, self.tree.methods.get(name, ())))

    def _follow(self, region: Region) -> bool:
        if any(isinstance(jump, (cst.Raise, cst.Assert)) for jump in region.jumps):
            return True
        decided = (*region.bodies, *region.rest)
        return any(map(self._matters, decided)) or (
            not isinstance(self.tree.parent.get(region.place), (cst.For, cst.CompFor))
            and any(map(self._passes_gradients, decided))
        )

    def _passes_gradients(self, body: cst.CSTNode) -> bool:
        """Whether it is decided there what is reduced behind it, or whether anything is."""
        for reached in self.training.reached_from(body):
            start = bisect_left(self._gradients, self.tree.order[reached])
            if start < len(self._gradients) and self._gradients[start] <= self.tree.last_order_in(reached):
                return True
        return False

    def _matters(self, body: cst.CSTNode) -> bool:
        for reached in self.training.reached_from(body):
            if any(self.tree.contains(reached, site) for site in self._sites):
                return True
            if any(map(self.call_matters, self.regions.calls_in(reached))):
                return True
            if any(self.tree.contains(reached, b.node) for b in (*self.settings_made, *self._applied)):
                return True
            if reached is not body and any(self.tree.contains(reached, node) for node in self._raises):
                return True
        return False

    @cached_property
    def _sites(self) -> list[cst.CSTNode]:
        found: list[cst.CSTNode] = [*self.training.sites, *self.training.handed_to_keras, *self._exchanges]
        found += self.training.keras_steps
        found += [c.reader for c in self.sharding.consumptions]
        found += [write.node for write in self.files.writes]
        found += [*self.files.restores.calls, *self.files.restores.copies]
        # the results of metrics, for which all workers have to come
        is_metric = self.training.kinds.is_metric
        found += [c for c, func in self.training.methods("result") if any(map(is_metric, self._values(func)))]
        return found

    @cached_property
    def _gradients(self) -> list[int]:
        """Where in the text gradients of updates pass on their way, or what may be there instead of them."""
        given = [arg.value for u in self.training.updates if u.gradients for arg in u.call.args[:1]]
        passed = {node for value in given for node in self.training.flow.passed(value)}
        return sorted(self.tree.order[node] for node in passed if node in self.tree.order)

    @cached_property
    def _applied(self) -> list[Binding]:
        """What the names get of which updates are made: which gradients are applied, and to what."""
        args = [arg.value for update in self.training.updates for arg in update.call.args]
        names = [name for arg in args for name in self.tree.names_in(arg) if self.tree.is_read(name)]
        scopes = [(self.tree.scope_of(name).lookup(name.value), name.value) for name in names]
        return [b for scope, name in dict.fromkeys(scopes) if scope is not None for b in scope.bindings[name]]

    def _values(self, method: cst.Attribute) -> tuple[Value, ...]:
        return self.resolver.values(method.value)

    @cached_property
    def _raises(self) -> list[cst.CSTNode]:
        return list(self.tree.all_of(cst.Raise))

    @cached_property
    def settings_made(self) -> list[Binding]:
        """Attributes of a library's objects that the script sets: of optimizers, layers, callbacks, models."""
        return [
            binding
            for name, bindings in self.tree.attributes.items()
            for binding in bindings
            if isinstance(binding.target, cst.Attribute) and self._is_foreign(binding.target.value, name)
        ]

    def _is_foreign(self, owner: cst.BaseExpression, name: str) -> bool:
        if name in SETTINGS or name in ("trainable", "stop_training"):
            return True
        values = self.resolver.values(owner)
        return not values or any(not isinstance(v, (Object, Class, File)) for v in values)

    # -- calls ---------------------------------------------------------------------------------------------------

    def call_matters(self, call: cst.Call) -> bool:
        """Whether the call may make another training of it, where not all workers make it."""
        values = self.resolver.values(call.func)
        method = call.func if isinstance(call.func, cst.Attribute) and not self._is_module(call.func.value) else None
        if method is not None and method.attr.value in api.SETTING_VARIABLES:
            return self._may_be_trained(method.value)
        if (self._setters and self._may_call_setter(call.func)) or self._assigns(call):
            return True
        return not values or any(self._matters_to_call(v, call) for v in values)

    def _sets_foreign(self, call: cst.Call) -> bool:
        """`setattr(optimizer, name, value)`"""
        given = self.resolver.values(call.args[1].value) if len(call.args) > 1 else ()
        names = [
            str(v.node.evaluated_value)
            for v in given
            if isinstance(v, Literal) and isinstance(v.node, cst.SimpleString)
        ]
        names = names or [""]
        return not call.args or any(self._is_foreign(call.args[0].value, name) for name in names)

    def _matters_to_call(self, value: Value, call: cst.Call) -> bool:
        if isinstance(value, External):
            if value.path.startswith(_EXITS) or value.path.startswith(api.DRAWS) or "debugging." in value.path:
                return True
            if value.path == "builtins.setattr":
                return self._sets_foreign(call)
            if value.path.startswith(_BUILDING):
                return True
            return not f"{value.path}.".startswith(self._harmless)
        if isinstance(value, Class) and self.resolver.derives_from(value, lambda path: path.startswith(_BUILDING)):
            return True
        if isinstance(value, (Function, Class, Object, Literal)):
            return False  # what it does is looked at where it stands
        if isinstance(value, Member):
            return self._method_matters(value)
        return not isinstance(value, Result) or self._result_matters(value)

    def _result_matters(self, value: Result) -> bool:
        """`model(x)`, `loss_fn(y, p)`: calls of what a library has made, or has found or wrapped for the script."""
        path = value.function.path if isinstance(value.function, External) else ""
        if path == "functools.partial" or path in GIVING_ONE:
            return self._given_matters(path, value.call)
        return not path or not f"{path}.".startswith(self._harmless)

    def _given_matters(self, path: str, call: cst.Call) -> bool:
        """The same of what the call gives: `partial(step, 1)`, `getattr(trainer, name)`."""
        if call in self._asked or not call.args:
            return False
        self._asked.append(call)
        try:
            held = self.resolver.values(call.args[0].value)
            if path == "functools.partial":
                return not held or any(self._runs(v, call) for v in held)
            if path != "builtins.getattr":
                return True
            return not held or any(
                any(map(self._matters, self.resolver.methods_of(v.of)))
                if isinstance(v, Object)
                else self._matters_to_call(v, call)
                for v in held
            )
        finally:
            self._asked.pop()

    def _runs(self, value: Value, call: cst.Call) -> bool:
        return self._matters(value.node) if isinstance(value, Function) else self._matters_to_call(value, call)

    def _method_matters(self, value: Member) -> bool:
        owner = value.owner
        while isinstance(owner, (Member, Element)):
            owner = owner.owner if isinstance(owner, Member) else owner.of
        if value.name in _CALM:
            return False
        if value.name in _SETTING_WEIGHTS:  # also of what a library gives the script's object, as callbacks a model
            return True
        kinds = self.training.kinds
        if kinds.has_weights(value.owner) or kinds.is_optimizer(value.owner) or kinds.is_dataset(value.owner):
            return True
        if isinstance(owner, Result):
            path = owner.function.path if isinstance(owner.function, External) else ""
            return bool(path) and (path.startswith(api.DRAWS) or not f"{path}.".startswith(self._harmless))
        return not isinstance(owner, (Literal, External, Object))

    def _may_be_trained(self, variable: cst.BaseExpression) -> bool:
        """Whether the variable may be a weight, and not one that the script made to keep a number in."""
        values = self.resolver.values(variable)
        is_made = bool(values) and all(self.training.kinds.is_variable(v) for v in values)
        return not is_made and not self._is_of_metric(variable)

    def _is_of_metric(self, variable: cst.BaseExpression) -> bool:
        """`for v in self.variables: v.assign(…)` in a metric: what it counts with, which nothing trains."""
        bindings = self.resolver.reaching(variable) if isinstance(variable, cst.Name) else []
        lists = [b.value for b in bindings if b.kind == "for" and not b.path and isinstance(b.value, cst.Attribute)]
        owners = [v for held in lists for v in self.resolver.values(held.value) or (None,)]
        return (
            bool(owners)
            and len(lists) == len(bindings)
            and all(held.attr.value in ("variables", "weights") for held in lists)
            and all(isinstance(v, Object) and self.training.kinds.is_metric(v) for v in owners)
        )

    @cached_property
    def repeated(self) -> list[cst.BaseExpression]:
        """What comprehensions go through that make layers or models, or train, for each item of it; and what is given
        to a library's function beside one of the script's that does so: `map(step, batches)`, `max(rates, key=trial)`.
        """
        found = []
        for call in self.tree.calls:
            if len(call.args) > 1 and any(map(_repeats, self.resolver.values(call.func))):
                run = [arg for arg in call.args if any(self._runs(v, call) for v in self._functions_in(arg.value))]
                found += [arg.value for arg in call.args if run and arg not in run]
        for choice in self.regions.unseen_choices:  # `partial(tf.cond, true_fn=slow, false_fn=fast)(loss > 1)`
            if not choice.functions or any(map(self._matters, choice.functions)):
                found += choice.deciders
        for node in self.tree.all_of(cst.ListComp, cst.GeneratorExp, cst.SetComp):
            if self._matters(node.elt):
                found.append(node.for_in.iter)
        return found

    def _functions_in(self, node: cst.BaseExpression) -> list[Value]:
        return [v for v in self.resolver.values(node) if isinstance(v, Function)]

    # -- settings ------------------------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> list[cst.BaseExpression]:
        """What an optimizer's settings get: `opt.learning_rate = …`, `….assign(…)`, `K.set_value(opt.lr, …)`."""
        return list(dict.fromkeys(self._settings()))

    def _settings(self) -> Iterator[cst.BaseExpression]:
        for name in sorted(SETTINGS):
            for binding in self.tree.attributes.get(name, ()):
                if isinstance(binding.value, cst.BaseExpression) and self._is_of_library(binding):
                    yield binding.value
        for binding in self.settings_made:
            owner = binding.target.value if isinstance(binding.target, cst.Attribute) else None
            is_set = any(map(self._may_be_of_training, self.resolver.values(owner))) if owner is not None else False
            if is_set and isinstance(binding.value, cst.BaseExpression):
                yield binding.value
        for target, value in self.tree.item_assignments:  # `schedule.values[1] = …`
            held = target.value
            if isinstance(held, cst.Attribute) and any(map(self._may_be_of_training, self.resolver.values(held.value))):
                yield value
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and _sets(func.attr.value) and not self._is_module(func.value):
                if _is_setting(func.value) or self._may_be_trained(func.value):
                    yield from (arg.value for arg in call.args)
            elif self._assigns(call):
                yield from (arg.value for arg in call.args)
            elif self._sets_attribute(call):
                yield call.args[2].value
        yield from self._given_to_setters()

    def _given_to_setters(self) -> Iterator[cst.BaseExpression]:
        """What may be given to `opt.learning_rate.assign` or `setattr` where these are handed on, to be called by
        another name."""
        for call in self.tree.calls if self._setters else ():
            if self._may_call_setter(call.func):
                yield from (arg.value for arg in call.args)
            elif any(self.tree.contains(arg, setter) for arg in call.args for setter in self._setters):
                yield from (arg.value for arg in call.args if not isinstance(arg.value, cst.Attribute))
                if isinstance(call.func, cst.Attribute):
                    yield call.func.value

    @cached_property
    def _setters(self) -> list[cst.BaseExpression]:
        """What sets an optimizer or a weight, where it is no more than named."""
        found: list[cst.BaseExpression] = [node for node in self.tree.all_of(cst.Attribute) if self._is_setter(node)]
        found += [node for node in self.tree.names["setattr"] if self._is_handed_on(node)]
        return found + [call for call in self.tree.calls if _asks_for_setter(call)]

    def _is_setter(self, node: cst.Attribute) -> bool:
        if node.attr.value in _OF_PROPERTIES:
            return True
        if not _sets(node.attr.value) or isinstance(self.tree.parent.get(node), cst.Call):
            return False
        return _is_setting(node.value) or self._may_be_trained(node.value)

    def _is_handed_on(self, node: cst.Name) -> bool:
        """Whether it is `setattr`, which is not called there."""
        parent = self.tree.parent.get(node)
        is_called = isinstance(parent, cst.Call) and parent.func is node
        return node.value == "setattr" and not is_called and External("builtins.setattr") in self.resolver.values(node)

    def _may_call_setter(self, func: cst.BaseExpression) -> bool:
        if isinstance(func, cst.Attribute) and func.attr.value == "__call__":
            inner = func.value
            return (isinstance(inner, cst.Attribute) and _sets(inner.attr.value)) or self._may_call_setter(inner)
        if isinstance(func, cst.Attribute) and _sets(func.attr.value):
            return False  # it is one by itself, or none
        if isinstance(func, cst.Attribute) and func.attr.value in _OF_PROPERTIES:
            return True
        values = self.resolver.values(func)
        return not values or any(map(self._may_be_setter, values))

    def _may_be_setter(self, value: Value) -> bool:
        if isinstance(value, Member):
            # `knob.put` of a record that is made of one
            return _sets(value.name) or value.name in _OF_PROPERTIES or _is_record(value.owner)
        if calls(value) == "functools.partial":
            return True
        if self._is_of_framework(value) or calls(value).startswith(("keras.", "tensorflow.")):
            return False
        return not isinstance(value, (Function, Class, External, Object))

    def _is_of_library(self, binding: Binding) -> bool:
        """Whether the attribute is not one of an object of the script's own, which is followed where it is read."""
        owner = binding.target.value if isinstance(binding.target, cst.Attribute) else None
        values = self.resolver.values(owner)
        kinds = self.training.kinds
        own = bool(values) and all(isinstance(v, Object) and not kinds.is_optimizer(v) for v in values)
        return not own

    def _may_be_of_training(self, value: Value) -> bool:
        """Whether it may be something that the training goes by: also a regulariser, an initialiser, a schedule."""
        path = origin(value)
        is_known = not path or f"{path}.".startswith((*self._harmless, *_RECORDS))
        return self._is_of_framework(value) or path.startswith(_OF_TRAINING) or not is_known

    def _is_of_framework(self, value: Value) -> bool:
        """Whether it is something of Keras's that trains, or a part of it: a layer, a model, an optimizer."""
        while isinstance(value, (Member, Element)):
            value = value.owner if isinstance(value, Member) else value.of
        if isinstance(value, Result) and isinstance(value.function, Member):
            return self._is_of_framework(value.function)
        kinds = self.training.kinds
        return not isinstance(value, Object) and (kinds.has_weights(value) or kinds.is_optimizer(value))

    def _is_module(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(isinstance(v, External) for v in values)

    def _assigns(self, call: cst.Call) -> bool:
        """Whether it sets a variable that may be trained: `K.set_value(opt.lr, 0.01)`, `K.update(weight, value)`."""
        if not call.args or not any(map(api.SETTING_FUNCTIONS.match, self.resolver.public(call.func))):
            return False
        return _is_setting(call.args[0].value) or self._may_be_trained(call.args[0].value)

    def _sets_attribute(self, call: cst.Call) -> bool:
        return len(call.args) == 3 and External("builtins.setattr") in self.resolver.values(call.func)


def _repeats(value: Value) -> bool:
    """Whether it may call a function that it is given for each item of something else."""
    return isinstance(value, External) and value.path.startswith(_REPEATING)


def _is_setting(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value in SETTINGS


def _asks_for_setter(call: cst.Call) -> bool:
    """`getattr(rate, "assign")`, `attrgetter("learning_rate.assign")`, `methodcaller("assign", 0.1)`"""
    texts = [arg.value.evaluated_value for arg in call.args if isinstance(arg.value, cst.SimpleString)]
    return any(str(text).rpartition(".")[2].startswith("assign") for text in texts)


def _sets(method: str) -> bool:
    return method.startswith("assign") or method in api.SETTING_VARIABLES or method in _SETTING_WEIGHTS


def _is_record(value: Value) -> bool:
    """A named tuple, or a namespace."""
    if not isinstance(value, Result):
        return False
    made = value.function
    is_named = isinstance(made, Result) and calls(made) == "collections.namedtuple"
    return is_named or calls(value) in ("types.SimpleNamespace", "argparse.Namespace")
