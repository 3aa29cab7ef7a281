"""Functions that XLA compiles, and that hold collectives between workers once the script is migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis.values import Repair
from migrator.facts.objects.keywords import Keywords
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Value
from migrator.facts.ports.ported import Ports
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# By where they may stand without their names.
_SETTINGS = {"jit_compile": 3, "experimental_compile": None}


class CompiledByXla:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        keywords: Keywords,
        training: Training,
        ports: Ports,
        ranks: Ranks,
        repairs: Callable[[], Sequence[Repair]],
    ) -> None:
        self._tree = tree
        self._resolver = resolver
        self._keywords = keywords
        self._training = training
        self._ports = ports
        self._ranks = ranks
        self._repairs = repairs

    @cached_property
    def steps(self) -> list[cst.Call]:
        """The calls of `tf.function` around an update, around the place where its gradients are reduced, or around what
        the workers put together; also where what they are around is not seen."""
        return [
            call
            for call in self._tree.calls
            if any(True for _ in self.settings(call)) and self._makes_functions(call) and self._may_wait(call)
        ]

    def settings(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What turns XLA on in this call, or may, whatever the number of workers."""
        for name, position in _SETTINGS.items():
            given = self._keywords.given(call, name, position)
            if given is not None and not _is_off(given) and not self._ranks.depends_on_size(given):
                yield given

    def _makes_functions(self, call: cst.Call) -> bool:
        """`tf.function(…)`, or `partial(tf.function, …)`, which does later."""
        is_partial = External("functools.partial") in self._resolver.values(call.func)
        makes = call.args[0].value if is_partial and call.args else call.func
        return External("tensorflow.function") in self._resolver.values(makes)

    def _may_wait(self, call: cst.Call) -> bool:
        if not self._waiting:
            return False
        owner = self._tree.parent.get(call)
        decorated = self._tree.parent[owner] if isinstance(owner, cst.Decorator) else None
        values: Sequence[Value]
        if isinstance(decorated, cst.FunctionDef):
            values = [Function(decorated)]
        else:
            values = self._resolver.values(call.args[0].value) if call.args and not call.args[0].star else ()
        functions = [v.node for v in values if isinstance(v, Function)]
        if not functions or len(functions) < len(values):
            return True
        bodies = [body for function in functions for body in self._training.reached_from(function)]
        return any(self._tree.contains(body, site) for body in bodies for site in self._waiting)

    @cached_property
    def _waiting(self) -> list[cst.CSTNode]:
        """Where workers wait for each other, or will."""
        return [
            *(site for u in self._training.updates for site in (u.call, *(g.computed for g in u.gradients))),
            *(operand.node for repair in self._repairs() for operand in repair.operands),
            *(port.call for port in self._ports.calls),
        ]


def _is_off(setting: cst.BaseExpression) -> bool:
    """Whether it says no, or leaves it to Keras, for whose models the runtime says no."""
    return isinstance(setting, cst.SimpleString) or (
        isinstance(setting, cst.Name) and setting.value in ("False", "None")
    )
