"""Code in which the runtime puts nothing together, as all workers have all of what it works on: that which Keras
evaluates, and calls of models and functions that are planned as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments
from migrator.analysis.values import Atom, Bound, External, Function, Made, Method, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


# They run the functions that they are given, and are done with these.
_AT_ONCE = frozenset({
    "tensorflow.cond", "tensorflow.map_fn", "tensorflow.vectorized_map", "tensorflow.while_loop", "builtins.sorted",
})  # fmt: skip


def _runs_at_once(called: Atom) -> bool:
    """Whether what is called has run the functions that it calls by the time that it gives something."""
    if isinstance(called, External):
        return called.path in _AT_ONCE
    return called.path.startswith("keras.") if isinstance(called, Made) else not isinstance(called, Method)


class Evaluations:
    def __init__(self, run: Run) -> None:
        self.run = run
        # Whether such code runs; be it a graph that may have been made in a training, where all is put together.
        self.are_running = False
        self._around = 0  # so many functions run around it
        # The call of a model, on what all workers have, of which code runs; or of a function, if that is planned.
        self.entered: cst.CSTNode | None = None

    @property
    def are_left_alone(self) -> bool:
        """Whether such code runs, and no function around it has become a graph meanwhile."""
        return self.are_running and self.run.traced.isdisjoint(self.run.calls.stack[self._around :])

    @contextmanager
    def running(self) -> Iterator[None]:
        """While Keras evaluates or predicts, or a model is called that is to put nothing together. A function of which
        TensorFlow makes a graph by itself may have been traced in a training."""
        before = self.are_running, self._around
        self.are_running, self._around = True, self._around if self.are_running else len(self.run.calls.stack)
        try:
            yield
        finally:
            self.are_running, self._around = before

    @contextmanager
    def entering(self, model: Atom, args: Arguments, node: cst.CSTNode) -> Iterator[None]:
        """While a model runs in a call that can be written otherwise, on what all workers have."""
        if model in self.run.traced_models:
            with self._in_a_graph():
                yield
            return
        called = self.run.seen.get(node.func) if isinstance(node, cst.Call) else None
        is_written = called is not None and model in called.objects and node in self.run.tree.order
        is_divided = node in self.run.plan.divided
        if self.entered is not None or self.are_left_alone or not is_written or is_divided:
            yield
            return
        with self._inside(args, node):
            yield

    @contextmanager
    def calling(self, function: Value, args: Arguments, node: cst.Call) -> Iterator[None]:
        """While functions of the program run in a call that is planned as one on what all workers have."""
        is_of_functions = function.data is None and all(isinstance(atom, (Bound, Function)) for atom in function)
        if not is_of_functions or self.are_left_alone:
            yield
            return
        with self._inside(args, node):
            yield

    @contextmanager
    def _inside(self, args: Arguments, node: cst.CSTNode) -> Iterator[None]:
        """While the call runs, if it is given nothing but what all workers have."""
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        is_planned = node in self.run.plan.undivided
        if any(not d.is_replicated or d.symbolic for d in leaves):
            if is_planned:
                self.run.divided.add(node)
            yield
            return
        before, self.entered = self.entered, node
        try:
            with self.running() if is_planned else nullcontext():
                yield
        finally:
            self.entered = before

    @contextmanager
    def _in_a_graph(self) -> Iterator[None]:
        """While an object runs of which TensorFlow has made a graph, perhaps in a training."""
        before, self.are_running = self.are_running, False
        try:
            yield
        finally:
            self.are_running = before

    def note_called(self, function: Function, node: cst.CSTNode) -> None:
        """Notes that a function runs by the call: of a generator, or of another library, it may run later on."""
        called = self.run.seen.get(node.func) if isinstance(node, cst.Call) else None
        is_at_once = called is None or all(map(_runs_at_once, called.objects))
        if not is_at_once or self.run.definitions.is_generator(function.node):
            self.note_part()

    def note_part(self) -> None:
        """Notes that what runs now works on a worker's part of something, or may run once the call is over."""
        if self.entered is not None and self.entered in self.run.plan.undivided:
            self.run.divided.add(self.entered)
