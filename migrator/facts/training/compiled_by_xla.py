"""Functions that XLA compiles, and that hold collectives between workers once the script is migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis.values import Repair
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.ports.ported import Ports
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_SETTINGS = ("jit_compile", "experimental_compile")


class CompiledByXla:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        ports: Ports,
        ranks: Ranks,
        repairs: Callable[[], Sequence[Repair]],
    ) -> None:
        self._tree = tree
        self._resolver = resolver
        self._training = training
        self._ports = ports
        self._ranks = ranks
        self._repairs = repairs

    @cached_property
    def steps(self) -> list[cst.Call]:
        """The calls of `tf.function` around an update, around the place where its gradients are reduced, or around what
        the workers put together."""
        return [
            call
            for call in self._tree.calls
            if any(True for _ in self.settings(call))
            and ((self._is_of_functions(call.func) and self._waits_for_others(call)) or self._is_prepared(call))
        ]

    def settings(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """What turns XLA on in this call, or may, whatever the number of workers."""
        for name in _SETTINGS:
            given = argument(call, name)
            if given is not None and not _is_off(given.value) and not self._ranks.depends_on_size(given.value):
                yield given.value

    def _is_of_functions(self, node: cst.BaseExpression) -> bool:
        return External("tensorflow.function") in self._resolver.values(node)

    def _is_prepared(self, call: cst.Call) -> bool:
        """`partial(tf.function, jit_compile=True)`: which functions it compiles is not asked, as graphs do it, too."""
        is_partial = External("functools.partial") in self._resolver.values(call.func)
        return is_partial and bool(call.args) and self._is_of_functions(call.args[0].value) and bool(self._waiting)

    def _waits_for_others(self, call: cst.Call) -> bool:
        owner = self._tree.parent.get(call)
        if isinstance(owner, cst.Decorator):
            functions: list[cst.CSTNode] = [self._tree.parent[owner]]
        else:
            functions = [v.node for v in self._resolver.values(call) if isinstance(v, Function)]
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
