"""Noise that a training step draws for as many rows as a number that is written out tells: `rng.randn(64, 100)`.

Nothing links the number to the size of the batches but that it is the same. So only what a model takes as its batch
under a tape counts: there the first axis is that of the samples, and they are trained on, not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.data.batch_shapes import BatchShapes, Made
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_DRAWN = re.compile(r"^(?:tensorflow|numpy|keras)\.random\.")
# They give the rows that they are given.
_SAME_ROWS = frozenset({
    "tensorflow.cast", "tensorflow.constant", "tensorflow.convert_to_tensor", "tensorflow.identity", "numpy.array",
    "numpy.asarray", "numpy.float32",
})  # fmt: skip
_MOST_STEPS = 40


class Noise:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, shapes: BatchShapes) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.kinds = training.kinds
        self.shapes = shapes

    def of(self, size: cst.Integer, bodies: Sequence[cst.CSTNode]) -> Iterator[Made]:
        """What is drawn for so many rows in the code that runs for each batch, as noise for a model."""
        for number in self.tree.all_of(cst.Integer):
            if number.evaluated_value != size.evaluated_value or not any(
                self.tree.contains(body, number) for body in bodies
            ):
                continue
            drawn = self.shapes.drawn_for(number, _DRAWN)
            if drawn is not None and self._is_batch_of_model(drawn):
                yield from (made for made in self.shapes.of(number, bodies[0]) or () if isinstance(made, Made))

    def _is_batch_of_model(self, drawn: cst.BaseExpression) -> bool:
        """Whether a model takes it first, and whole, under a tape."""
        queue: list[cst.BaseExpression] = [drawn]
        seen: set[cst.BaseExpression] = set()
        while queue and len(seen) < _MOST_STEPS:
            node = queue.pop()
            if node in seen:
                continue
            seen.add(node)
            owner = self.tree.parent[node]
            if isinstance(owner, cst.Arg):
                call = cst.ensure_type(self.tree.parent[owner], cst.Call)
                takes_it = call.args[0] is owner and any(map(self.kinds.has_weights, self.resolver.values(call.func)))
                if takes_it and any(self.tree.contains(body, call) for body in self._taped):
                    return True
            queue += self._same_rows(node, owner)
        return False

    @cached_property
    def _taped(self) -> list[cst.CSTNode]:
        """The code that runs under tapes."""
        blocks = [
            node.body
            for node in self.tree.all_of(cst.With)
            if any(self.kinds.is_tape(v) for item in node.items for v in self.resolver.values(item.item))
        ]
        return list(dict.fromkeys(body for block in blocks for body in self.training.reached_from(block)))

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
                    yield from self.shapes.loads_of_parameter(value, call, node)
