"""Signal handlers and other threads: where no workers come together, at a time that is a matter of chance."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Value
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# They call what they are given whenever it suits them.
_INTERRUPTING = frozenset({
    "signal.signal", "threading.Thread", "threading.Timer", "multiprocessing.Process", "_thread.start_new_thread",
})  # fmt: skip
# What their methods are given runs beside the script, and so does the `run` of what derives from them.
_BESIDE = ("threading.", "multiprocessing.", "concurrent.futures.", "subprocess.")
_SUBMITTING = ("submit", "apply_async")


class Interruptions:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    def contain(self, node: cst.CSTNode) -> bool:
        """Whether it runs in a signal handler or another thread, where no workers come together."""
        return self.tree.is_in(node, self.bodies)

    @cached_property
    def bodies(self) -> list[cst.CSTNode]:
        """What signal handlers and other threads do."""
        return [body for call in self._interrupting for body in self._run_by(call)]

    @cached_property
    def _interrupting(self) -> list[cst.Call]:
        return [c for c in self.tree.calls if any(name in _INTERRUPTING for name in self.resolver.public(c.func))]

    @cached_property
    def changing(self) -> list[cst.CSTNode]:
        """All that leaves something changed at such a time: what a pool is given, too, of which the results are waited
        for; but for a thread that the training is in."""
        return [*self.bodies, *(body for bodies in self._beside.values() for body in bodies)]

    @cached_property
    def starting(self) -> cst.CSTNode:
        """What has the first of them run: a call, or the name of a thread's `run`."""
        return next(iter((*self._interrupting, *self._beside)))

    @cached_property
    def _beside(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """What else runs beside the script, by what starts it."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for call in self.tree.calls:
            if method_called(call) in _SUBMITTING and any(map(is_beside, self.resolver.values(call.func))):
                found[call] = self._run_by(call)
        for cls in self.tree.classes:
            run = self.resolver.method(Class(cls), "run")
            if run is not None and self.resolver.derives_from(Class(cls), lambda path: path.startswith(_BESIDE)):
                bodies = self.training.reached_from(run)
                if not any(self.tree.is_in(site, bodies) for site in self.training.sites):
                    found[run.name] = bodies
        return found

    def _run_by(self, call: cst.Call) -> list[cst.CSTNode]:
        """What runs in the functions that a call is given."""
        functions = [f for arg in call.args for f in functions_in(self.resolver, arg.value)]
        return [body for function in functions for body in self.training.reached_from(function)]

    def sets(self) -> Iterator[cst.BaseExpression]:
        """What a signal handler, or another thread, sets: when a worker sees it is a matter of chance."""
        for node in self.tree.all_of(cst.Assign, cst.AnnAssign, cst.AugAssign):
            value = cast("cst.Assign | cst.AnnAssign | cst.AugAssign", node).value
            if value is not None and self.contain(node):
                yield value


def is_beside(value: Value) -> bool:
    """Whether it is a thread, a pool or another process, or a method of one."""
    return origin(value).startswith(_BESIDE)
