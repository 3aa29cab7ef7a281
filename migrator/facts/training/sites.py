"""The sites that train: `fit` calls and updates, with what they train, on what and how."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.unwritten import Unwritten
from migrator.facts.objects.values import Class, External, Function, Object, Result, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree, semantic_children
from migrator.facts.program.unnamed import Unnamed
from migrator.facts.training.accumulators import Accumulators
from migrator.facts.training.gradients import GradientFlow, Gradients, reduced_once, sources_of
from migrator.facts.training.own_steps import OwnSteps
from migrator.facts.training.unrun import unrun
from migrator.records import dataclass
from migrator.worklist import Worklist

_GRAPH_MAKER = External("tensorflow.function")
# Tensors, which nothing changes in place.
_ZEROS = frozenset({"keras.backend.zeros_like", "keras.ops.zeros", "keras.ops.zeros_like", "tensorflow.zeros",
                    "tensorflow.zeros_like"})  # fmt: skip
# Methods of optimizers that Keras calls for each variable, in its several generations.
_OF_ONE_VARIABLE = ("update_step", "_resource_apply_dense", "_resource_apply_sparse")


@dataclass(frozen=True, eq=False)
class Fit:
    """A call of a Keras model's `fit`, `train_on_batch` or `compile`."""

    call: cst.Call
    model: cst.BaseExpression
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Update:
    """A call that changes weights by gradients: `apply_gradients`, `apply`, or an assignment by hand."""

    call: cst.Call
    gradients: tuple[Gradients, ...]


@dataclass(frozen=True, eq=False)
class Minimization(Update):
    """`optimizer.minimize(loss, variables)`: the optimizer computes the gradients by itself."""

    optimizer: cst.BaseExpression
    loss: cst.BaseExpression | None
    variables: cst.BaseExpression | None


class Training:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.flow = GradientFlow(tree, resolver, kinds)
        self._accumulators = Accumulators(tree, resolver, self.flow)
        self._unnamed = Unnamed(tree)
        self._own_steps = OwnSteps(tree, resolver)

    # -- fit -----------------------------------------------------------------------------------------------------

    def methods(self, *names: str) -> Iterator[tuple[cst.Call, cst.Attribute]]:
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in names:
                yield call, call.func

    @cached_property
    def fits(self) -> list[Fit]:
        return list(self._model_calls("fit"))

    @cached_property
    def batch_fits(self) -> list[Fit]:
        """`train_on_batch` calls: each one step on a batch that the script makes."""
        return list(self._model_calls("train_on_batch"))

    def _model_calls(self, name: str) -> Iterator[Fit]:
        for call, func in self.methods(name):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_model(v) for v in values) and not self.is_overridden(values, name):
                yield Fit(call, func.value, values)

    @property
    def sites(self) -> list[cst.Call]:
        """All calls that train."""
        return [f.call for f in (*self.fits, *self.batch_fits)] + [u.call for u in self.updates]

    @cached_property
    def unrun(self) -> list[cst.FunctionDef]:
        """The functions that nothing runs, of those that train nothing."""
        return [function for function in unrun(self.tree, self.resolver, self._unnamed) if not self.is_within(function)]

    def is_overridden(self, values: tuple[Value, ...], name: str) -> bool:
        return any(isinstance(v, Object) and self.resolver.method(v.of, name) is not None for v in values)

    @cached_property
    def compiles(self) -> list[Fit]:
        """`compile` calls of models, with the model, as `fits` has them; of a model with a `compile` of its own, the
        call of Keras's that stands in it."""
        found: dict[cst.Call, Fit] = {}
        for call, func in self.methods("compile"):
            values = self._models_at(func.value)
            if any(self.kinds.is_model(v) for v in values):
                inner = self._compile_of_keras(call)
                known = found.get(inner)
                found[inner] = Fit(inner, func.value, tuple(dict.fromkeys((*(known.values if known else ()), *values))))
        return list(found.values())

    @property
    def unseen_compiles(self) -> Iterator[cst.Call]:
        """The calls of `compile` in callbacks of which the model is not seen, with an optimizer that is not the
        runtime's."""
        seen = {compile_.call for compile_ in self.compiles}
        for cls in self.tree.all_of(cst.ClassDef):
            if not self.resolver.derives_from(Class(cls), _is_callback):
                continue
            for body in self.reached_from(cls.body):
                for call, func in self.methods("compile"):
                    if call not in seen and self.tree.contains(body, call) and self._takes_optimizer(call, func):
                        seen.add(call)
                        yield call

    def _takes_optimizer(self, call: cst.Call, func: cst.Attribute) -> bool:
        """Whether it is given an optimizer, or the name of one, which is not the runtime's."""
        given = argument(call, "optimizer", 0)
        if given is None or is_super(func.value):
            return False
        if isinstance(given.value, cst.BaseString):
            is_of_library = any(isinstance(v, External) for v in self.resolver.values(func))  # `re.compile`
            return not is_of_library and argument(call, "loss", 1) is not None
        values = self.resolver.values(given.value)
        return any(self.kinds.is_optimizer(v) and not self.kinds.is_distributed_optimizer(v) for v in values)

    def _models_at(self, node: cst.BaseExpression) -> tuple[Value, ...]:
        """What the expression may be; of the `self.model` of a callback, and of a name that gets it, all models that
        Keras trains."""
        values = self.resolver.values(node)
        if any(map(self.kinds.is_model, values)):
            return values
        queue = Worklist([node])
        for here in queue:
            if self.is_model_of_callback(here):
                trained = (value for fit in (*self.fits, *self.batch_fits) for value in fit.values)
                return tuple(dict.fromkeys(trained))
            queue += self._given_to(here) if isinstance(here, cst.Name) else []
        return ()

    def _given_to(self, name: cst.Name) -> list[cst.BaseExpression]:
        """What the name is another name of: of a parameter, what the function is called with."""
        found: list[cst.BaseExpression] = []
        for binding in self.resolver.reaching(name):
            if binding.kind == "param":
                found += self.resolver.given(cast(cst.Param, binding.node))
            elif binding.kind == "assign" and not binding.path and isinstance(binding.value, cst.BaseExpression):
                found.append(binding.value)
        return found

    def runs_model(self, call: cst.Call) -> bool:
        """`model(x)`, `model.predict(x)`, `self.model.evaluate(x)` in a callback"""
        func = call.func
        run = func.value if isinstance(func, cst.Attribute) and func.attr.value in api.INFERENCE else func
        return any(map(self.kinds.has_weights, self.resolver.values(run))) or self.is_model_of_callback(run)

    def is_model_of_callback(self, node: cst.CSTNode) -> bool:
        """`self.model` in a class of callbacks"""
        if not isinstance(node, cst.Attribute) or node.attr.value != "model":
            return False
        owners = self.resolver.values(node.value)
        return any(isinstance(v, Object) and self.resolver.derives_from(v.of, _is_callback) for v in owners)

    def _compile_of_keras(self, call: cst.Call) -> cst.Call:
        """The one `super().compile(…)` of the method that is called; the call itself where there is no such one."""
        functions = [v.node for v in self.resolver.values(call.func) if isinstance(v, Function)]
        inner = [c for c, func in self.methods("compile") for f in functions
                 if is_super(func.value) and self.tree.contains(f, c)]  # fmt: skip
        if len(functions) != 1 or len(inner) != 1 or not isinstance(functions[0].body, cst.BaseSuite):
            return call
        return inner[0] if self.tree.statement_of(inner[0]) in functions[0].body.body else call

    def compiles_of(self, values: Iterable[Value]) -> list[Fit]:
        """The `compile` calls of what may be the model that these values are; within its class a model is known by
        the class alone."""
        mine = {_identity(v) for v in values}
        return [c for c in self.compiles if mine & {_identity(v) for v in c.values}]

    # -- updates -------------------------------------------------------------------------------------------------

    @cached_property
    def updates(self) -> list[Update]:
        found: list[Update] = []
        for call, func in self.methods("apply_gradients", "apply"):
            functions = [v.node for v in self.resolver.values(call.func) if isinstance(v, Function)]
            if not all(map(self._takes_reduced, functions)):
                continue  # a method of the script's own: the call inside of it is the update
            if is_super(func.value):
                continue
            gradients = [g for arg in call.args[:1] for g in self.flow.sources(arg.value)]
            if not any(g.tape_calls for g in gradients):
                sums = [g for arg in call.args[:1] for g in self._accumulators.read_in(arg.value)]
                gradients = self._where_rows_weigh(sums) or gradients
            is_optimizer = any(self.kinds.is_optimizer(v) for v in self.resolver.values(func.value))
            if func.attr.value == "apply" and not gradients and not is_optimizer:
                continue  # a dataset's or a pandas frame's
            found.append(Update(call, tuple(gradients)))
        found.extend(self._assignments())
        apart = reduced_once([u.gradients for u in found])
        found = [Update(u.call, gradients) for u, gradients in zip(found, apart)]
        found.extend(self._minimizations())
        found = [u for u in found if not self._optimises_input(u) and not self._applies_zeros(u)]
        run = [u for u in found if not self.is_never_run(u.call)]
        return run if run or self.fits or self.batch_fits else found

    def _where_rows_weigh(self, sums: Iterable[Gradients]) -> list[Gradients]:
        """The sums of gradients over several steps; of those in a step that `fit` runs, what goes into them: there
        gradients count as many rows as a worker has in that step, which the sums do not know."""
        found: list[Gradients] = []
        for g in sums:
            is_sum = self._accumulators.are_sums(g) and not g.is_reduced
            found += g.inner if is_sum and any(map(self._is_run_by_fit, g.tape_calls)) else (g,)
        return found

    def _is_run_by_fit(self, call: cst.Call) -> bool:
        return self.tree.is_in(call, self._run_by_fit)

    @cached_property
    def _run_by_fit(self) -> list[cst.CSTNode]:
        """All that a `train_step` of the script's own does, where `fit` may call it."""
        steps = (method for cls in self.tree.classes if self.kinds.is_keras_model_class(Class(cls))
                 if (method := self.resolver.method(Class(cls), "train_step")) is not None)  # fmt: skip
        run = filter(self._own_steps.is_run_by_fit, dict.fromkeys(steps))
        return [body for method in run for body in self.reached_from(method)]

    @cached_property
    def keras_steps(self) -> list[cst.Call]:
        """`super().train_step(…)`, which hands a batch on to the step of a class before, of Keras's at the end."""
        return [call for call, func in self.methods("train_step") if is_super(func.value)]

    @cached_property
    def handed_to_keras(self) -> list[cst.Call]:
        """`super().apply_gradients(…)` in an optimizer of the script's own, which is given those of all workers, and
        what it does with the gradient of one variable."""
        return [
            call
            for call, func in self.methods("apply_gradients", "apply", *_OF_ONE_VARIABLE)
            if is_super(func.value) and (method := self.tree.function_of(call)) and self._takes_reduced(method)
        ]

    def _takes_reduced(self, function: cst.CSTNode) -> bool:
        """Whether it is a method of an optimizer of the script's own that takes gradients of all workers, as Keras's
        do: it reduces none itself."""
        cls = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if cls is None or not self.resolver.derives_from(Class(cls), api.is_optimizer_class):
            return False
        bodies = self.reached_from(function)
        calls_inside = (call for call in self.tree.calls if self.tree.is_in(call, bodies))
        values = (v for call in calls_inside for v in self.resolver.values(call.func))
        return not any(isinstance(v, External) and vocabulary.has_role(v.path, Role.REDUCE) for v in values)

    def computed(self, update: Update) -> cst.BaseExpression | None:
        """`values` of `apply_gradients(zip(values, variables))`, where no tape is seen that takes them: means or sums
        of what a script has made of each sample."""
        pairs = update.call.args[0].value if update.call.args and not update.gradients else None
        if not isinstance(pairs, cst.Call) or len(pairs.args) != 2 or isinstance(update, Minimization):
            return None
        return pairs.args[0].value if External("builtins.zip") in self.resolver.values(pairs.func) else None

    def _applies_zeros(self, update: Update) -> bool:
        """Whether nothing but zeros is applied, so that the optimizer makes its variables, say for a checkpoint that is
        restored into them: no batch is trained on, and all workers do the same."""
        values = self.computed(update)
        while isinstance(values, cst.Name):
            bindings = self.resolver.reaching(values)
            if len(bindings) != 1 or bindings[0].kind != "assign" or bindings[0].path or not self._is_zipped(values):
                return False
            values = cast("cst.BaseExpression | None", bindings[0].value)
        if not isinstance(values, (cst.ListComp, cst.GeneratorExp)) or not isinstance(values.elt, cst.Call):
            return False
        made = self.resolver.public_alone(values.elt.func)
        return bool(made) and set(made) <= _ZEROS

    def _is_zipped(self, name: cst.Name) -> bool:
        """Whether the list has no other name, by which its elements may be changed: nothing takes it but `zip`."""
        variable = self.resolver.variable(name)
        takers = [
            self.tree.parent[arg] if isinstance(arg := self.tree.parent[read], cst.Arg) else None
            for read in (self.resolver.reads_of(variable) if variable is not None else ())
        ]
        return bool(takers) and all(
            isinstance(t, cst.Call) and self.resolver.public_alone(t.func) == ["builtins.zip"] for t in takers
        )

    @cached_property
    def traced_bodies(self) -> list[cst.CSTNode]:
        """What runs while a `tf.function` is traced."""
        functions: dict[cst.CSTNode, None] = {}
        for decorator in self.tree.all_of(cst.Decorator):
            made = decorator.decorator
            if _GRAPH_MAKER in self.resolver.values(made.func if isinstance(made, cst.Call) else made):
                functions.setdefault(self.tree.parent[decorator])
        for call in self.tree.calls:
            if call.args and _GRAPH_MAKER in self.resolver.values(call.func):
                given = self.resolver.values(call.args[0].value)
                functions.update((value.node, None) for value in given if isinstance(value, Function))
        return [body for function in functions for body in self.reached_from(function)]

    def is_never_run(self, call: cst.Call) -> bool:
        """Whether the call stands in a function that nothing in the program names: beside others, it trains nothing."""
        owners = [o for o in self.tree.ancestors(call) if isinstance(o, (cst.FunctionDef, cst.ClassDef))]
        function = owners[-1] if owners else None
        if not isinstance(function, cst.FunctionDef) or any(map(self._may_keep, function.decorators)):
            return False
        return self._unnamed.is_unnamed(function)

    def _may_keep(self, decorator: cst.Decorator) -> bool:
        """Whether the decorator may hand the function on to somebody."""
        made = decorator.decorator
        values = self.resolver.values(made.func if isinstance(made, cst.Call) else made)
        return not values or any(v != _GRAPH_MAKER for v in values)

    def _assignments(self) -> Iterator[Update]:
        for call, func in self.methods(*api.SETTING_VARIABLES, "set_weights"):
            # A search sets weights for the sake of their loss, and looks for others by that.
            is_search = func.attr.value == "set_weights" and self.tree.is_in(call, self.taped)
            if is_search or self._accumulators.holds(func.value):
                continue
            gradients = [g for arg in call.args for g in self.flow.sources(arg.value)]
            if any(g.tape_calls for g in gradients):  # not a loss that is averaged: `rate.assign(1 / loss)`
                yield Update(call, tuple(gradients))

    def _minimizations(self) -> Iterator[Update]:
        for call, func in self.methods("minimize"):
            values = self.resolver.values(func.value)
            if any(self.kinds.is_optimizer(v) for v in values):
                position = 2 if any(api.is_v1_optimizer(calls(v)) for v in values) else 1
                given = (argument(call, "loss", 0), argument(call, "var_list", position))
                loss, variables = (arg.value if arg is not None else None for arg in given)
                yield Minimization(call, (), func.value, loss, variables)

    def _optimises_input(self, update: Update) -> bool:
        """Style transfer, adversarial examples: the gradients move an image, not a model."""
        sources = [s for g in update.gradients for c in g.tape_calls if (s := sources_of(c)) is not None]
        if isinstance(update, Minimization) and update.variables is not None:
            sources = [update.variables]
        return bool(sources) and all(self.is_input(s) for s in sources)

    def is_input(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.List, cst.Tuple)):
            return bool(node.elements) and all(self.is_input(e.value) for e in node.elements)
        values = self.resolver.values(node)
        return bool(values) and all(
            self.kinds.is_variable(v) and _starts_from_data(cast(Result, v), self.resolver) for v in values
        )

    def step_class(self, update: Update) -> Class | None:
        """The model class in whose `train_step` the update stands, or its gradients are taken: `fit` calls it, with
        batches of its own."""
        calls_made = [update.call, *(c for g in update.gradients for c in g.tape_calls)]
        return next((cls for call in calls_made if (cls := self._stepping(call)) is not None), None)

    def _stepping(self, call: cst.Call) -> Class | None:
        function = self.tree.function_of(call)
        passed = set()
        while function is not None and function not in passed:
            passed.add(function)
            cls = self.tree.class_of(function)
            if cls is not None and self._is_step_of_fit(function, Class(cls)):
                return Class(cls)
            callers = self.resolver.callers(function)
            if len(callers) > 1:
                return None
            # What no call shows is handed on by the function that it stands in: `tf.cond(is_full, step, skip)`.
            function = self.tree.function_of(callers[0] if callers else function)
        return None

    def _is_step_of_fit(self, function: cst.FunctionDef, cls: Class) -> bool:
        is_step = function.name.value == "train_step" and self.kinds.is_keras_model_class(cls)
        return is_step and self._own_steps.is_run_by_fit(function)

    def trains_by_itself(self, values: tuple[Value, ...]) -> bool:
        """Whether `fit` of these models runs a `train_step` of the script's own that applies the gradients."""
        classes = [cls for u in self.updates if (cls := self.step_class(u)) is not None]
        return any(isinstance(v, Object) and any(cls in self.resolver.lineage(v.of) for cls in classes) for v in values)

    def is_within(self, node: cst.CSTNode) -> bool:
        """Whether something trains when the node runs."""
        bodies = self.reached_from(node)
        return any(self.tree.contains(body, site) for body in bodies for site in self.sites)

    def reached_from(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The node and the bodies of all functions of the script that run when it runs."""
        bodies: dict[cst.CSTNode, None] = {node: None}
        queue = [node]
        while queue:
            body = queue.pop(0)
            start = bisect_left(self._calls_run, (self.tree.order[body], -1))
            for i in range(start, len(self._calls_run)):
                order, function = self._calls_run[i]
                if order > self.tree.last_order_in(body):
                    break
                node = self.tree.functions[function]
                if node not in bodies:
                    bodies[node] = None
                    queue.append(node)
        return list(bodies)

    def tape_of(self, call: cst.Call) -> cst.CSTNode | None:
        """The `with` statement of the tape that the call asks."""
        tape = call.func.value if isinstance(call.func, cst.Attribute) else None
        bindings = self.resolver.reaching(tape) if isinstance(tape, cst.Name) else []
        places = {self.tree.statement_of(b.node) for b in bindings}
        only = places.pop() if len(places) == 1 else None
        return only if isinstance(only, cst.With) else None

    def goes_through_gradients(self, call: cst.Call) -> bool:
        """Whether the tape that the call asks may have watched how another one takes gradients."""
        tape = self.tape_of(call)
        bodies = self.run_by(tape) if tape is not None else []
        asked = [c for body in bodies for c in self.tree.calls if self.tree.contains(body, c)]
        return tape is None or any(self.flow.is_tape_call(c) and self.tape_of(c) is not tape for c in asked)

    def is_watched(self, call: cst.Call) -> bool:
        """Whether a tape that stands around the call watches how it takes the gradients of another one."""
        own = self.tape_of(call)
        return own is not None and any(n in self.tapes and n is not own for n in self.tree.ancestors(call))

    @cached_property
    def tapes(self) -> list[cst.With]:
        """The blocks of gradient tapes."""
        return [
            block
            for block in self.tree.all_of(cst.With)
            if any(self.kinds.is_tape(v) for item in block.items for v in self.resolver.values(item.item))
        ]

    @cached_property
    def taped(self) -> list[cst.CSTNode]:
        """The code that runs under tapes."""
        return list(dict.fromkeys(body for tape in self.tapes for body in self.reached_from(tape.body)))

    def run_by(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """The same, with the lambdas that are called there by a name."""
        bodies = dict.fromkeys(self.reached_from(node))
        for body in list(bodies):
            calls = [call for call in self.tree.calls if self.tree.contains(body, call)]
            called = [v.node for call in calls for v in self.resolver.values(call.func) if isinstance(v, Function)]
            lambdas = [node for node in called if isinstance(node, cst.Lambda)]
            bodies.update(dict.fromkeys(each for node in lambdas for each in self.reached_from(node.body)))
        return list(bodies)

    @cached_property
    def _calls_run(self) -> list[tuple[int, int]]:
        """Calls, by their order, with the number of the function that they run; and what runs one without a call."""
        found = [
            (self.tree.order[call], number)
            for number, function in enumerate(self.tree.functions)
            for call in (*self.resolver.callers(function), *self.resolver.run_by_partials(function))
        ]
        numbers = {function: number for number, function in enumerate(self.tree.functions)}
        unwritten = Unwritten(self.tree, self.resolver).runs()
        found += [(self.tree.order[node], numbers[function]) for node, function in unwritten if function in numbers]
        return sorted(found)


def _identity(value: Value) -> object:
    return value.of if isinstance(value, Object) else value


def _is_callback(path: str) -> bool:
    return path.startswith("keras.callbacks.")


def is_super(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "super"


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
