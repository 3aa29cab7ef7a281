"""Whether statements draw random numbers that what follows would draw otherwise.

Where the chief alone runs them, its generators run ahead of the others'. A generator that is made inside of the
statements, with its seed, draws for nobody else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Member, Result, Value, calls
from migrator.facts.program.syntax import argument, is_false
from migrator.facts.program.tree import Tree
from migrator.facts.randomness.chance import SHUFFLING_SOURCES, takes_random_state
from migrator.facts.randomness.draws import GENERATOR_MAKERS
from migrator.facts.training.sites import Training

_STATELESS = ("tensorflow.random.stateless_", "tensorflow.random.experimental.stateless_")


class Drawing:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, *, layers_draw_alike: bool = False
    ) -> None:
        """`layers_draw_alike`: whether the layers of models must draw the same on all workers, and keep the same."""
        self.layers_draw_alike = layers_draw_alike
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training

    def draws(self, statements: Iterable[cst.CSTNode]) -> bool:
        """Whether the statements, or the functions that they run, move a generator on that others draw from."""
        bodies = [body for statement in statements for body in self.training.reached_from(statement)]
        return any(self._moves(call, bodies) for call in self.tree.calls if self.tree.is_in(call, bodies)) or any(
            self._is_shuffled_anew(loop.iter) for loop in self._loops if self.tree.is_in(loop, bodies)
        )

    def _moves(self, call: cst.Call, bodies: Collection[cst.CSTNode]) -> bool:
        given = [v for arg in call.args for v in self.resolver.values(arg.value)]
        owners = [v.owner for v in self.resolver.values(call.func) if isinstance(v, Member)]
        return (
            any(self._is_common(call, name) for name in self.resolver.public(call.func))
            or any(self._is_of_others(v, bodies) for v in (*given, *owners))
            or any(self._is_shuffled_anew(arg.value) for arg in call.args)
            or (isinstance(call.func, cst.Attribute) and self._is_shuffled_anew(call.func.value) and _saves(call.func))
            or any(map(self._is_made, self.resolver.values(call)))
            or (self.layers_draw_alike and self._runs_layers_that_draw(call))
        )

    def _is_made(self, value: Value) -> bool:
        """Whether it is a layer, or a model of layers, that the call makes: Keras draws the seeds of its weights."""
        return isinstance(value, Result) and calls(value).startswith("keras.") and self.kinds.has_weights(value)

    def _runs_layers_that_draw(self, call: cst.Call) -> bool:
        """Whether it runs a model in the way of training: as it is told, or always, by layers that are told so where
        the model is made; or one whose layers go on from where they were."""
        if not self.training.runs_model(call):
            return False
        always = (made for made in self.tree.calls if isinstance(made.func, cst.Call))
        is_told = any(_is_on(each, "training") for each in (call, *always))
        return is_told or any(_is_on(each, "stateful") for each in self.tree.calls)

    @staticmethod
    def _is_common(call: cst.Call, path: str) -> bool:
        """Whether the function draws from a generator that all of the script has in common."""
        if path.startswith(api.DRAWS):
            return path not in GENERATOR_MAKERS and not path.startswith(_STATELESS)
        return takes_random_state(call, path)

    def _is_of_others(self, value: Value, bodies: Collection[cst.CSTNode]) -> bool:
        """Whether the value is a generator that is made outside."""
        return (
            isinstance(value, Result) and calls(value) in GENERATOR_MAKERS and not self.tree.is_in(value.call, bodies)
        )

    def _is_shuffled_anew(self, node: cst.BaseExpression) -> bool:
        """Whether whoever iterates over the dataset gets another order than the last one, and the next again."""
        return any(self.kinds.is_dataset(value) and _shuffles(value) for value in self.resolver.values(node))

    @cached_property
    def _loops(self) -> list[cst.For | cst.CompFor]:
        return self.tree.all_of(cst.For, cst.CompFor)


def _saves(method: cst.Attribute) -> bool:
    """Whether it goes through the dataset that it is a method of."""
    return method.attr.value in ("save", "reduce", "get_single_element")


def _is_on(call: cst.Call, flag: str) -> bool:
    """`dropout(x, training=True)`"""
    given = argument(call, flag)
    return given is not None and not _is_off(given)


def _shuffles(value: Value) -> bool:
    while isinstance(value, Result):
        if not isinstance(value.function, Member):
            return calls(value) in SHUFFLING_SOURCES and not _is_off(argument(value.call, "shuffle"))
        anew = argument(value.call, "reshuffle_each_iteration", 2)
        if value.function.name == "shuffle" and not _is_off(anew):
            return True
        value = value.function.owner
    return False


def _is_off(given: cst.Arg | None) -> bool:
    return given is not None and is_false(given.value)
