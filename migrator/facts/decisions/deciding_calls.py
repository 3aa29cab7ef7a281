"""Calls by which training goes on: what of their arguments settles how, and calls that decide it by all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence.regions import Regions
from migrator.facts.names import api
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.texts import Texts, acts
from migrator.facts.objects.values import Class, External, Function, Object, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import FunctionLike, Tree
from migrator.facts.randomness.draws import draws
from migrator.facts.training.sites import Training

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
_MAKING = re.compile(
    r"keras\.(?:models\.)?Model$|"
    r"keras\.(?:layers|regularizers|constraints|initializers|optimizers|losses)\.(?:\w+\.)*[A-Z]\w*$"
)
_SIZES = frozenset({"size", "shape", "k"})
# They ask a function when to stop, or how fast to go on.
_ASKING = ("itertools.takewhile", "itertools.dropwhile", "builtins.iter", "keras.callbacks.LearningRateScheduler")
_ASSERTING = re.compile(r"tensorflow\.(?:compat\.v1\.)?(?:debugging\.assert_\w+|(?:debugging\.)?Assert)$")
_EXITS = frozenset({"sys.exit", "os._exit"})


class DecidingCalls:
    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, locality: Locality, regions: Regions
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.locality = locality
        self.regions = regions
        self._texts = Texts(resolver)

    def settled_by(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
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
                for arg in call.args:
                    if arg.star == "**" or (arg.keyword is not None and arg.keyword.value in _LENGTHS):
                        yield arg.value
            if func.attr.value == "compile" and any(map(kinds.is_model, owners)):
                yield from self._compiled_with(call)
        makes = any(map(kinds.is_optimizer, self._given_back(call))) or _is_from_config(func)
        if makes or any(map(self._is_made_of_keras, self.resolver.values(call.func))):
            for arg in call.args:
                if arg.keyword is not None and arg.keyword.value == "name":
                    continue
                runs_on_samples = self._runs_on_samples(call, arg)
                if runs_on_samples and isinstance(arg.value, cst.Lambda):
                    yield from self._closed_over(arg.value)
                    continue
                if runs_on_samples and isinstance(arg.value, cst.Call) and self._makes_lambda(arg.value):
                    continue
                if runs_on_samples and isinstance(arg.value, cst.Attribute) and self._is_method(arg.value):
                    yield arg.value.value  # of which object it is, not what it will give
                    continue
                yield arg.value
                if not runs_on_samples:
                    yield from self._given_by(arg.value)
        elif self._calls_one_of(call, _ASKING):
            for arg in call.args:
                yield from self._given_by(arg.value)
        else:
            yield from self._counted_in(call)
            yield from self._drawn_by(call)

    def _compiled_with(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What scales the losses, which loss and optimizer these are, and what functions of the script that make the
        losses have from outside."""
        weights, loss = argument(call, "loss_weights", 3), argument(call, "loss", 1)
        if weights is not None:
            yield weights.value
        read = [arg.value for arg in (argument(call, "optimizer", 0), loss) if arg is not None]
        # What it is made of is looked at there, and what a lambda has from outside below.
        read = [node for node in read if not isinstance(node, (cst.Call, cst.Lambda))]
        functions = [*functions_in(self.resolver, loss.value)] if loss is not None else []
        for function in functions:
            names = [*self._closed_over(function)]
            read += names
            called = [v.node for name in names for v in self.resolver.values(name) if isinstance(v, Function)]
            functions += [each for each in dict.fromkeys(called) if each not in functions]
        for node in read:
            if self.locality.of(node) & (Mark.VALUE | Mark.INSIDE) == Mark.VALUE:  # else the loss may fill it itself
                yield node

    def _given_back(self, call: cst.Call) -> Iterator[Value]:
        """What the call gives, by the functions that it is seen to run, where these are all."""
        seen = self.locality.losses.run_at(call)
        if seen is None:
            yield from self.resolver.values(call)
        for function in seen or ():
            yield from (value for node in self.resolver.returned(function) for value in self.resolver.values(node))

    def _counted_in(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The number of rows of a worker, of which the call makes sure: it is said of all rows, and so is what it is
        compared with. Two numbers of rows may be compared where both are a worker's."""
        paths = self.resolver.public(call.func)
        if not any(map(_ASSERTING.match, paths)):
            return
        compared = call.args[: 1 if paths[0].endswith(".Assert") else 2]
        marks = {arg.value: self.locality.of(arg.value) for arg in compared}
        if sum(bool(mark & Mark.COUNT) for mark in marks.values()) == 1:
            yield from (value for value, mark in marks.items() if mark)

    def _drawn_by(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """How many numbers the call says that it draws, which settles those that come next; but for numbers of rows, by
        which a worker draws those of all."""
        if any(map(draws, self.resolver.values(call.func))):
            sizes = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value in _SIZES]
            yield from (size for size in sizes if self.locality.of(size) & ~(Mark.COUNT | Mark.WITHIN))

    def _makes_lambda(self, call: cst.Call) -> bool:
        """Whether the call gives one lambda, which reads nothing that is local but what it is called with."""
        values = self.resolver.values(call)
        made = values[0].node if len(values) == 1 and isinstance(values[0], Function) else None
        return isinstance(made, cst.Lambda) and not any(map(self.locality.of, self._closed_over(made)))

    def _is_made_of_keras(self, value: Value) -> bool:
        """Whether it is a class of layers, losses or the like, be it one of the script's own."""
        if isinstance(value, Class):
            return self.resolver.derives_from(value, lambda path: bool(_MAKING.match(path)))
        return isinstance(value, External) and bool(_MAKING.match(value.path))

    def _is_method(self, node: cst.Attribute) -> bool:
        """Whether the attribute is a method of the script's, which is not run where it is named."""
        values = self.resolver.values(node)
        is_run = bool(self.resolver.properties(node))
        return not is_run and bool(values) and all(isinstance(v, Function) for v in values)

    def _closed_over(self, function: FunctionLike) -> Iterator[cst.BaseExpression]:
        """What the function reads besides what it is called with, and what it has made of that."""
        for name in self.tree.names_in(function.body):
            if self.tree.is_read(name) and not any(
                self.tree.contains(function, b.node) for b in self.resolver.reaching(name)
            ):
                yield name

    def _runs_on_samples(self, call: cst.Call, arg: cst.Arg) -> bool:
        """Whether what is given is a loss, or what a layer does with its inputs (an activation), and not with its
        weights."""
        if self._calls_one_of(call, ("keras.layers.",)):
            return arg.keyword is None or not api.takes_weights(arg.keyword.value)
        return self._calls_one_of(call, ("keras.losses.",))

    def _calls_one_of(self, call: cst.Call, prefixes: tuple[str, ...]) -> bool:
        return any(name.startswith(prefixes) for name in self.resolver.public(call.func))

    def _given_by(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """What functions and objects of the script give whoever calls them."""
        for value in self.resolver.values(node):
            function: cst.FunctionDef | cst.Lambda | None = None
            if isinstance(value, Function):
                function = value.node
            elif isinstance(value, Object):
                function = self.resolver.method(value.of, "__call__")
            if function is not None:
                yield from self.resolver.returned_by_itself(function)

    def sets_weights(self, call: cst.Call) -> bool:
        """`self.model.set_weights(…)`, of a model that a library gives the script's object."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "set_weights":
            return False
        return not any(isinstance(v, Function) for v in self.resolver.values(call.func))

    def acts(self, call: cst.Call) -> bool:
        """Whether it runs a text that may do something with what is named there: `eval("rates.append(loss)")`."""
        function = self.tree.function_of(call)
        cls = self.tree.class_of(function) if function is not None and function.name.value == "call" else None
        if cls is not None and self.training.kinds.has_weights(Object(Class(cls))):
            return False  # a layer or model, which the losses follow: `eval(f"self.conv{i}(x)")`
        return any(acts(text) for node in self._texts.run_by(call) for text in self._texts.of(node))

    def decides(self, call: cst.Call) -> bool:
        """Whether training goes on by what the call is given: it seeds, ends the process, raises what is caught, or is
        one of Keras's callbacks, called by hand."""
        paths = set(self.resolver.public(call.func))
        if paths & (_SEEDS | _EXITS):
            return True
        if any("debugging." in path or path.startswith("numpy.testing.") for path in paths):
            return self._is_tried(call)
        owners = self.resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) else ()
        if any(calls(v).startswith("unittest.") for v in owners):
            return self._is_tried(call)
        return any(calls(v).startswith("keras.callbacks.") for v in owners)

    def _is_tried(self, call: cst.Call) -> bool:
        """Whether an exception of the call may be caught."""
        return any(
            self.tree.contains(reached, call) for body in self._tried for reached in self.training.reached_from(body)
        )

    @cached_property
    def _tried(self) -> list[cst.CSTNode]:
        return [*(node.body for node in self.tree.all_of(cst.Try) if node.handlers), *self.regions.caught_in]


def _is_from_config(func: cst.BaseExpression) -> bool:
    return isinstance(func, cst.Attribute) and func.attr.value == "from_config"
