"""What a training step makes for as many rows as a number that is written out tells: `rng.randn(64, 100)`.

Nothing links the number to the size of the batches but that it is the same. So noise only counts where a model takes it
as its batch under a tape: there the first axis is that of the samples, and they are trained on, not looked at. Zeros
and ones count as first states of recurrent layers, whose first axis is that of the samples, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.data.batch_shapes import BatchShapes, Made
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Object, calls
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_DRAWN = re.compile(r"^(?:tensorflow|numpy|keras)\.random\.")
_FILLED = re.compile(r"^(?:tensorflow|numpy|keras\.ops|keras\.backend)\.(?:zeros|ones)$")
_RECURRENT = re.compile(r"^keras\.layers\.(?:RNN|GRU|LSTM|SimpleRNN|Bidirectional|ConvLSTM[123]D|\w*Cell)$")
_STATES = ("initial_state", "states")
# They give the rows that they are given.
_SAME_ROWS = frozenset({
    "tensorflow.cast", "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.identity", "numpy.array",
    "numpy.asarray", "numpy.float32",
})  # fmt: skip
_MOST_STEPS = 40
# An expression, and the place in it where it is a tuple or list that holds the rows beside others.
_Held = tuple[cst.BaseExpression, "int | None"]


class Noise:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, shapes: BatchShapes) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.kinds = training.kinds
        self.shapes = shapes

    def of(self, size: cst.Integer, bodies: Sequence[cst.CSTNode]) -> Iterator[Made]:
        """What is made for so many rows for the code that runs for each batch: noise for a model, first states."""
        for number in self.tree.all_of(cst.Integer) if bodies else ():
            if number.evaluated_value != size.evaluated_value or number is size:
                continue
            drawn = self.shapes.drawn_for(number, _DRAWN)
            if drawn is None:
                yield from self._states(number, bodies[0])
            elif self.tree.is_in(number, bodies) and self._is_batch_of_model(drawn):
                yield from (made for made in self.shapes.of(number, bodies[0]) or () if isinstance(made, Made))

    def _states(self, number: cst.Integer, body: cst.CSTNode) -> list[Made]:
        """What is made of the number, where all of that are first states, or what generators make for a model."""
        filled = self.shapes.drawn_for(number, _FILLED)
        if filled is None and not self._is_given(number):
            return []
        found = self.shapes.of(number, body) or []
        states = [
            made
            for made in found
            if isinstance(made, Made)
            and (self._is_first_state(made.node) or (self._is_next(made.node) and self._is_batch_of_model(made.node)))
        ]
        return states if len(states) == len(found) else []

    def _is_next(self, made: cst.BaseExpression) -> bool:
        return isinstance(made, cst.Call) and self.resolver.public_alone(made.func) == ["builtins.next"]

    def _is_given(self, number: cst.Integer) -> bool:
        """Whether a function or class of the script is given it."""
        owner = self.tree.parent[number]
        call = self.tree.parent[owner] if isinstance(owner, cst.Arg) else None
        values = self.resolver.values(call.func) if isinstance(call, cst.Call) else ()
        return bool(values) and all(isinstance(v, (Function, Class)) for v in values)

    def _is_first_state(self, made: cst.BaseExpression) -> bool:
        return any(self._is_state(node) for node in self._followed(made))

    def _is_state(self, node: cst.BaseExpression) -> bool:
        """Whether a recurrent layer takes it as its state, or as its several ones."""
        owner = self.tree.parent[node]
        call = self.tree.parent[owner] if isinstance(owner, cst.Arg) else None
        if not isinstance(call, cst.Call) or not isinstance(owner, cst.Arg):
            return False
        is_second = len(call.args) > 1 and call.args[1] is owner and owner.keyword is None and not owner.star
        if not is_second and (owner.keyword is None or owner.keyword.value not in _STATES):
            return False
        values = self.resolver.values(call.func)
        return bool(values) and all(_RECURRENT.match(calls(v)) for v in values)

    def _is_batch_of_model(self, drawn: cst.BaseExpression) -> bool:
        """Whether a model takes it first, and whole, under a tape."""
        for node in self._followed(drawn):
            owner = self.tree.parent[node]
            if isinstance(owner, cst.Arg):
                call = cst.ensure_type(self.tree.parent[owner], cst.Call)
                takes_it = call.args[0] is owner and any(map(self.kinds.has_weights, self.resolver.values(call.func)))
                if takes_it and self.tree.is_in(call, self.training.taped):
                    return True
        return False

    def _followed(self, made: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions that hold these rows, by themselves or beside others."""
        queue: list[_Held] = [(made, None)]
        seen: set[_Held] = set()
        while queue and len(seen) < _MOST_STEPS:
            held = queue.pop()
            if held not in seen:
                seen.add(held)
                yield held[0]
                queue += self._held_in(*held)

    def _held_in(self, node: cst.BaseExpression, place: int | None) -> Iterator[_Held]:
        owner = self.tree.parent[node]
        display = self.tree.parent[owner] if isinstance(owner, cst.Element) else None
        target = owner.targets[0].target if isinstance(owner, cst.Assign) and len(owner.targets) == 1 else None
        function = self.tree.function_of(owner) if isinstance(owner, cst.Return) else None
        if isinstance(display, (cst.List, cst.Tuple)) and place is None:
            yield display, next(i for i, element in enumerate(display.elements) if element is owner)
        elif isinstance(target, (cst.List, cst.Tuple)) and place is not None:
            if place < len(target.elements) and not any(isinstance(e, cst.StarredElement) for e in target.elements):
                yield from ((load, None) for load in self.shapes.loads_of(target.elements[place].value))
        elif function is not None:
            yield from ((call, place) for call in self.resolver.callers(function))
        else:
            yield from ((same, place) for same in self._same_rows(node, owner))

    def _same_rows(self, node: cst.BaseExpression, owner: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """What else holds these rows: a name, a parameter, the array in another type."""
        if isinstance(owner, cst.Attribute) and owner.attr.value in ("astype", "copy"):
            call = self.tree.parent[owner]
            if isinstance(call, cst.Call) and call.func is owner:
                yield call
        elif isinstance(owner, cst.Assign) and len(owner.targets) == 1:
            yield from self.shapes.loads_of(owner.targets[0].target)
        elif isinstance(owner, cst.Arg):
            call = cst.ensure_type(self.tree.parent[owner], cst.Call)
            for value in self.resolver.values(call.func):
                if isinstance(value, External) and value.path in _SAME_ROWS and call.args[0] is owner:
                    yield call
                elif isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
                    yield from self.shapes.loads_of_parameter(value, node)
                elif isinstance(value, Object) and self.kinds.has_weights(value):
                    method = self.resolver.method(value.of, "call")
                    yield from self.shapes.loads_of_parameter(Function(method), node) if method else ()
