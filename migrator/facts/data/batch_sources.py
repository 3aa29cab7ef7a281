"""What hands out batches without being a tf.data pipeline: Keras Sequences, image generators, Python generators."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.rows import RowFinder
from migrator.facts.names import api
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Object, Result, Value, calls
from migrator.facts.program.syntax import argument, is_false
from migrator.facts.program.tree import Tree

_SEQUENCES = frozenset({
    "keras.utils.Sequence", "keras.utils.PyDataset", "keras.utils.data_utils.Sequence",
    "keras.utils.all_utils.Sequence",
})  # fmt: skip
_WINDOWS = "keras.preprocessing.sequence.TimeseriesGenerator"
_FLOWS = frozenset({"flow", "flow_from_directory", "flow_from_dataframe"})
_IMAGE_GENERATORS = ("keras.preprocessing.image.ImageDataGenerator", "keras.legacy.preprocessing.image.")
# They draw from generators that all of a process's threads share.
_SHARED_RANDOMNESS = ("numpy.random.", "random.")
_OWN_GENERATORS = api.NUMPY_GENERATORS | {"random.Random"}
_ADVICE = "draw from a generator of its own with a fixed seed (np.random.default_rng(0))"


class BatchSources:
    def __init__(self, tree: Tree, resolver: Resolver, rows: RowFinder) -> None:
        self.tree = tree
        self.resolver = resolver
        self.rows = rows
        self.generators = rows.generators

    def is_source(self, node: cst.BaseExpression) -> bool:
        """Whether `fit` takes its batches from this one by one: it is no array and no dataset."""
        return self.is_sequence(node) or bool(self.generators.of(node)) or bool(self._generator_expressions(node))

    def _generator_expressions(self, node: cst.BaseExpression) -> list[cst.GeneratorExp]:
        literals = [v.node for v in self.resolver.values(node) if isinstance(v, Literal)]
        return [made for made in literals if isinstance(made, cst.GeneratorExp)]

    def is_sequence(self, node: cst.BaseExpression) -> bool:
        """A Keras Sequence (PyDataset) of the script's own, what an image generator's `flow` gives, or the windows of a
        series, one after the other."""
        return any(self._is_sequence(v) or _is_flow(v) or _are_windows(v) for v in self.resolver.values(node))

    def _is_sequence(self, value: Value) -> bool:
        return isinstance(value, Object) and self.is_sequence_class(value.of)

    def is_sequence_class(self, cls: Class) -> bool:
        return self.resolver.derives_from(cls, _SEQUENCES.__contains__)

    def run_ahead(self, node: cst.BaseExpression) -> list[cst.FunctionDef]:
        """The functions and methods that run while the batches of an epoch are drawn."""
        return [f for f in self._run_for(node) if f.name.value != "on_epoch_end"]

    def handed_out(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What a Sequence or generator of the script's gives for a batch, as far as its text shows."""
        yields = [y for f in self.generators.of(node) for y in self.tree.yields.get(f, ())]
        found = [y.value for y in yields if isinstance(y.value, cst.BaseExpression)]
        found += [made.elt for made in self._generator_expressions(node)]
        for value in self.resolver.values(node):
            if isinstance(value, Object) and self._is_sequence(value):
                method = self.resolver.method(value.of, "__getitem__")
                found += self.resolver.returned(method) if isinstance(method, cst.FunctionDef) else []
        return found

    # -- in loops of the script's own ----------------------------------------------------------------------------

    def gives_batches(self, node: cst.BaseExpression) -> bool:
        """Whether each turn of a loop over this surely gets a batch: `fit` takes nothing else, but a loop may get
        single samples."""
        if self.is_sequence(node) or self._splits(node):
            return True
        functions = self.generators.of(node)
        return bool(functions) and all(self.yields_rows(f) for f in functions)

    def yields_rows(self, function: cst.FunctionDef) -> bool:
        """Whether all that the generator function yields surely are batches."""
        yields = self.tree.yields.get(function, ())
        return bool(yields) and all(isinstance(y.value, cst.BaseExpression) and self._are_rows(y.value) for y in yields)

    def _are_rows(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, (cst.Tuple, cst.List)):
            found = [self.rows.of(e.value) for e in node.elements]
            return len(found) > 1 and all(found) and len({r.chosen for r in found if r is not None}) == 1
        return False

    def _splits(self, node: cst.BaseExpression) -> bool:
        """`zip(np.array_split(x, 10), np.array_split(y, 10))`"""
        if not isinstance(node, cst.Call) or External("builtins.zip") not in self.resolver.values(node.func):
            return False
        parts = [self.rows.dealt_out(node, (i,)) for i in range(len(node.args))]
        return len(parts) > 1 and all(parts) and len({p.chosen for p in parts if p is not None}) == 1

    # -- random numbers in threads -------------------------------------------------------------------------------

    def obstacle(self, node: cst.BaseExpression, fit: cst.Call) -> Refusal | None:
        """Why the batches of a source that `fit` reads may differ from worker to worker."""
        draws = self._draw_in(self.run_ahead(node), self._made_by(node))
        flows = [v.call for v in self.resolver.values(node) if isinstance(v, Result) and _is_flow(v)]
        if flows and self._has_several_threads(node, fit):
            why = "several threads shuffle and change these images, in another order on each worker"
            return Refusal(flows[0], why, "leave out `workers` and `use_multiprocessing`", breaks_training=True)
        if draws is None:
            return None
        if self._has_several_threads(node, fit):
            why = "several threads draw these random numbers, in another order on each worker"
            return Refusal(draws, why, _ADVICE, breaks_training=True)
        others = [
            a.value for a in (argument(fit, "validation_data", 7), argument(fit, "callbacks", 5)) if a is not None
        ]
        if any(self._draw_in(self._run_for(other), self._made_by(other)) is not None for other in others):
            why = "training and validation draw from one random generator, in threads that take turns by chance"
            return Refusal(draws, why, _ADVICE, breaks_training=True)
        return None

    def _has_several_threads(self, node: cst.BaseExpression, fit: cst.Call) -> bool:
        objects = [v for v in self.resolver.values(node) if isinstance(v, Object)]
        inside = [c for c in self.tree.calls if any(self.tree.contains(v.of.node, c) for v in objects)]
        for call in (fit, *inside, *(v.call for v in objects if v.call is not None)):
            workers, processes = argument(call, "workers"), argument(call, "use_multiprocessing")
            if workers is not None and not (isinstance(workers.value, cst.Integer) and workers.value.value in "01"):
                return True
            if processes is not None and not (
                isinstance(processes.value, cst.Name) and processes.value.value == "False"
            ):
                return True
        return False

    def _run_for(self, node: cst.BaseExpression) -> list[cst.FunctionDef]:
        """The functions and methods that run while batches are drawn from the expression, or callbacks called."""
        roots = list(self.generators.of(node))
        for value in self._each(node):
            if isinstance(value, Object):
                for cls in self.resolver.lineage(value.of):
                    roots += [f for f in self.tree.functions if self._is_run_later(f, cls)]
        return roots

    def _is_run_later(self, function: cst.FunctionDef, cls: Class) -> bool:
        return self.tree.class_of(function) is cls.node and function.name.value != "__init__"

    def _each(self, node: cst.BaseExpression) -> Iterator[Value]:
        if isinstance(node, (cst.List, cst.Tuple)):
            for element in node.elements:
                yield from self._each(element.value)
        else:
            yield from self.resolver.values(node)

    def _made_by(self, node: cst.BaseExpression) -> list[cst.Call]:
        if isinstance(node, cst.Call):
            return [node]
        return self.generators.made(node) if isinstance(node, (cst.Name, cst.Attribute)) else []

    def _draw_in(self, roots: list[cst.FunctionDef], made_by: list[cst.Call]) -> cst.Call | None:
        """A draw from a generator that all threads share, in one of the functions or in what they call, which the calls
        that made the batches do not switch off."""
        bodies: list[cst.CSTNode] = [*roots]
        for body in bodies:
            for call in self.tree.calls:
                if not self.tree.contains(body, call) or self._is_switched_off(call, body, made_by):
                    continue
                for value in self.resolver.values(call.func):
                    if isinstance(value, Function) and value.node not in bodies:
                        bodies.append(value.node)
                    path = value.path if isinstance(value, External) else ""
                    if path.startswith(_SHARED_RANDOMNESS) and path not in _OWN_GENERATORS:
                        return call
        return None

    def _is_switched_off(self, node: cst.CSTNode, body: cst.CSTNode, made_by: list[cst.Call]) -> bool:
        """Whether it stands under `if shuffle:` in a function that all these calls give False for it, or nothing."""
        if not isinstance(body, cst.FunctionDef) or not made_by:
            return False
        if any(arg.star for call in made_by for arg in call.args):
            return False
        if not all(
            any(isinstance(v, Function) and v.node is body for v in self.resolver.values(call.func)) for call in made_by
        ):
            return False
        tests = [
            owner.test.value
            for owner in self.tree.ancestors(node)
            if isinstance(owner, cst.If) and isinstance(owner.test, cst.Name) and self.tree.contains(owner.body, node)
        ]
        params = [*body.params.params, *body.params.kwonly_params]
        for i, param in enumerate(params):
            name = param.name.value
            if name in tests and len(self.tree.scope_of(body.body).bindings.get(name, ())) == 1:
                position = i if i < len(body.params.params) else None
                given = [argument(call, name, position) for call in made_by]
                if all(is_false(arg.value if arg is not None else param.default) for arg in given):
                    return True
        return False


def _is_flow(value: Value) -> bool:
    return (
        isinstance(value, Result)
        and isinstance(value.function, Member)
        and value.function.name in _FLOWS
        and origin(value.function.owner).startswith(_IMAGE_GENERATORS)
    )


def _are_windows(value: Value) -> bool:
    if not isinstance(value, Result) or calls(value) != _WINDOWS or any(arg.star for arg in value.call.args):
        return False
    shuffled = argument(value.call, "shuffle", 7)
    return shuffled is None or is_false(shuffled.value)
