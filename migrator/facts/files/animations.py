"""Moving pictures of matplotlib's, which are drawn as they are saved."""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Result, Value
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import FunctionLike, Tree

_DRAWN_BEFORE = ("matplotlib.animation.ArtistAnimation", "celluloid.Camera")
_DRAWING = "matplotlib.animation.FuncAnimation"
_RANDOM = ("numpy.random.", "tensorflow.random.", "keras.random.", "keras.backend.random")
_CALCULATING = ("numpy.", "tensorflow.", "keras.", "builtins.", "matplotlib.", "math.")
_READING = frozenset({"numpy", "item", "reshape", "astype", "copy", "flatten", "squeeze", "mean", "sum", "format"})


class Animations:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    def is_one(self, value: Value) -> bool:
        """Whether the value is one of which nothing is done but drawn while it is saved: what its function runs besides
        would run on the chief alone."""
        path = origin(value)
        if path in _DRAWN_BEFORE:
            return True
        return path == _DRAWING and isinstance(value, Result) and self._only_draws(value.call)

    def _only_draws(self, call: cst.Call) -> bool:
        given = [argument(call, name, place) for name, place in (("func", 1), ("frames", 2), ("init_func", 3))]
        if given[0] is None or any(arg.star for arg in call.args):
            return False
        drawn = [v for arg in (given[0], given[2]) if arg is not None for v in self.resolver.values(arg.value)]
        frames = self.resolver.values(given[1].value) if given[1] is not None else ()
        return (
            bool(drawn)
            and all(isinstance(v, Function) and self._is_drawing(v.node) for v in drawn)
            and not any(isinstance(v, Function) for v in frames)
        )

    def _is_drawing(self, function: FunctionLike) -> bool:
        if any(self.tree.contains(function, node) for node in self.tree.all_of(cst.Global, cst.Nonlocal, cst.Yield)):
            return False
        set_there = [t for t in self.tree.all_of(cst.AssignTarget, cst.AugAssign) if self.tree.contains(function, t)]
        targets = [t.target for t in set_there if isinstance(t, (cst.AssignTarget, cst.AugAssign))]
        if not all(isinstance(target, (cst.Name, cst.Tuple)) for target in targets):
            return False
        return all(self._only_calculates(c) for c in self.tree.calls if self.tree.contains(function.body, c))

    def _only_calculates(self, call: cst.Call) -> bool:
        values = self.resolver.values(call.func)
        return bool(values) and all(self._is_known(v) for v in values)

    def _is_known(self, value: Value) -> bool:
        if isinstance(value, External):
            return value.path.startswith(_CALCULATING) and not value.path.startswith(_RANDOM)
        if isinstance(value, Result):
            return self.kinds.has_weights(value)  # a model of Keras's, which is run
        if isinstance(value, Member):
            return origin(value.owner).startswith("matplotlib.") or value.name in _READING or value.name == "predict"
        return False
