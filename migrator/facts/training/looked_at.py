"""Gradients that change no weights: importances of weights for another task, norms that are printed.

Where all workers take them of the same loss, they are the same everywhere, and nothing is to be put together.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Value
from migrator.facts.program.tree import FunctionLike, Tree

_LOOKING = ("tensorflow.", "keras.", "numpy.", "builtins.", "math.", "matplotlib.", "logging.")
_CHANGING = api.SETTING_VARIABLES | {"minimize", "apply_gradients", "apply", "set_value", "setattr", "copyto"}


class LookedAt:
    def __init__(self, tree: Tree, resolver: Resolver, losses: Losses, locality: Locality) -> None:
        self.tree = tree
        self.resolver = resolver
        self.losses = losses
        self.locality = locality

    def only(self, call: cst.CSTNode) -> bool:
        """Whether these gradients are of a loss that all workers have, and nothing that is made of them is handed to
        what may change weights: functions of the script are followed, methods of other objects are not."""
        if not isinstance(call, cst.Call) or not self.losses.are_same(call):
            return False
        reached = self.locality.reached_from(call)
        takers = [c for c in self.tree.calls if any(reached.of(arg.value) & ~Mark.CHOSEN for arg in c.args)]
        return all(self._looks(value) for taker in takers for value in self._functions(taker))

    def are_given_back(self, call: cst.CSTNode, functions: Iterable[FunctionLike]) -> bool:
        """Whether one of the functions returns what is made of these gradients."""
        reached = self.locality.reached_from(cst.ensure_type(call, cst.Call))
        return any(reached.of(node) & ~Mark.CHOSEN for f in functions for node in self.resolver.returned(f))

    def _functions(self, call: cst.Call) -> list[Value | None]:
        return list(self.resolver.values(call.func)) or [None]

    @staticmethod
    def _looks(function: Value | None) -> bool:
        if isinstance(function, External):
            is_setting = function.path.rpartition(".")[2] in _CHANGING or api.SETTING_FUNCTIONS.match(function.path)
            return function.path.startswith(_LOOKING) and not is_setting
        return isinstance(function, (Function, Class))
