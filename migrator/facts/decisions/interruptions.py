"""Signal handlers and other threads: where no workers come together, at a time that is a matter of chance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# They call what they are given whenever it suits them.
_INTERRUPTING = frozenset({"signal.signal", "threading.Thread", "threading.Timer", "multiprocessing.Process"})


class Interruptions:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    def contain(self, node: cst.CSTNode) -> bool:
        """Whether it runs in a signal handler or another thread, where no workers come together."""
        return self.tree.is_in(node, self._bodies)

    @cached_property
    def _bodies(self) -> list[cst.CSTNode]:
        """What signal handlers and other threads do."""
        found: list[cst.CSTNode] = []
        for call in self.tree.calls:
            if any(name in _INTERRUPTING for name in self.resolver.public(call.func)):
                handlers = [f for arg in call.args for f in functions_in(self.resolver, arg.value)]
                found += [body for handler in handlers for body in self.training.reached_from(handler)]
        return found

    def sets(self) -> Iterator[cst.BaseExpression]:
        """What a signal handler, or another thread, sets: when a worker sees it is a matter of chance."""
        for node in self.tree.all_of(cst.Assign, cst.AnnAssign, cst.AugAssign):
            value = cast("cst.Assign | cst.AnnAssign | cst.AugAssign", node).value
            if value is not None and self.contain(node):
                yield value
