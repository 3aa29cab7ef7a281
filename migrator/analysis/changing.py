"""State of Python's that a graph has as it was when it was traced.

`steps += 1` runs where a step is traced, and what reads `steps` there is a constant of that graph. TensorFlow traces
again for rows of another shape: on one device for the last, smaller batch, on N workers where a worker's part of it has
another shape, which need not be. So what changes meanwhile, and is read while a step is traced, may be another number;
what changes once an epoch is none, as all shapes are met in the first one. Keras's `fit` traces once for all shapes,
but the runtime may have it traced once more to know the rows of a step: there it is what the step itself changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.classes import CUT
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import Atom, Container, Data, File, Instance, Value
from migrator.facts.program.tree import Tree
from migrator.records import dataclass, replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

Key = tuple[object, str]  # the scope or object that holds the state, and its name; a container has none
_IN_TURN = (cst.Expr, cst.SimpleStatementLine, cst.IndentedBlock, cst.With)
_HELD = ("list", "dict", "set", "counter")


@dataclass(frozen=True)
class _Moment:
    """When something is set: in which loops that run, and whether where a graph is made."""

    loops: tuple[cst.CSTNode, ...]
    is_traced: bool


@dataclass(frozen=True)
class _Tracing:
    """A step that is traced: from which running frame on, in which loop; none where Keras loops."""

    depth: int
    loop: cst.CSTNode | None
    function: cst.CSTNode | None


class Changing:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.loops: list[cst.CSTNode] = []  # that run now, in whichever function
        self._tracing: _Tracing | None = None
        self._is_building = False
        # All of the following is known from the last time that the program was run, too.
        self._changes: dict[Key, dict[_Moment, Any]] = {}
        self._fresh: dict[Atom, _Moment] = {}  # objects, by the moment in which they are made
        self._read: set[Key] = set()
        # What a step sets before it reads it, by the step: a tensor of that graph, most often.
        self._set_first: dict[tuple[cst.CSTNode | None, Key], bool] = {}

    @property
    def is_tracing(self) -> bool:
        return self._tracing is not None

    # -- where steps are traced ----------------------------------------------------------------------------------

    @contextmanager
    def traced(self, function: cst.CSTNode | None, given: Iterable[Value], *, by_shape: bool = True) -> Iterator[None]:
        """While a step is traced; `by_shape`: anew for each shape of what it is given."""
        loop = self.loops[-1] if self.loops and by_shape else None
        is_made_anew = loop is not None and function is not None and self._contains(loop, function)
        before = self._tracing
        if before is None and not self._is_eager and not is_made_anew and not (by_shape and self._is_even(given)):
            self._tracing = _Tracing(len(self.run.running), loop, function)
        try:
            yield
        finally:
            self._tracing = before

    @contextmanager
    def building(self) -> Iterator[None]:
        """While Keras builds a layer, as it does once: what that sets is set before anything is read."""
        before, self._is_building = self._is_building, True
        try:
            yield
        finally:
            self._is_building = before

    @cached_property
    def _is_eager(self) -> bool:
        """Whether the program has TensorFlow make no graphs of functions."""
        return any(a.attr.value.endswith("run_functions_eagerly") for a in self.run.tree.all_of(cst.Attribute))

    def _is_even(self, given: Iterable[Value]) -> bool:
        """Whether a worker's parts of the batches have one size: those of a dataset without a smaller batch at the end,
        or the same rows in each turn. What all workers have is of one size on all of them."""
        leaves = [d for value in given for d in self.run.objects.leaves(value) if not d.is_replicated]
        return all(d.counts and all(map(self._is_of_one_size, d.counts)) for d in leaves)

    def _is_of_one_size(self, batch: v.Site) -> bool:
        if batch.context and batch.context[0] in self.run.full_batches:
            return True
        return not any(self._contains(loop, batch.node) for loop in self.loops)

    # -- what changes --------------------------------------------------------------------------------------------

    def note(self, owner: object, name: str, value: Value) -> None:
        """Notes that the name, or the attribute of the object, is set now."""
        if self._may_be_again:
            self._note((owner, name), value.constant)

    def note_filled(self, owner: Atom) -> None:
        """Notes that what a list or the like holds is set now."""
        if isinstance(owner, Container) and owner.kind in _HELD and self._may_be_again:
            maker = self._maker(owner.site.node)
            if maker is not None and maker in self.run.calls.stack:
                self._fresh.setdefault(owner, self._moment)
            self._note((owner, ""), NOT_CONSTANT)

    def note_cleared(self, owner: Container, call: cst.CSTNode) -> None:
        """Notes that a step begins with an empty list or the like: what it reads from there on it has put there."""
        frames = self.run.running[self._tracing.depth :] if self._tracing is not None else []
        is_in_step = bool(frames) and self.run.tree.function_of(call) is frames[0].scope.node
        cleared = _cleared(self.run.tree, call)
        is_it = cleared is not None and self.run.seen.get(cleared, v.NOTHING).only == owner
        if self._tracing is not None and is_in_step and is_it:
            self._set_first.setdefault((self._tracing.function, (owner, "")), True)

    def note_made(self, made: Instance | Container) -> None:
        if self._may_be_again:
            self._fresh.setdefault(made, self._moment)

    @property
    def _may_be_again(self) -> bool:
        """Whether what runs now may run for another step, too."""
        return not self._is_building and (bool(self.loops) or self._tracing is not None)

    @property
    def _moment(self) -> _Moment:
        return _Moment(tuple(self.loops), self._tracing is not None)

    def _note(self, key: Key, constant: Any) -> None:
        if self._tracing is not None and key[1]:
            self._set_first.setdefault((self._tracing.function, key), True)
        known = self._changes.setdefault(key, {})
        moment = self._moment
        if moment not in known:
            known[moment] = constant
            self.run.heap.is_stale = self.run.heap.is_stale or key in self._read
        elif known[moment] != constant:
            known[moment] = NOT_CONSTANT

    # -- what is read --------------------------------------------------------------------------------------------

    def read_name(self, node: cst.Name, value: Value, frame: Frame) -> None:
        if self._tracing is None:
            return
        scope = frame.scope.lookup(node.value)
        inside = self.run.running[self._tracing.depth :]
        if scope is not None and all(f.scope is not scope for f in inside) and not self._is_inside(scope.node):
            self._note_read((scope, node.value), node, value)
        self._read_held(node, value)

    def read_attribute(self, node: cst.Attribute, owner: Value, value: Value) -> None:
        if self._tracing is None:
            return
        for atom in owner:
            name = self.run.tree.name_of(node)
            keys: list[Key] = [(atom, name)]
            if isinstance(atom, Instance):
                keys += [(cls, name) for cls in self.run.classes.lineage(atom.cls)]
            elif isinstance(atom, File):
                keys = [(self.run.tree.scopes[atom.module], name)]
            for key in keys:
                if not self._is_fresh(atom):
                    self._note_read(key, node, value)
        self._read_held(node, value)

    def _read_held(self, node: cst.CSTNode, value: Value) -> None:
        tree = self.run.tree
        if value.only is not None and node in tree.parent and _cleared(tree, tree.parent[tree.parent[node]]) is node:
            return
        for atom in value:
            if isinstance(atom, Container) and not self._is_fresh(atom):
                self._note_read((atom, ""), node, Value(Data()))

    def _contains(self, outer: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether it stands there; code of packages stands nowhere."""
        order = self.run.tree.order
        return outer in order and node in order and self.run.tree.contains(outer, node)

    def _is_inside(self, node: cst.CSTNode) -> bool:
        """Whether it belongs to the function that is traced."""
        function = self._tracing.function if self._tracing is not None else None
        return function is not None and (node is function or self._contains(function, node))

    def _is_fresh(self, atom: Atom) -> bool:
        """Whether the object is made in each step anew; a worker's part of one as the whole."""
        site = getattr(atom, "site", None)
        if isinstance(atom, (Container, Instance)) and atom.site.context[-1:] == (CUT,):
            atom = replace(atom, site=v.Site(atom.site.node, atom.site.context[:-1]))
        tracing, made = self._tracing, self._fresh.get(atom)
        if tracing is None or (made is not None and (made.is_traced or tracing.loop in made.loops)):
            return True
        if site is None:
            return False
        loop = tracing.loop
        inside = {frame.scope.node for frame in self.run.running[tracing.depth :]}
        is_in_loop = loop is not None and self._contains(loop, site.node)
        return is_in_loop or self._is_inside(site.node) or self._maker(site.node) in inside

    def _maker(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The function that makes there what it holds; `**kwargs` and `*args` are made as it is called."""
        if isinstance(node, cst.Param):
            return next(o for o in self.run.tree.ancestors(node) if isinstance(o, (cst.FunctionDef, cst.Lambda)))
        is_of_arguments = isinstance(node, (cst.FunctionDef, cst.Lambda))
        return node if is_of_arguments else self.run.tree.function_of(node)

    def _note_read(self, key: Key, node: cst.CSTNode, value: Value) -> None:
        if self._tracing is None or self._set_first.setdefault((self._tracing.function, key), False):
            return
        self._read.add(key)
        moments = self._changes.get(key)
        if moments is None or value.data is None or value.data.constant is not NOT_CONSTANT:
            return
        loop = self._tracing.loop
        meanwhile = {m: constant for m, constant in moments.items() if m.is_traced or (loop and loop in m.loops)}
        # A flag that the first trace sets is set in all others.
        is_flag = all(m.is_traced and (c is True or c is False) for m, c in meanwhile.items())
        if meanwhile and not is_flag:
            self.run.baked.add(node)


def _cleared(tree: Tree, call: cst.CSTNode | None) -> cst.BaseExpression | None:
    """What `held.clear()` empties, a statement that runs whenever its function does."""
    func = call.func if isinstance(call, cst.Call) else None
    if not isinstance(func, cst.Attribute) or func.attr.value != "clear" or call is None:
        return None
    around = next(o for o in tree.ancestors(call) if not isinstance(o, _IN_TURN))
    return func.value if isinstance(around, cst.FunctionDef) else None
