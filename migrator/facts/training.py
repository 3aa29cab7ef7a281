"""The sites that train: `fit` calls and updates, with what they train, on what and how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.gradients import GradientFlow, Gradients, sources_of
from migrator.facts.kinds import Kinds, is_call_of, origin
from migrator.facts.pipelines import Pipelines
from migrator.facts.resolve import Resolver, argument, imported_modules
from migrator.facts.tree import Tree, semantic_children
from migrator.facts.values import Class, External, Function, Literal, Member, Object, Result, Value

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
_OTHER_LIBRARIES = ("sklearn.", "xgboost.", "lightgbm.", "catboost.", "scipy.", "statsmodels.", "torch.")
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
_SEQUENCE_ENDS = frozenset(
    {"GlobalAveragePooling1D", "GlobalMaxPooling1D", "Flatten", "GlobalAvgPool1D", "GlobalMaxPool1D"}
)
_RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN", "RNN"})
_ASSIGNMENTS = frozenset({"assign", "assign_sub", "assign_add", "scatter_sub", "scatter_add"})
_WEIGHT_LISTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights", "get_weights"})


@dataclass(frozen=True, eq=False)
class Fit:
    """A call of a Keras model's `fit`."""

    call: cst.Call
    model: cst.BaseExpression
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class UnknownTraining:
    """A call that trains, of something that the script does not show."""

    call: cst.CSTNode
    reason: str
    advice: str


@dataclass(frozen=True, eq=False)
class Update:
    """A call that changes weights by gradients: `apply_gradients`, `apply`, or an assignment by hand."""

    call: cst.Call
    gradients: tuple[Gradients, ...]


@dataclass(frozen=True, eq=False)
class Consumption:
    """A place where training takes its batches from a dataset: the loop, or the `fit` call."""

    dataset: cst.BaseExpression
    reader: cst.For | cst.CompFor | cst.Call


class Training:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.flow = GradientFlow(tree, resolver, kinds)
        self.pipelines = Pipelines(tree, resolver, kinds)

    # -- fit -----------------------------------------------------------------------------------------------------

    def _methods(self, *names: str) -> Iterator[tuple[cst.Call, cst.Attribute]]:
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in names:
                yield call, call.func

    @cached_property
    def fits(self) -> list[Fit]:
        found = []
        for call, func in self._methods("fit"):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_model(v) for v in values) and not self._is_overridden(values, "fit"):
                found.append(Fit(call, func.value, values))
        return found

    def _is_overridden(self, values: tuple[Value, ...], name: str) -> bool:
        return any(isinstance(v, Object) and self.resolver.method(v.of, name) is not None for v in values)

    @cached_property
    def compiles(self) -> list[Fit]:
        """`compile` calls of models, with the model, as `fits` has them."""
        found = []
        for call, func in self._methods("compile"):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_model(v) for v in values):
                found.append(Fit(call, func.value, values))
        return found

    @cached_property
    def unknown(self) -> list[UnknownTraining]:
        return [
            *self._foreign_drivers(),
            *self._unknown_fits(),
            *self._unsupported_calls(),
            *self._lost_gradients(),
            *self._compiled_steps(),
            *self._masked_losses(),
        ]

    def _foreign_drivers(self) -> Iterator[UnknownTraining]:
        """Libraries that call `fit` themselves, where no argument of it can be reached."""
        for node in self.tree.imports:
            for module in imported_modules(node):
                if module.startswith(_DRIVERS):
                    yield UnknownTraining(
                        node,
                        f"models that `{module}` trains are fitted out of sight of this file",
                        "train the model with fit or a loop of your own",
                    )

    def _compiled_steps(self) -> Iterator[UnknownTraining]:
        """`tf.function(jit_compile=True)` around an update."""
        for call in self.tree.calls:
            jit = argument(call, "jit_compile") or argument(call, "experimental_compile")
            if jit is None or not isinstance(jit.value, cst.Name) or jit.value.value != "True":
                continue
            if External("tensorflow.function") in self.resolver.values(call.func) and self._compiles_update(call):
                yield UnknownTraining(
                    call, "a step compiled by XLA cannot hold the collectives", "leave jit_compile out of this step"
                )

    def _compiles_update(self, call: cst.Call) -> bool:
        owner = self.tree.parent.get(call)
        if isinstance(owner, cst.Decorator):
            functions: list[cst.CSTNode] = [self.tree.parent[owner]]
        else:
            functions = [v.node for v in self.resolver.values(call) if isinstance(v, Function)]
        bodies = [body for f in functions for body in self.reached_from(f)]
        return any(self.tree.contains(body, u.call) for body in bodies for u in self.updates)

    def _masked_losses(self) -> Iterator[UnknownTraining]:
        """A mask that reaches the loss makes it a mean over unmasked steps, of which each worker has another number."""
        paths = {v.path for call in self.tree.calls for v in self.resolver.values(call.func) if isinstance(v, External)}
        if not self.fits or any(p.rpartition(".")[2] in _SEQUENCE_ENDS for p in paths) or self._ends_recurrence():
            return
        for call in self.tree.calls:
            masks = argument(call, "mask_zero")
            is_masking = External("keras.layers.Masking") in self.resolver.values(call.func)
            if is_masking or (masks is not None and isinstance(masks.value, cst.Name) and masks.value.value == "True"):
                yield UnknownTraining(
                    call,
                    "the loss may be a mean over unmasked steps, of which each worker has another number",
                    "train without the mask, or weight the samples by yourself",
                )

    def _ends_recurrence(self) -> bool:
        """Whether a recurrent layer gives its last step only: no mask goes further."""
        for call in self.tree.calls:
            names = {v.path.rpartition(".")[2] for v in self.resolver.values(call.func) if isinstance(v, External)}
            if names & _RECURRENT and argument(call, "return_sequences") is None:
                return True
        return False

    def _unknown_fits(self) -> Iterator[UnknownTraining]:
        known = {fit.call for fit in self.fits}
        for call, func in self._methods("fit"):
            keywords = {arg.keyword.value for arg in call.args if arg.keyword is not None}
            values = self.resolver.values(func.value)
            if (
                call in known
                or _is_super(func.value)
                or not (keywords & _FIT_KEYWORDS or self._is_compiled(func.value))
            ):
                continue
            if self._is_overridden(values, "fit") or (values and all(_is_of_other_library(v) for v in values)):
                continue
            yield UnknownTraining(
                call,
                "this looks like Keras's `fit`, but what the model is cannot be seen here",
                "give the model a name of its own where it is built in this file, or port this call by hand",
            )

    def _is_compiled(self, receiver: cst.BaseExpression) -> bool:
        """Whether the same name is told to `compile`, as only Keras's models are."""
        return any(
            func.value.deep_equals(receiver) and not any(v == External("re") for v in self.resolver.values(func.value))
            for _, func in self._methods("compile")
        )

    def _unsupported_calls(self) -> Iterator[UnknownTraining]:
        for call, func in self._methods("fit_generator", "train_on_batch", "minimize"):
            values = self.resolver.values(func.value)
            name = func.attr.value
            foreign = bool(values) and all(_is_of_other_library(v) for v in values)
            own = any(isinstance(v, Function) for v in self.resolver.values(call.func))
            if not foreign and not own:
                yield UnknownTraining(
                    call,
                    f"training by `{name}` is not migrated yet",
                    "write the step with a GradientTape and apply_gradients, or train with fit",
                )

    def _lost_gradients(self) -> Iterator[UnknownTraining]:
        """Gradients of weights whose way to an update cannot be seen."""
        followed = {c for update in self.updates for g in update.gradients for c in g.tape_calls}
        for call in self.tree.calls:
            sources = sources_of(call)
            if call in followed or sources is None or not self.flow.is_tape_call(call):
                continue
            if self._lists_weights(sources) and not self._only_measured(call):
                yield UnknownTraining(
                    call,
                    "these gradients of weights reach no update that can be seen here",
                    "apply them in this file with optimizer.apply_gradients",
                )

    def _lists_weights(self, sources: cst.BaseExpression) -> bool:
        if isinstance(sources, (cst.List, cst.Tuple)):
            return any(self._lists_weights(e.value) for e in sources.elements)
        values = self.resolver.values(sources)
        listed = [v.node for v in values if isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Tuple))]
        if any(self._lists_weights(node) for node in listed if node is not sources):
            return True
        is_variable = any(self.kinds.is_variable(v) for v in values) and not self._is_input(sources)
        return is_variable or any(self._is_weights(v) for v in values)

    def _is_weights(self, value: Value) -> bool:
        return isinstance(value, Member) and value.name in _WEIGHT_LISTS

    def _only_measured(self, call: cst.Call) -> bool:
        """Whether the gradients are only looked at: given to nothing but functions of TensorFlow, numpy and Python."""
        for other in self.tree.calls:
            if any(isinstance(v, External) for v in self.resolver.values(other.func)) or self.flow.is_tape_call(other):
                continue
            if any(call in g.tape_calls for a in other.args for g in self.flow.sources(a.value)):
                return False
        sources = sources_of(call)
        names = {n.value for n in self.tree.names_in(sources)} if sources is not None else set()
        return not any(
            call in g.tape_calls  # `w = w - rate * gradient`
            for name in names
            for scope in self.tree.scopes.values()
            for binding in scope.bindings.get(name, ())
            if binding.kind in ("assign", "augmented") and binding.value is not None
            for g in self.flow.sources(binding.value)
        )

    # -- updates -------------------------------------------------------------------------------------------------

    @cached_property
    def updates(self) -> list[Update]:
        found = []
        for call, func in self._methods("apply_gradients", "apply"):
            if any(isinstance(v, Function) for v in self.resolver.values(call.func)):
                continue  # a method of the script's own: the call inside of it is the update
            if _is_super(func.value):
                continue
            gradients = [g for arg in call.args[:1] for g in self.flow.sources(arg.value)]
            is_optimizer = any(self.kinds.is_optimizer(v) for v in self.resolver.values(func.value))
            if func.attr.value == "apply" and not gradients and not is_optimizer:
                continue  # a dataset's or a pandas frame's
            found.append(Update(call, tuple(gradients)))
        found.extend(self._assignments())
        return [u for u in found if not self._optimises_input(u)]

    def _assignments(self) -> Iterator[Update]:
        for call, _ in self._methods(*_ASSIGNMENTS):
            gradients = [g for arg in call.args for g in self.flow.sources(arg.value)]
            if gradients:
                yield Update(call, tuple(gradients))

    def _optimises_input(self, update: Update) -> bool:
        """Style transfer, adversarial examples: the gradients move an image, not a model."""
        sources = [s for g in update.gradients for c in g.tape_calls if (s := sources_of(c)) is not None]
        return bool(sources) and all(self._is_input(s) for s in sources)

    def _is_input(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.List, cst.Tuple)):
            return bool(node.elements) and all(self._is_input(e.value) for e in node.elements)
        values = self.resolver.values(node)
        return bool(values) and all(
            self.kinds.is_variable(v) and _starts_from_data(cast(Result, v), self.resolver) for v in values
        )

    def step_class(self, update: Update) -> Class | None:
        """The model class in whose `train_step` the update stands: `fit` calls it, with batches of its own."""
        function = self.tree.function_of(update.call)
        while function is not None:
            cls = self.tree.class_of(function)
            if cls is not None and function.name.value == "train_step" and self.kinds.is_keras_model_class(Class(cls)):
                return Class(cls)
            callers = self.resolver.callers(function)
            outer = self.tree.function_of(callers[0]) if len(callers) == 1 else None
            function = outer if outer is not function else None
        return None

    def trains_by_itself(self, values: tuple[Value, ...]) -> bool:
        """Whether `fit` of these models runs a `train_step` of the script's own that applies the gradients."""
        classes = [cls for u in self.updates if (cls := self.step_class(u)) is not None]
        return any(isinstance(v, Object) and any(cls in self.resolver.lineage(v.of) for cls in classes) for v in values)

    # -- data ----------------------------------------------------------------------------------------------------

    def consumptions(self, update: Update) -> list[Consumption]:
        """The datasets whose batches reach the update: of the nearest loop over one, in each way to the call."""
        return list(self._consumptions(update.call, set()))

    def _consumptions(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Consumption]:
        found = list(self._around(node))
        if found:
            nearest = found[0].reader
            yield from (c for c in found if c.reader is nearest)  # `zip` reads several at once
            if isinstance(nearest, cst.For):
                yield from (c for c in self._next_calls(nearest) if self._feeds_training(cast(cst.Call, c.reader)))
            return
        function = self.tree.function_of(node)
        if function is None or function in seen:
            return
        for caller in self.resolver.callers(function):
            yield from self._consumptions(caller, seen | {function})

    def _around(self, node: cst.CSTNode) -> Iterator[Consumption]:
        """Loops over datasets around the node within its function, innermost first, then datasets read by `next`."""
        child = node
        loops: list[cst.CSTNode] = []
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
                break
            if isinstance(owner, cst.For) and child is owner.body:
                yield from self._reads(owner)
            if isinstance(owner, (cst.For, cst.While)):
                loops.append(owner)
            if isinstance(owner, (cst.ListComp, cst.GeneratorExp, cst.SetComp)) and child is owner.elt:
                yield from self._reads(owner.for_in)
            child = owner
        if loops:
            yield from self._next_calls(loops[-1])

    def _reads(self, loop: cst.For | cst.CompFor) -> Iterator[Consumption]:
        iterated = self.pipelines.core(loop.iter)
        if isinstance(iterated, cst.Call) and self._is_zip(iterated):
            for arg in iterated.args:
                core = self.pipelines.core(arg.value)
                if self.pipelines.is_dataset(core):
                    yield Consumption(core, loop)
        elif self.pipelines.is_dataset(iterated):
            yield Consumption(iterated, loop)

    def _is_zip(self, call: cst.Call) -> bool:
        return any(isinstance(v, External) and v.path == "builtins.zip" for v in self.resolver.values(call.func))

    def _next_calls(self, loop: cst.CSTNode) -> Iterator[Consumption]:
        for call in self.tree.calls:
            iterator = self._advanced(call)
            if iterator is not None and self.tree.contains(loop, call):
                for value in self.resolver.values(iterator):
                    if is_call_of(value, "builtins.iter"):
                        source = self.pipelines.core(cast(Result, value).call)
                        if self.pipelines.is_dataset(source):
                            yield Consumption(source, call)

    def _feeds_training(self, call: cst.Call) -> bool:
        """Whether what `next` gives is read under a tape or handed to a function that updates."""
        names = [b for bs in self.tree.scope_of(call).bindings.values() for b in bs if b.value is call]
        for binding in names:
            for name in self.tree.names[binding.name]:
                if binding in self.resolver.reaching(name) and (self._is_under_tape(name) or self._is_trained_on(name)):
                    return True
        return not names

    def _is_under_tape(self, node: cst.CSTNode) -> bool:
        return any(
            isinstance(owner, cst.With) and any(map(self.kinds.is_tape, self.resolver.values(item.item)))
            for owner in self.tree.ancestors(node)
            if isinstance(owner, cst.With)
            for item in owner.items
        )

    def _is_trained_on(self, node: cst.CSTNode) -> bool:
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.Call):
                bodies = self.reached_from(owner)
                if any(self.tree.contains(body, update.call) for body in bodies for update in self.updates):
                    return True
            if isinstance(owner, cst.BaseStatement):
                return False
        return False

    def _advanced(self, call: cst.Call) -> cst.BaseExpression | None:
        """The iterator of `next(iterator)` or `iterator.get_next()`."""
        if call.args and External("builtins.next") in self.resolver.values(call.func):
            return call.args[0].value
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "get_next":
            return call.func.value
        return None

    def reached_from(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The node and the bodies of all functions of the script that run when it runs."""
        bodies: list[cst.CSTNode] = [node]
        run_by: dict[cst.Call, list[cst.CSTNode]] = {}
        for function in self.tree.functions:
            for call in self.resolver.callers(function):
                run_by.setdefault(call, []).append(function)
        for body in bodies:
            for call, functions in run_by.items():
                if self.tree.contains(body, call):
                    bodies.extend(f for f in functions if f not in bodies)
        return bodies


def _is_super(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


def _is_of_other_library(value: Value) -> bool:
    """Whether an object is surely none of Keras's: scikit-learn's estimators have a `fit`, too."""
    return origin(value).startswith(_OTHER_LIBRARIES)


_INITIALISERS = re.compile(
    r"\.(?:random|initializers|truncated_normal|zeros|ones|fill|constant|eye|zeros_like|ones_like|randn|normal|uniform)\b"
)


def _starts_from_data(variable: Result, resolver: Resolver) -> bool:
    """Whether a tf.Variable begins as data (an image), and not as numbers, random ones or an initialiser's."""
    initial = next(
        (a.value for a in variable.call.args if a.keyword is None or a.keyword.value == "initial_value"), None
    )
    if initial is None or isinstance(initial, (cst.BaseNumber, cst.List, cst.Tuple, cst.Lambda)):
        return False
    values = resolver.values(initial)
    return (
        bool(values) and not any(_INITIALISERS.search(origin(v)) for v in values) and not _has_call(initial, resolver)
    )


def _has_call(node: cst.CSTNode, resolver: Resolver) -> bool:
    """Whether an initialiser is called anywhere in the expression (`0.1 * np.random.randn(3)`)."""
    if isinstance(node, cst.Call) and any(_INITIALISERS.search(origin(v)) for v in resolver.values(node)):
        return True
    return any(_has_call(child, resolver) for child in semantic_children(node))
