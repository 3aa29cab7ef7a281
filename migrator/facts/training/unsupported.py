"""Training that the rules cannot migrate: calls of which too little is seen, and styles that are not covered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.names import api
from migrator.facts.names.packages import STANDARD_LIBRARY
from migrator.facts.objects.defaults import DEFAULTDICT
from migrator.facts.objects.kinds import Kinds, is_of_other_library, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Function,
    Literal,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
)
from migrator.facts.program.syntax import argument, imported_modules, is_constant, method_called
from migrator.facts.program.tree import FunctionLike, Tree
from migrator.facts.training.gradients import sources_of
from migrator.facts.training.methods_apart import MethodApart, MethodsApart, is_unseen
from migrator.facts.training.sites import Training, is_super
from migrator.records import dataclass
from migrator.worklist import Worklist

# Only Keras's `fit` takes these: scikit-learn's and others' do not.
_FIT_KEYWORDS = frozenset(
    {
        "epochs",
        "batch_size",
        "validation_data",
        "validation_split",
        "steps_per_epoch",
        "callbacks",
        "initial_epoch",
    }
)
# They call `fit` themselves.
_DRIVERS = (
    "scikeras",
    "keras.wrappers",
    "tensorflow.keras.wrappers",
    "keras_tuner",
    "kerastuner",
    "autokeras",
    "talos",
)
# Simulations with random states of their own.
_ENVIRONMENTS = frozenset({"gym", "gymnasium", "pettingzoo", "dm_control", "dm_env", "pybullet_envs"})
# What takes gradients only to look at them.
_MEASURING = ("tensorflow.", "keras.", "numpy.", "builtins.", "math.", "matplotlib.", "lockstep.", "logging.", "absl.")
_TELLING_METHODS = frozenset({
    "astype", "copy", "flatten", "format", "get_shape", "item", "items", "keys", "max", "mean", "min", "numpy",
    "ravel", "reshape", "std", "sum", "tolist", "values",
})  # fmt: skip
_NUMBERS = (External("builtins.float"), External("builtins.int"), External("builtins.bool"))
_OF_OPTIMIZERS = frozenset({"minimize", "apply_gradients", "apply"})
_STEPS_OF_FIT = frozenset({"train_step", "make_train_function"})
_RAW_NAMES = re.compile(
    r"Resource|Apply|Assign|Scatter|Table|Queue|Stack|Barrier|Accumulator|Stage|resource_|apply_|assign|scatter_"
)
_HANDLES = frozenset({"resource", "ref", "var", "handle"})
_RAW_OPS = "tensorflow.raw_ops"
_DEEPEST = 4  # calls and lists that a model passes through
_WEIGHT_LISTS = api.WEIGHT_LISTS | {"get_weights"}


@dataclass(frozen=True, eq=False)
class UnsupportedTraining:
    """A call that trains, of something that the script does not show; `if_given_back_by`: only if what comes of it is
    returned by one of these functions. `gradients_of`: the weights of which it takes gradients, which are the same on
    all workers where these train on whole batches, whatever is done with them."""

    node: cst.CSTNode
    reason: str
    advice: str
    if_given_back_by: tuple[FunctionLike, ...] = ()
    gradients_of: cst.BaseExpression | None = None


_SETTING = frozenset({"set_weights", "batch_set_value", "set_value"})


class Unsupported:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training

    @cached_property
    def found(self) -> list[UnsupportedTraining]:
        return [
            *self._foreign_drivers(),
            *self._other_backends(),
            *self._unknown_fits(),
            *self._unsupported_calls(),
            *self._methods_apart(),
            *self._lost_gradients(),
            *self._taken_in_optimizers(),
            *self._raw_updates(),
            *self._classes_of_type(),
        ]

    def _foreign_drivers(self) -> Iterator[UnsupportedTraining]:
        """Libraries that call `fit` themselves, where no argument of it can be reached."""
        for node in self.tree.imports:
            for module in imported_modules(node):
                if module.split(".")[0] in _ENVIRONMENTS and self.training.sites:
                    yield UnsupportedTraining(
                        node,
                        "each worker would meet other episodes, make other numbers of steps and wait for ever",
                        "collect the same experience on all workers, and port the training by hand",
                    )
                if module.startswith(_DRIVERS):
                    yield UnsupportedTraining(
                        node,
                        f"models that `{module}` trains are fitted out of sight of this file",
                        "train the model with fit or a loop of your own",
                    )

    def _other_backends(self) -> Iterator[UnsupportedTraining]:
        """Keras on JAX or PyTorch: the runtime speaks to TensorFlow."""
        settings: list[tuple[cst.CSTNode, cst.BaseExpression]] = [
            (target, value) for target, value in self.tree.item_assignments if _names_backend(target.slice)
        ]
        for call in self.tree.calls:
            sets = len(call.args) > 1 and method_called(call) == "setdefault"
            if sets and _is_text(call.args[0].value, "KERAS_BACKEND"):
                settings.append((call, call.args[1].value))
        for node, value in settings:
            if not _is_text(value, "tensorflow"):
                yield UnsupportedTraining(
                    node, "Keras runs on another backend than TensorFlow here", "set it to tensorflow"
                )

    def _raw_updates(self) -> Iterator[UnsupportedTraining]:
        """`tf.raw_ops.ResourceApplyGradientDescent(…)`, `put = tf.raw_ops.AssignVariableOp`: what an optimizer does
        inside."""
        for node in self._raw_ops() if self.tree.names.get("raw_ops") or self.tree.names.get("python") else ():
            values = self.resolver.values(node)
            is_unseen = isinstance(node, cst.Call) and any(isinstance(v, Result) for v in values)
            changes = any(isinstance(v, External) and api.RAW_CHANGES.match(v.path) for v in values)
            if is_unseen or (changes and not self._sets_kept(node)):
                yield UnsupportedTraining(
                    node,
                    "this op changes variables by their handles, so what they get cannot be followed",
                    "apply gradients with an optimizer, and set variables by assign, assign_add and assign_sub",
                )

    def _raw_ops(self) -> Iterator[cst.BaseExpression]:
        """What may be an op that changes variables, or give one: `getattr(tf.raw_ops, name)`."""
        yield from (node for node in self.tree.all_of(cst.Attribute) if _RAW_NAMES.search(node.attr.value))
        yield from (node for name, nodes in self.tree.names.items() if _RAW_NAMES.search(name) for node in nodes)
        asked = (call for call in self.tree.calls if call.args)
        yield from (call for call in asked if External(_RAW_OPS) in self.resolver.values(call.args[0].value))

    def _sets_kept(self, node: cst.BaseExpression) -> bool:
        """Whether it is called there to set a variable that is kept to count with, and not trained."""
        call = self.tree.parent.get(node)
        if not isinstance(call, cst.Call) or call.func is not node:
            return False
        handles = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in _HANDLES]
        owners = [h.value if isinstance(h, cst.Attribute) and h.attr.value == "handle" else h for h in handles]
        values = [v for owner in owners for v in self.resolver.values(owner) or (None,)]
        return bool(values) and all(isinstance(v, Result) and self._is_kept(v) for v in values)

    def _is_kept(self, value: Result) -> bool:
        given = argument(value.call, "trainable", 1)
        is_never = given is not None and isinstance(given.value, cst.Name) and given.value.value == "False"
        return is_never and self.kinds.is_variable(value)

    def _classes_of_type(self) -> Iterator[UnsupportedTraining]:
        """Classes that `type(name, bases, names)` makes of the script's own: which methods their objects run is not
        seen where these decide."""
        for call in self.tree.calls if self.training.sites else ():
            if len(call.args) < 3 or External("builtins.type") not in self.resolver.values(call.func):
                continue
            bases = call.args[1].value
            given = [e.value for e in bases.elements] if isinstance(bases, (cst.Tuple, cst.List)) else [bases]
            values = [value for node in given for value in self.resolver.values(node) or (Unknown(node),)]
            if any(isinstance(v, (Class, Unknown, Parameter)) or v == External(DEFAULTDICT) for v in values):
                yield UnsupportedTraining(
                    call,
                    "a class is made here while the script runs, so which methods its objects have is not seen",
                    "write it out: class Name(Base): ...",
                )

    def _unknown_fits(self) -> Iterator[UnsupportedTraining]:
        known = {fit.call for fit in self.training.fits}
        apart = {found.node for found in self._apart}
        for call, func in self.training.methods("fit"):
            keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            values = self.resolver.values(func.value)
            if call in known and not all(self.kinds.is_model(v) or _is_no_object(v) for v in values):
                yield UnsupportedTraining(
                    call,
                    "on some way to this `fit` what the model is cannot be seen",
                    "make the model in this file, or port the other way by hand",
                )
            if (
                call in known
                or func in apart
                or is_super(func.value)
                or not (keywords & _FIT_KEYWORDS or self._is_compiled(func.value) or self._may_be_model(values))
            ):
                continue
            if self.training.is_overridden(values, "fit") or (values and all(is_of_other_library(v) for v in values)):
                continue
            yield UnsupportedTraining(
                call,
                "this looks like Keras's `fit`, but what the model is cannot be seen here"
                + self._from_elsewhere(values),
                "give the model a name of its own where it is built in this file, or port this call by hand",
            )

    def _from_elsewhere(self, values: tuple[Value, ...]) -> str:
        """Which package, or file that is not given, the model or its class comes from; empty where that is not seen."""
        classes = [cls for v in values if isinstance(v, Object) for cls in self.resolver.lineage(v.of)]
        bases = [base for cls in classes for arg in cls.node.bases for base in self.resolver.values(arg.value)]
        paths = map(origin, [*bases, *(v for v in values if isinstance(v, (External, Result)))])
        for path in paths:
            if path and not path.startswith(_MEASURING) and path.partition(".")[0] not in STANDARD_LIBRARY:
                return f": it comes from `{path}`, which is not among the files"
        return ""

    def _may_be_model(self, values: tuple[Value, ...]) -> bool:
        """Whether what is not seen here is made of a model, or may be one that is compiled and trained nowhere else."""
        if values and not any(map(is_unseen, values)):
            return False
        return self._has_untrained or any(self._is_made_of_model(v) for v in values)

    @cached_property
    def _has_untrained(self) -> bool:
        fits = (*self.training.fits, *self.training.batch_fits)
        trained = [c for fit in fits for c in self.training.compiles_of(fit.values)]
        return not self.training.updates and any(c not in trained for c in self.training.compiles)

    def _is_made_of_model(self, value: Value, depth: int = 0) -> bool:
        """`next(iter([model]))`, `max(models, key=score)`"""
        while isinstance(value, (Element, Member)):
            value = value.of if isinstance(value, Element) else value.owner
        if self.kinds.is_model(value):
            return True
        node = value.call if isinstance(value, Result) else value.node if isinstance(value, Literal) else None
        if node is None or depth > _DEEPEST:
            return False
        made_of = [v for name in self.tree.names_in(node) for v in self.resolver.values(name)]
        return any(self._is_made_of_model(v, depth + 1) for v in made_of if v is not value)

    def _is_compiled(self, receiver: cst.BaseExpression) -> bool:
        """Whether the same name is told to `compile`, as only Keras's models are."""
        return any(
            func.value.deep_equals(receiver) and not any(v == External("re") for v in self.resolver.values(func.value))
            for _, func in self.training.methods("compile")
        )

    def _unsupported_calls(self) -> Iterator[UnsupportedTraining]:
        known = self.training.sites
        for call, func in self.training.methods("fit_generator", "train_on_batch", "minimize"):
            values = self.resolver.values(func.value)
            if call in known or any(map(self.kinds.is_optimizer, values)):
                continue
            name = func.attr.value
            foreign = bool(values) and all(is_of_other_library(v) for v in values)
            own = any(isinstance(v, Function) for v in self.resolver.values(call.func))
            if not foreign and not own:
                reason = f"this looks like Keras's `{name}`, but what it trains cannot be seen here"
                advice = "make the model or the optimizer in this file, or write the step with a GradientTape"
                if name == "fit_generator":
                    reason = "training by `fit_generator` is not migrated"
                    advice = "call `fit` with the same arguments: it takes generators and Sequences, too"
                yield UnsupportedTraining(call, reason, advice)

    @cached_property
    def _apart(self) -> list[MethodApart]:
        return MethodsApart(self.tree, self.resolver, self.kinds).found

    def _methods_apart(self) -> Iterator[UnsupportedTraining]:
        """What trains by a method that is not called as `model.fit(…)`, so that no rule can reach its arguments."""
        for apart in self._apart:
            name = apart.name or "fit"
            owner = "optimizer" if name in _OF_OPTIMIZERS else "model"
            reason = f"`{name}` is taken here as a value: the calls that train by it are out of sight"
            advice = f"call {owner}.{name}(...) there; to hand it on, hand on a function of the script that calls it"
            if not apart.name:
                reason = "a method of a model is called here by a name that only the run knows: it may train"
                advice = "call model.fit(...) and the other methods by their names, in branches"
            elif apart.of_super and apart.is_called:
                reason = (
                    f"Keras's `{name}` is called here by a method of the model's own, which hides what it trains on"
                )
                advice = f"give this method another name, and call self.{name}(...) in it"
            elif apart.is_called and name in _STEPS_OF_FIT:
                reason = f"Keras's `{name}` is called here by itself, and trains beside `fit`"
                advice = "call model.fit(...) or model.train_on_batch(...), or write the step with a GradientTape"
            elif apart.is_called:
                reason = f"`{name}` is called here as a function of the class"
                advice = f"call model.{name}(...), of the model itself"
            yield UnsupportedTraining(apart.node, reason, advice)

    def _lost_gradients(self) -> Iterator[UnsupportedTraining]:
        """Gradients of weights whose way to an update cannot be seen."""
        followed = {c for update in self.training.updates for g in update.gradients for c in g.tape_calls}
        for call in self.tree.calls:
            sources = sources_of(call)
            if sources is None or not self.training.flow.is_tape_call(call) or not self._lists_weights(sources):
                continue
            if call in followed:
                yield from self._used_twice(call)
                continue
            left_out = bool(self.training.sites) and self.training.is_never_run(call)
            if not left_out and not self._is_under_tape(call) and not self._only_measured(call):
                yield UnsupportedTraining(
                    call,
                    "these gradients of weights reach no update that can be seen here",
                    "apply them in this file with optimizer.apply_gradients",
                    gradients_of=sources,
                )
            elif asked := self._asked_by_others(call):
                yield self._trained_by_others(call, asked)

    def _used_twice(self, call: cst.Call) -> Iterator[UnsupportedTraining]:
        """What else than the updates that are seen gets these gradients, each worker its own: a library's optimizer
        behind some steps of Keras's, or weights that are set."""
        updates = [u.call for u in self.training.updates if any(call in g.tape_calls for g in u.gradients)]
        asked = [
            (path, function)
            for path, function in self._asked_by_others(call)
            if not any(self.tree.contains(b, u) for b in self.training.reached_from(function) for u in updates)
        ]
        if asked:
            yield self._trained_by_others(call, asked)
        for setting in self.tree.calls:
            if method_called(setting) not in _SETTING or setting in updates:
                continue
            given = [name for arg in setting.args for name in self.tree.names_in(arg.value)]
            if any(call in g.tape_calls for name in given for g in self.training.flow.sources(name)):
                yield UnsupportedTraining(
                    setting,
                    "these weights are set by gradients of a worker's own part of the batch",
                    "update them by optimizer.apply_gradients, or by variable.assign_sub(rate * gradient)",
                )

    @staticmethod
    def _trained_by_others(call: cst.Call, asked: list[tuple[str, FunctionLike]]) -> UnsupportedTraining:
        return UnsupportedTraining(
            call,
            f"`{asked[0][0]}` trains by these gradients of weights, on each worker for itself",
            "apply them in this file with optimizer.apply_gradients",
            tuple(function for _, function in asked),
        )

    def _taken_in_optimizers(self) -> Iterator[UnsupportedTraining]:
        """`super().apply_gradients(…)` of gradients that an optimizer of the script's own takes by itself."""
        for call in self.training.handed_to_keras:
            given = [t for arg in call.args[:1] for g in self.training.flow.sources(arg.value) for t in g.tape_calls]
            bodies = self.training.reached_from(self.tree.function_of(call) or call)
            if any(self.tree.contains(body, taken) for body in bodies for taken in given):
                yield UnsupportedTraining(
                    call,
                    "an optimizer of the script's own takes these gradients itself, of each worker's part of the batch",
                    "take them in the training step, and give them to an optimizer of Keras's",
                )

    def _asked_by_others(self, call: cst.Call) -> list[tuple[str, FunctionLike]]:
        """The functions of other libraries, with those of the script that they are given and that take these
        gradients: `scipy.optimize.minimize(evaluate, start, jac=True)`."""
        found: list[tuple[str, FunctionLike]] = []
        for other in self.tree.calls:
            paths = self.resolver.public(other.func)
            # Threads and timers do not look at what they are given back.
            foreign = [p for p in paths if not p.startswith(_MEASURING) and p.split(".")[0] not in STANDARD_LIBRARY]
            given = [v for arg in other.args if foreign for v in self.resolver.values(arg.value)]
            for function in (v.node for v in given if isinstance(v, Function)):
                if any(self.tree.contains(body, call) for body in self.training.reached_from(function)):
                    found.append((foreign[0], function))
        return found

    def _is_under_tape(self, call: cst.Call) -> bool:
        """Whether another tape records, so that the gradients enter what that is asked for: the losses follow them."""
        own = self.resolver.values(cst.ensure_type(call.func, cst.Attribute).value)
        return any(
            self.kinds.is_tape(value) and value not in own
            for owner in self.tree.ancestors(call)
            if isinstance(owner, cst.With)
            for item in owner.items
            for value in self.resolver.values(item.item)
        )

    def _lists_weights(self, sources: cst.BaseExpression) -> bool:
        pending = Worklist([sources])  # `weights = [weights, w]` is within itself, as far as names tell
        for node in pending:
            if isinstance(node, (cst.List, cst.Tuple)):
                pending += [e.value for e in node.elements]
                continue
            values = self.resolver.values(node)
            is_variable = any(map(self.kinds.is_variable, values)) and not self.training.is_input(node)
            if is_variable or any(map(self._is_weights, values)):
                return True
            pending += [v.node for v in values if isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Tuple))]
        return False

    def _is_weights(self, value: Value) -> bool:
        return isinstance(value, Member) and value.name in _WEIGHT_LISTS

    def _only_measured(self, call: cst.Call) -> bool:
        """Whether the gradients are only looked at: given to nothing but functions of TensorFlow, numpy and Python."""
        for other in self.tree.calls:
            is_measuring = any(map(_measures, self.resolver.public(other.func))) and not self._hands_on(other)
            if is_measuring or self.training.flow.is_tape_call(other):
                continue
            given = [arg.value for arg in other.args if not (self._keeps(other) and self._is_number(arg.value))]
            if any(call in g.tape_calls for value in given for g in self.training.flow.sources(value)):
                return False
        sources = sources_of(call)
        names = {n.value for n in self.tree.names_in(sources)} if sources is not None else set()
        return not any(
            call in g.tape_calls  # `w = w - rate * gradient`
            for name in names
            for scope in self.tree.scopes.values()
            for binding in scope.bindings.get(name, ())
            if binding.kind in ("assign", "augmented") and binding.value is not None
            for g in self.training.flow.sources(binding.value)
        )

    def _hands_on(self, call: cst.Call) -> bool:
        """Whether it runs something that may change weights by what it is given, or keep that: `map(update, weights,
        gradients)`, `tf.nest.map_structure(lambda w, g: w.assign_sub(g), weights, gradients)`."""
        return any(self._does_more(value) for arg in call.args for value in self.resolver.values(arg.value))

    def _does_more(self, value: Value) -> bool:
        """Whether it is something to be called that does more than to compute."""
        function: FunctionLike | None = value.node if isinstance(value, Function) else None
        if isinstance(value, Object):
            function = self.resolver.method(value.of, "__call__")
        if function is None:
            sets = isinstance(value, Member) and value.name in api.SETTING_VARIABLES
            return sets or (isinstance(value, External) and not _measures(value.path))
        bodies = self.training.reached_from(function)
        return any(self.tree.is_in(inner, bodies) and not self._computes(inner) for inner in self.tree.calls)

    def _computes(self, call: cst.Call) -> bool:
        paths = self.resolver.public(call.func)
        if paths:
            return all(map(_measures, paths)) and not self._hands_on(call)
        is_own = any(isinstance(value, Function) for value in self.resolver.values(call.func))
        return is_own or method_called(call) in _TELLING_METHODS

    def _keeps(self, call: cst.Call) -> bool:
        """`norms.append(norm)`, of a list that the script writes out"""
        values = self.resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) else ()
        return bool(values) and all(isinstance(v, Literal) and isinstance(v.node, cst.List) for v in values)

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Whether it is a number of Python's, `float(tf.linalg.global_norm(gradients))`: it is no gradient any more,
        and what it steers is seen to by itself."""
        values = self.resolver.values(node)
        return bool(values) and all(isinstance(v, Result) and v.function in _NUMBERS for v in values)


def _measures(path: str) -> bool:
    return path.startswith(_MEASURING) and api.SETTING_FUNCTIONS.match(path) is None


def _is_no_object(value: Value) -> bool:
    """None, a number or a text, by which the model was called before it was made: `fit` would fail on it."""
    return value == External("builtins.None") or (isinstance(value, Literal) and is_constant(value.node))


def _names_backend(slices: Sequence[cst.SubscriptElement]) -> bool:
    """`os.environ["KERAS_BACKEND"]`"""
    first = slices[0].slice
    return isinstance(first, cst.Index) and _is_text(first.value, "KERAS_BACKEND")


def _is_text(node: cst.CSTNode, text: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value == text
